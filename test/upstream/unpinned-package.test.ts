import { describe, expect, it } from 'vitest'
import { unpinnedPackage } from '../../src/upstream/unpinned-package.ts'
import { settingsOf } from './host.ts'

const of = (line: string): string | undefined => {
  const [command = '', ...args] = line.split(' ')
  return unpinnedPackage(settingsOf({ one: { command, args } })['one']!)
}
const digest = `sha256:${'0a'.repeat(32)}`

describe('a server downloaded at start', () => {
  it.each([
    ['npx -y @scope/server', '@scope/server'],
    ['npx @scope/server@latest', '@scope/server@latest'],
    ['npx -y server@^1.2.0', 'server@^1.2.0'],
    ['npx server@1', 'server@1'],
    ['/usr/bin/npx --yes server --flag 1.2.3', 'server'],
    ['npx.cmd -y server', 'server'],
    ['npx -p server@next serve', 'server@next'],
    ['npx --package=server serve@1.2.3', 'server'],
    ['npm exec --yes -- server', 'server'],
    ['pnpm dlx server', 'server'],
    ['yarn dlx server', 'server'],
    ['bunx server', 'server'],
    ['uvx mcp-server-git', 'mcp-server-git'],
    ['uvx --python 3.12 mcp-server-git', 'mcp-server-git'],
    ['uvx --from git+https://example.com/x server', 'git+https://example.com/x'],
    ['uv tool run mcp-server-git', 'mcp-server-git'],
    ['pipx run mcp-server-git>=1', 'mcp-server-git>=1'],
    ['docker run -i --rm mcp/fetch', 'an image of docker'],
    ['docker run -i -p 8080:80 mcp/fetch:latest', 'an image of docker'],
  ])('%s is unpinned: %s', (line, name) => expect(of(line)).toBe(name))

  it.each([
    'npx -y @scope/server@1.2.3',
    'npx server@1.2.3-beta.1',
    'npx ./server',
    `npx github:a/b#${'0a'.repeat(20)}`,
    'uvx mcp-server-git@2026.1.14',
    'uvx mcp-server-git==2026.1.14',
    'uvx --from mcp-server-git==2026.1.14 serve',
    `docker run -i mcp/fetch@${digest}`,
    'docker run -i -e A=b ghcr.io/a/b:1.4.2 serve',
    'node server.js',
    'npm start',
    'uv run server.py',
    'python -m server',
  ])('%s is pinned', (line) => expect(of(line)).toBeUndefined())
})
