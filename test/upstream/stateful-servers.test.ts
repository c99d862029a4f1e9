import { expect, it } from 'vitest'
import { isStateful } from '../../src/upstream/stateful-servers.ts'
import { parseServer } from '../../src/upstream/upstream-settings.ts'

const stateful = (entry: object, name?: string): boolean => isStateful(parseServer('srv', entry).settings, name)

it.each([
  { command: 'npx', args: ['-y', '@playwright/mcp@latest'] },
  { command: 'npx', args: ['--yes', '--package=puppeteer-mcp-server', 'start'] },
  { command: 'npx', args: ['chrome-devtools-mcp@latest', '--headless'] },
  { command: 'npx', args: ['-y', '@wonderwhy-er/desktop-commander'] },
  { command: '/usr/bin/npx', args: ['@browsermcp/mcp'] },
  { command: 'uvx', args: ['--from', 'jupyter-mcp-server', 'serve'] },
  { command: 'docker', args: ['run', '-i', '--rm', '-e', 'A=1', 'mcp/puppeteer'] },
  { command: 'node', args: ['/opt/node_modules/@playwright/mcp/cli.js'] },
  { command: 'python3', args: ['-m', 'mcp_python_repl'] },
  { command: '/opt/bin/iterm-mcp' },
])('recognizes a server that keeps a page, a shell or variables: %j', (entry) => {
  expect(stateful(entry)).toBe(true)
})

it.each([
  { command: 'npx', args: ['-y', '@modelcontextprotocol/server-filesystem', '/home/me/terminal'] },
  { command: 'npx', args: ['-y', '@modelcontextprotocol/server-memory'] },
  { command: 'node', args: ['/home/me/shell/weather.mjs'] },
  { command: 'docker', args: ['run', '-i', '--name', 'browser', 'mcp/fetch'] },
  { command: 'uvx', args: ['mcp-server-git', '--repository', '/srv/chrome'] },
  { url: 'https://example.com/mcp' },
])('does not recognize others: %j', (entry) => {
  expect(stateful(entry)).toBe(false)
})

it("uses a remote server's own name", () => {
  expect(stateful({ url: 'https://example.com/mcp' }, 'Playwright')).toBe(true)
})
