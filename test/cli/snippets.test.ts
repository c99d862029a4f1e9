import { describe, expect, it } from 'vitest'
import { parametersOf } from '../../src/cli/module-schema.ts'
import { createSnippets } from '../../src/cli/snippets.ts'
import { makeTool } from '../tools.ts'

const stdio = { node: '/usr/bin/node', script: '/opt/pegboard/dist/cli/main.js', config: '/home/ada/my tools.json' }
const text = (reach: Parameters<typeof createSnippets>[0], client: string): string =>
  createSnippets(reach).find((one) => one.client === client)?.text ?? ''

describe('snippetsFor', () => {
  it('has one snippet for each common client', () => {
    expect(createSnippets(stdio).map(({ client }) => client)).toEqual([
      'Claude Desktop',
      'Claude Code',
      'Cursor',
      'VS Code',
    ])
  })

  const start = {
    command: '/usr/bin/node',
    args: ['/opt/pegboard/dist/cli/main.js', 'serve', '--stdio', '--config', '/home/ada/my tools.json'],
  }

  it('starts a process with absolute paths', () => {
    expect(JSON.parse(text(stdio, 'Claude Desktop'))).toEqual({ mcpServers: { pegboard: start } })
    expect(JSON.parse(text(stdio, 'Cursor'))).toEqual({ mcpServers: { pegboard: start } })
    expect(JSON.parse(text(stdio, 'VS Code'))).toEqual({ servers: { pegboard: { type: 'stdio', ...start } } })
    expect(text(stdio, 'Claude Code')).toBe(
      'claude mcp add pegboard -- /usr/bin/node /opt/pegboard/dist/cli/main.js serve --stdio --config "/home/ada/my tools.json"',
    )
  })

  it('starts a process with the served profile', () => {
    const { args } = JSON.parse(text({ ...stdio, profile: 'work' }, 'Claude Desktop')).mcpServers.pegboard
    expect(args).toEqual([...start.args, '--profile', 'work'])
  })

  it('contains address and token for HTTP', () => {
    const reach = { ...stdio, http: { url: 'http://127.0.0.1:3333/mcp', token: 't0ken' } }
    const remote = { url: 'http://127.0.0.1:3333/mcp', headers: { Authorization: 'Bearer t0ken' } }
    expect(JSON.parse(text(reach, 'Claude Desktop'))).toEqual({ mcpServers: { pegboard: start } })
    expect(JSON.parse(text(reach, 'Cursor'))).toEqual({ mcpServers: { pegboard: remote } })
    expect(JSON.parse(text(reach, 'VS Code'))).toEqual({ servers: { pegboard: { type: 'http', ...remote } } })
    expect(text(reach, 'Claude Code')).toBe(
      'claude mcp add --transport http pegboard http://127.0.0.1:3333/mcp --header "Authorization: Bearer t0ken"',
    )
  })

  it('omits the header without a token, and the file without a configuration', () => {
    const reach = { ...stdio, config: undefined, http: { url: 'http://127.0.0.1:1/mcp', token: undefined } }
    expect(JSON.parse(text(reach, 'Cursor'))).toEqual({ mcpServers: { pegboard: { url: 'http://127.0.0.1:1/mcp' } } })
    expect(JSON.parse(text(reach, 'Claude Desktop')).mcpServers.pegboard.args.slice(1)).toEqual(['serve', '--stdio'])
  })
})

describe('parametersOf', () => {
  it('shows hidden parameters beside the published ones, marked', () => {
    const schema = { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] }
    const tool = Object.assign(makeTool('files.read', { schema }), {
      hiddenParameters: { encoding: { type: 'string', default: 'utf8' } },
    })
    expect(parametersOf(tool)).toEqual({
      type: 'object',
      properties: { path: { type: 'string' }, encoding: { type: 'string', default: 'utf8', hidden: true } },
      required: ['path'],
    })
  })
})
