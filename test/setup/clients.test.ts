import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Machine } from '../../src/config/machine.ts'
import { type ClientId, clients, settingsFolders } from '../../src/setup/clients.ts'
import { findClients } from '../../src/setup/find-clients.ts'
import { clientFacts } from '../../src/view/client-table.ts'
import { temporaryFolder } from '../app.ts'

const filesOn = (machine: Machine): Record<string, readonly string[]> =>
  Object.fromEntries(clients.map((client) => [client.id, client.files(settingsFolders(machine))]))

it('have the short names that check --client and the setting clients use', () => {
  for (const { id } of clients) expect(Object.keys(clientFacts)).toContain(id)
})

describe('the files of clients', () => {
  it('on Linux', () =>
    expect(filesOn({ env: {}, cwd: '/', platform: 'linux', home: '/home/me' })).toEqual({
      'claude-desktop': ['/home/me/.config/Claude/claude_desktop_config.json'],
      'claude-code': ['/home/me/.claude.json'],
      cursor: ['/home/me/.cursor/mcp.json'],
      vscode: ['/home/me/.config/Code/User/mcp.json'],
      windsurf: ['/home/me/.codeium/windsurf/mcp_config.json'],
      codex: ['/home/me/.codex/config.toml'],
      'gemini-cli': ['/home/me/.gemini/settings.json'],
      opencode: ['/home/me/.config/opencode/opencode.json', '/home/me/.config/opencode/opencode.jsonc'],
      zed: ['/home/me/.config/zed/settings.json'],
      goose: ['/home/me/.config/goose/config.yaml'],
    }))

  it('on macOS', () =>
    expect(filesOn({ env: {}, cwd: '/', platform: 'darwin', home: '/Users/me' })).toMatchObject({
      'claude-desktop': ['/Users/me/Library/Application Support/Claude/claude_desktop_config.json'],
      'claude-code': ['/Users/me/.claude.json'],
      vscode: ['/Users/me/Library/Application Support/Code/User/mcp.json'],
      zed: ['/Users/me/.config/zed/settings.json'],
      goose: ['/Users/me/.config/goose/config.yaml'],
    }))

  it('on Windows', () =>
    expect(filesOn({ env: { APPDATA: 'D:\\Roaming' }, cwd: 'C:\\', platform: 'win32', home: 'C:\\Users\\me' })).toEqual(
      {
        'claude-desktop': ['D:\\Roaming\\Claude\\claude_desktop_config.json'],
        'claude-code': ['C:\\Users\\me\\.claude.json'],
        cursor: ['C:\\Users\\me\\.cursor\\mcp.json'],
        vscode: ['D:\\Roaming\\Code\\User\\mcp.json'],
        windsurf: ['C:\\Users\\me\\.codeium\\windsurf\\mcp_config.json'],
        codex: ['C:\\Users\\me\\.codex\\config.toml'],
        'gemini-cli': ['C:\\Users\\me\\.gemini\\settings.json'],
        opencode: [
          'C:\\Users\\me\\.config\\opencode\\opencode.json',
          'C:\\Users\\me\\.config\\opencode\\opencode.jsonc',
        ],
        zed: ['D:\\Roaming\\Zed\\settings.json'],
        goose: ['D:\\Roaming\\Block\\goose\\config\\config.yaml'],
      },
    ))

  it('where variables of the clients point', () =>
    expect(
      filesOn({
        env: { XDG_CONFIG_HOME: '/x', CODEX_HOME: '/codex', CLAUDE_CONFIG_DIR: '/claude' },
        cwd: '/',
        platform: 'linux',
        home: '/home/me',
      }),
    ).toMatchObject({
      'claude-code': ['/claude/.claude.json'],
      codex: ['/codex/config.toml'],
      zed: ['/x/zed/settings.json'],
    }))
})

/** A home folder with the files of clients. */
function home(files: Partial<Record<ClientId, string | object>>) {
  const dir = temporaryFolder()
  const machine: Machine = { env: {}, cwd: dir, platform: 'linux', home: dir, self: '/opt/pegboard/dist/cli/main.js' }
  const paths = filesOn(machine)
  for (const [id, content] of Object.entries(files)) {
    const path = paths[id]?.[0] ?? ''
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content))
  }
  return {
    machine,
    fileOf: (id: ClientId): string => paths[id]?.[0] ?? '',
    find: async (id: ClientId) => {
      const found = await findClients(machine)
      const one = found.find(({ client }) => client.id === id)
      if (!one) throw new Error(`no client ${id}`)
      return one
    },
  }
}

const entriesOf = async (id: ClientId, content: string | object) =>
  Object.fromEntries((await home({ [id]: content }).find(id)).servers.map(({ name, entry }) => [name, entry]))

describe.runIf(process.platform !== 'win32')('servers of clients', () => {
  it('Claude Desktop takes variables literally', async () =>
    expect(
      await entriesOf('claude-desktop', {
        mcpServers: {
          a: { command: 'a', args: ['${HOME}', 1], env: { B: 'c' }, extra: true },
          off: { command: 'b', disabled: true },
        },
      }),
    ).toEqual({
      a: { command: 'a', args: ['$${HOME}', 1], env: { B: 'c' } },
      off: { command: 'b', disabled: true },
    }))

  it('name no secret of Pegboard, whose syntax has no meaning there', async () => {
    const args = ['https://x/${keyring:GITHUB_TOKEN}', '${A:-${keyring:B}}', '$${keyring:C}']
    const literal = ['https://x/$${keyring:GITHUB_TOKEN}', '${A:-$${keyring:B}}', '$${keyring:C}']
    for (const id of ['claude-code', 'cursor', 'windsurf', 'gemini-cli'] as const)
      expect(await entriesOf(id, { mcpServers: { a: { command: 'a', args } } }), id).toEqual({
        a: { command: 'a', args: id === 'gemini-cli' ? [literal[0], '${A:-$${keyring:B}}', literal[2]] : literal },
      })
    const codex = '[mcp_servers.a]\nurl = "https://x/"\nbearer_token_env_var = "keyring:GITHUB_TOKEN"\n'
    expect(await entriesOf('codex', codex)).toEqual({
      a: { url: 'https://x/', headers: { Authorization: 'Bearer ${keyring_GITHUB_TOKEN}' } },
    })
    expect(await entriesOf('vscode', { servers: { a: { command: 'a', args: [args[0], '${input:k}'] } } })).toEqual({
      a: { command: 'a', args: [literal[0], '${keyring:k}'] },
    })
  })

  it('Claude Code has servers for all projects and for single ones', async () => {
    const { servers } = await home({
      'claude-code': {
        mcpServers: { all: { type: 'http', url: 'https://a.example/mcp', headers: { Authorization: 'Bearer ${A}' } } },
        projects: { '/home/me/work': { mcpServers: { one: { type: 'stdio', command: 'one', args: [], env: {} } } } },
      },
    }).find('claude-code')
    expect(servers).toEqual([
      {
        client: 'claude-code',
        name: 'all',
        path: ['mcpServers', 'all'],
        entry: { url: 'https://a.example/mcp', type: 'http', headers: { Authorization: 'Bearer ${A}' } },
      },
      {
        client: 'claude-code',
        name: 'one',
        path: ['projects', '/home/me/work', 'mcpServers', 'one'],
        entry: { command: 'one', cwd: '/home/me/work' },
        project: '/home/me/work',
      },
    ])
  })

  it('VS Code asks a person for inputs, which become secrets to set', async () =>
    expect(
      await entriesOf(
        'vscode',
        '{ "inputs": [{ "id": "gh" }], /* mine */ "servers": { "a": { "type": "stdio", "command": "a", "env": { "T": "${input:gh}", "H": "${env:HOME}" }, }, } }',
      ),
    ).toEqual({ a: { command: 'a', env: { T: '${keyring:gh}', H: '${env:HOME}' } } }))

  it('Windsurf, Gemini CLI and Cursor name addresses differently', async () => {
    expect(await entriesOf('windsurf', { mcpServers: { a: { serverUrl: 'https://a.example/mcp' } } })).toEqual({
      a: { url: 'https://a.example/mcp' },
    })
    expect(
      await entriesOf('gemini-cli', {
        mcpServers: {
          a: { httpUrl: 'https://a.example/mcp', headers: { X: '$TOKEN' } },
          b: { url: 'https://b.example/sse' },
          c: { command: 'c', env: { K: '$KEY' }, trust: true },
        },
      }),
    ).toEqual({
      a: { url: 'https://a.example/mcp', type: 'http', headers: { X: '${TOKEN}' } },
      b: { url: 'https://b.example/sse', type: 'sse' },
      c: { command: 'c', env: { K: '${KEY}' } },
    })
    expect(await entriesOf('cursor', { mcpServers: { a: { url: 'https://a.example/mcp' } } })).toEqual({
      a: { url: 'https://a.example/mcp' },
    })
  })

  it('Codex has TOML', async () =>
    expect(
      await entriesOf(
        'codex',
        `model = "gpt-5"
[mcp_servers.local]
command = "npx"
args = ["-y", "a-server"]
env = { "A" = "\${B}" }
env_vars = ["C"]
enabled = false

[mcp_servers.remote]
url = "https://a.example/mcp"
bearer_token_env_var = "TOKEN"
[mcp_servers.remote.env_http_headers]
X-Key = "KEY"
`,
      ),
    ).toEqual({
      local: { command: 'npx', args: ['-y', 'a-server'], env: { C: '${C}', A: '$${B}' }, disabled: true },
      remote: { url: 'https://a.example/mcp', headers: { 'X-Key': '${KEY}', Authorization: 'Bearer ${TOKEN}' } },
    }))

  it('opencode has lists as commands, in the files of both versions', async () => {
    const local = { type: 'local', command: ['npx', '-y', 'a'], environment: { A: '{env:B}' } }
    const read = { command: 'npx', args: ['-y', 'a'], env: { A: '${B}' } }
    expect(
      await entriesOf('opencode', {
        mcp: { a: { ...local, enabled: false }, b: { type: 'remote', url: 'https://b.example' } },
      }),
    ).toEqual({ a: { ...read, disabled: true }, b: { url: 'https://b.example' } })
    expect(await entriesOf('opencode', { mcp: { servers: { a: local } } })).toEqual({ a: read })
  })

  it('Zed has an older and a newer form, and servers of extensions', async () =>
    expect(
      await entriesOf('zed', {
        context_servers: {
          a: { source: 'custom', command: 'a', args: ['b'], env: {} },
          b: { command: { path: 'b', args: ['c'] } },
          c: { settings: { token: 'x' } },
          d: { url: 'https://d.example/mcp' },
        },
      }),
    ).toEqual({
      a: { command: 'a', args: ['b'] },
      b: { command: 'b', args: ['c'] },
      d: { url: 'https://d.example/mcp' },
    }))

  it('Goose has YAML, built-in extensions, and secrets of its own', async () =>
    expect(
      await entriesOf(
        'goose',
        `extensions:
  developer: { enabled: true, type: builtin, name: developer }
  github:
    type: stdio
    cmd: npx
    args: [-y, a-server]
    envs: { A: b }
    env_keys: [GITHUB_TOKEN]
    enabled: true
  remote:
    type: streamable_http
    uri: https://a.example/mcp
    enabled: false
`,
      ),
    ).toEqual({
      github: { command: 'npx', args: ['-y', 'a-server'], env: { GITHUB_TOKEN: '${keyring:GITHUB_TOKEN}', A: 'b' } },
      remote: { url: 'https://a.example/mcp', type: 'http', disabled: true },
    }))

  it('never include Pegboard itself, in any form', async () => {
    const found = await home({
      cursor: {
        mcpServers: {
          pegboard: { url: 'http://127.0.0.1:3333/mcp' },
          tools: { command: 'npx', args: ['-y', 'pegboard@1.2.3', 'serve'] },
          mine: { command: 'node', args: ['/opt/pegboard/dist/cli/main.js', 'serve'] },
          other: { command: 'C:\\npm\\pegboard.cmd' },
        },
      },
    }).find('cursor')
    expect(found.servers).toEqual([])
    expect(found.own.map((path) => path.at(-1))).toEqual(['pegboard', 'tools', 'mine', 'other'])
  })
})

describe.runIf(process.platform !== 'win32')('hostile configurations of clients', () => {
  it('leave out entries with odd names, shapes and sizes, and keep the others', async () => {
    const { servers, skipped } = await home({
      cursor: {
        mcpServers: {
          good: { command: 'good', trust: 'always', allowPrivate: true, internal: true, auth: { type: 'none' } },
          'git\u200bhub': { command: 'a' },
          gіthub: { command: 'a' },
          'openapi.x': { command: 'a' },
          '../x': { command: 'a' },
          ['x'.repeat(200)]: { command: 'a' },
          list: ['a'],
          empty: {},
          file: { url: 'file:///etc/passwd' },
          args: { command: 'a', args: [{}] },
          huge: { command: 'a', env: { A: 'x'.repeat(70_000) } },
        },
      },
    }).find('cursor')
    expect(servers.map(({ name, entry }) => [name, entry])).toEqual([['good', { command: 'good' }]])
    expect(skipped).toHaveLength(10)
    expect(skipped[0]).toMatch(/^Cursor: the server "git\u200bhub" has a name that has invisible characters\.$/)
  })

  it('report broken files without their content, and do not affect other clients', async () => {
    const scene = home({
      cursor: '{ "mcpServers": { "a": { "env": { "TOKEN": "s3cret" } } ',
      'claude-desktop': '{"__proto__": {"command": "x"}}',
      codex: 'token = "s3cret',
      goose: 'extensions: {a: [s3cret',
      'gemini-cli': { mcpServers: { ok: { command: 'ok' } } },
      opencode: `${'['.repeat(5_000)}`,
      zed: 'x'.repeat(100),
    })
    mkdirSync(dirname(scene.fileOf('windsurf')), { recursive: true })
    writeFileSync(join(scene.machine.cwd, 'elsewhere.json'), '{}')
    symlinkSync(join(scene.machine.cwd, 'elsewhere.json'), scene.fileOf('windsurf'))
    mkdirSync(dirname(scene.fileOf('vscode')), { recursive: true })
    writeFileSync(scene.fileOf('vscode'), '{}')
    chmodSync(scene.fileOf('vscode'), 0o666)
    for (const id of ['cursor', 'claude-desktop', 'codex', 'goose', 'opencode', 'zed', 'windsurf', 'vscode'] as const) {
      const { problem, servers } = await scene.find(id)
      expect(problem, id).toBeDefined()
      expect(problem, id).not.toContain('s3cret')
      expect(servers, id).toEqual([])
    }
    expect((await scene.find('gemini-cli')).servers).toHaveLength(1)
  })

  it('do not fill the memory with YAML aliases', async () => {
    const lines = ['a0: &a0 [x, x, x, x, x, x, x, x, x]']
    for (let at = 1; at < 12; at++)
      lines.push(
        `a${at}: &a${at} [${Array(9)
          .fill(`*a${at - 1}`)
          .join(', ')}]`,
      )
    expect((await home({ goose: `${lines.join('\n')}\n` }).find('goose')).problem).toBe(
      'The file has too many YAML aliases.',
    )
  })
})
