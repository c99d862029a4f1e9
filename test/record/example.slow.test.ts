import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { expect, it } from 'vitest'
import { temporaryFolder } from '../app.ts'

const root = join(import.meta.dirname, '../..')

it('the example of the guide passes against its recording, without its server', () => {
  const dir = temporaryFolder()
  cpSync(join(root, 'examples/record-and-replay'), dir, { recursive: true })
  mkdirSync(join(dir, 'node_modules'))
  symlinkSync(root, join(dir, 'node_modules/pegboard'))
  const { NODE_TEST_CONTEXT: _nested, ...env } = process.env
  // The server comes from npx, which has no registry here.
  const offline = { ...env, PEGBOARD_STATE_DIR: join(dir, 'state'), npm_config_registry: 'http://127.0.0.1:9' }
  const output = execFileSync(process.execPath, ['--test', '--test-reporter=tap'], {
    cwd: dir,
    env: offline,
    encoding: 'utf8',
  })
  expect(output).toContain('# pass 2')
  expect(output).toContain('# fail 0')
})

it('pegboard call and list answer from a recording', () => {
  const dir = temporaryFolder()
  const pegboard = (...args: string[]): string =>
    execFileSync(process.execPath, [join(root, 'dist/cli/main.js'), ...args], {
      cwd: dir,
      env: { ...process.env, PEGBOARD_STATE_DIR: join(dir, 'state') },
      encoding: 'utf8',
    })
  const example = join(root, 'examples/record-and-replay')
  const offline = ['--replay', join(example, 'cassettes'), '--config', join(dir, 'mcp.config.json')]
  cpSync(join(example, 'mcp.config.json'), join(dir, 'mcp.config.json'))
  expect(pegboard('list', ...offline)).toContain('memory.search_nodes')
  expect(JSON.parse(pegboard('call', 'memory.search_nodes', 'query=tea', ...offline)).entities).toEqual([
    { name: 'Ann', entityType: 'person', observations: ['likes tea'] },
  ])
})

it('pegboard record runs one tool and says what the folder holds', () => {
  const dir = temporaryFolder()
  const memory = join(root, 'node_modules/@modelcontextprotocol/server-memory/dist/index.js')
  const config = {
    mcpServers: { memory: { command: 'node', args: [memory], env: { MEMORY_FILE_PATH: join(dir, 'm.json') } } },
  }
  writeFileSync(join(dir, 'mcp.config.json'), JSON.stringify(config))
  const { stdout, stderr } = spawnSync(
    process.execPath,
    [join(root, 'dist/cli/main.js'), 'record', 'tapes', 'memory.read_graph', '--config', 'mcp.config.json'],
    { cwd: dir, env: { ...process.env, PEGBOARD_STATE_DIR: join(dir, 'state') }, encoding: 'utf8' },
  )
  expect(JSON.parse(stdout)).toEqual({ entities: [], relations: [] })
  expect(stderr).toContain('tapes holds 1 call of 1 server.')
})

it('a client that starts pegboard record, and later serve --replay, sees the same first list and answers', async () => {
  const dir = temporaryFolder()
  const memory = join(root, 'node_modules/@modelcontextprotocol/server-memory/dist/index.js')
  const write = (command: string): void => {
    // A replay needs no values of variables.
    const env = command === 'node' ? { MEMORY_FILE_PATH: join(dir, 'm.json') } : { TOKEN: '${NOT_SET_ANYWHERE}' }
    const mcpServers = { graph: { command, args: [memory], env } }
    writeFileSync(join(dir, 'mcp.config.json'), JSON.stringify({ exposure: { mode: 'direct' }, mcpServers }))
  }
  const visit = async (...args: string[]): Promise<unknown> => {
    const client = new Client({ name: 'test', version: '1' })
    const env = { PATH: process.env['PATH'] ?? '', PEGBOARD_STATE_DIR: join(dir, 'state') }
    const command = [join(root, 'dist/cli/main.js'), ...args, '--config', 'mcp.config.json']
    await client.connect(
      new StdioClientTransport({ command: process.execPath, args: command, cwd: dir, env, stderr: 'ignore' }),
    )
    const { tools } = await client.listTools()
    const entities = [{ name: 'Ann', entityType: 'person', observations: [] }]
    const created = await client.callTool({ name: 'graph__create_entities', arguments: { entities } })
    const read = await client.callTool({ name: 'graph__read_graph', arguments: {} })
    await client.close()
    return { tools: tools.map(({ name }) => name).filter((name) => name.startsWith('graph')), created, read }
  }
  write('node')
  const recorded = await visit('record', 'tapes')
  expect(recorded).toMatchObject({ tools: expect.arrayContaining(['graph__read_graph']) })
  expect(JSON.stringify(recorded)).toContain('Ann')
  write('/nowhere/node')
  expect(await visit('serve', '--replay', 'tapes')).toEqual(recorded)
})
