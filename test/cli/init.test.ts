import { chmodSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { run } from '../../src/cli/run-command.ts'
import { temporaryFolder } from '../app.ts'
import { terminal } from './terminal.ts'

const TOKEN = 'ghp_0123456789abcdefghijklmnopqrstuvwxyz'
const github = { command: 'npx', args: ['-y', 'github-server'], env: { GITHUB_TOKEN: TOKEN } }
const CLAUDE = `{
  // mine
  "mcpServers": {
    "github": ${JSON.stringify(github)},
    "memory": { "command": "npx", "args": ["-y", "memory-server"], "env": { "FILE": "one" } }
  },
  "theme": "dark"
}
`
const CURSOR = `{\r\n\t"mcpServers": {\r\n\t\t"gh": ${JSON.stringify(github)},\r\n\t\t"memory": { "command": "npx", "args": ["-y", "memory-server"], "env": { "FILE": "two" } },\r\n\t\t"docs": { "url": "https://docs.example/mcp" }\r\n\t}\r\n}`

/** A home folder with two clients. */
function home(
  files: Record<string, string> = { '.config/Claude/claude_desktop_config.json': CLAUDE, '.cursor/mcp.json': CURSOR },
) {
  const dir = temporaryFolder()
  mkdirSync(join(dir, 'work'))
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(dir, name)), { recursive: true })
    writeFileSync(join(dir, name), text)
  }
  const read = (name: string): string => readFileSync(join(dir, name), 'utf8')
  const command = async (argv: readonly string[], answers?: readonly string[], onPrompt?: (text: string) => void) => {
    const { io, out, err, input } = terminal(dir, answers !== undefined)
    const world = {
      ...io,
      env: { ...io.env, PEGBOARD_KEYRING: 'off' },
      ...(answers === undefined ? {} : { terminal: { out: false, err: true } }),
      stderr: (text: string) => {
        io.stderr(text)
        onPrompt?.(text)
      },
    }
    for (const answer of answers ?? []) input.write(`${answer}\n`)
    const code = await run(argv, world)
    input.destroy()
    return { code, out: out(), err: err() }
  }
  return { dir, read, command }
}

const OWN = '.config/pegboard/mcp.config.json'
const REGISTERED = {
  command: '/usr/bin/node',
  args: ['/opt/pegboard/dist/cli/main.js', 'serve', '--stdio', '--config'],
}
const isLinux = process.platform === 'linux'

describe.runIf(isLinux)('pegboard init', () => {
  it('imports the servers of all clients, merges them, moves secrets, registers Pegboard, and is undone byte for byte', async () => {
    const { dir, read, command } = home()
    const { code, out, err } = await command(['init', '--yes', '--folder', 'work'])
    expect(code).toBe(0)
    expect(out + err).not.toContain(TOKEN)
    expect(out).toContain('+        "GITHUB_TOKEN": "${keyring:GITHUB_TOKEN}"')
    expect(out).toContain(`4 servers imported into ${join(dir, OWN)}.
  memory of Cursor is called memory_cursor, because another server has its name.
Secrets stored: GITHUB_TOKEN.
Restart Claude Desktop, Cursor to use Pegboard.
`)
    expect(JSON.parse(read(OWN))).toEqual({
      mcpServers: {
        github: { ...github, env: { GITHUB_TOKEN: '${keyring:GITHUB_TOKEN}' } },
        memory: { command: 'npx', args: ['-y', 'memory-server'], env: { FILE: 'one' } },
        memory_cursor: { command: 'npx', args: ['-y', 'memory-server'], env: { FILE: 'two' } },
        docs: { url: 'https://docs.example/mcp' },
      },
      modules: { filesystem: { config: { roots: [join(dir, 'work')] } } },
    })
    const start = { ...REGISTERED, args: [...REGISTERED.args, join(dir, OWN)] }
    expect(JSON.parse(read('.cursor/mcp.json'))).toEqual({ mcpServers: { pegboard: start } })
    const claude = read('.config/Claude/claude_desktop_config.json')
    expect(claude).toContain('  // mine\n')
    expect(JSON.parse(claude.replace('// mine', ''))).toEqual({ mcpServers: { pegboard: start }, theme: 'dark' })

    // The configuration works without --config.
    expect(await command(['config', 'path'])).toMatchObject({ code: 0, out: `${join(dir, OWN)}\n` })
    expect(await command(['init', '--yes'])).toMatchObject({ code: 0, out: 'Nothing to change.\n' })

    expect(await command(['undo'])).toMatchObject({ code: 0 })
    expect(read('.config/Claude/claude_desktop_config.json')).toBe(CLAUDE)
    expect(read('.cursor/mcp.json')).toBe(CURSOR)
    expect(existsSync(join(dir, OWN))).toBe(false)
    // The stored secret has the same value, so it keeps its name.
    expect((await command(['init', '--yes', '--json'])).out).toContain('"name": "GITHUB_TOKEN"')
  })

  it('only shows the changes without a terminal and --yes', async () => {
    const { dir, read, command } = home()
    expect(await command(['init'])).toMatchObject({
      code: 1,
      out: expect.stringContaining(`--- ${join(dir, '.cursor/mcp.json')}`),
      err: expect.stringContaining('pegboard: nothing was written; to write it, add --yes\n'),
    })
    const json = JSON.parse((await command(['init', '--json'])).out)
    expect(json).toMatchObject({
      applied: false,
      config: join(dir, OWN),
      servers: [
        {
          name: 'github',
          new: true,
          from: [
            { client: 'claude-desktop', name: 'github' },
            { client: 'cursor', name: 'gh' },
          ],
        },
        { name: 'memory', new: true },
        { name: 'memory_cursor', new: true },
        { name: 'docs', new: true },
      ],
      secrets: [{ name: 'GITHUB_TOKEN', server: 'github' }],
      missing_secrets: [],
      diff: expect.stringContaining('+++ '),
    })
    expect(JSON.stringify(json)).not.toContain(TOKEN)
    expect(read('.cursor/mcp.json')).toBe(CURSOR)
    expect(existsSync(join(dir, '.state/secrets.json'))).toBe(false)
  })

  it('takes clients, servers and the rest from options', async () => {
    const { dir, read, command } = home()
    const argv = ['init', '--yes', '--from', 'cursor', '--only', 'docs', '--into', 'cursor,zed', '--keep']
    expect((await command(argv)).code).toBe(0)
    expect(JSON.parse(read(OWN))).toEqual({ mcpServers: { docs: { url: 'https://docs.example/mcp' } } })
    expect(Object.keys(JSON.parse(read('.cursor/mcp.json')).mcpServers)).toEqual(['gh', 'memory', 'docs', 'pegboard'])
    expect(JSON.parse(read('.config/zed/settings.json'))).toEqual({
      context_servers: {
        pegboard: { source: 'custom', ...REGISTERED, args: [...REGISTERED.args, join(dir, OWN)], env: {} },
      },
    })
    expect(read('.config/Claude/claude_desktop_config.json')).toBe(CLAUDE)
    await command(['undo'])
    expect(existsSync(join(dir, '.config/zed'))).toBe(false)
    expect(await command(['init', '--from', 'cursr'])).toMatchObject({
      code: 2,
      err: expect.stringContaining('there is no client "cursr"; did you mean "cursor"?'),
    })
    expect(await command(['init', '--only', 'nothing'])).toMatchObject({ code: 2 })
    expect(await command(['init', '--folder', 'missing'])).toMatchObject({ code: 2 })
    expect(await command(['init', '--folder', '~'])).toMatchObject({
      code: 2,
      err: expect.stringContaining('this folder holds keys and settings of other programs'),
    })
  })

  it('adds to an existing configuration, and knows what is there', async () => {
    const { read, command } = home()
    await command(['init', '--yes', '--only', 'docs', '--into', 'none'])
    expect(JSON.parse(read(OWN))).toEqual({ mcpServers: { docs: { url: 'https://docs.example/mcp' } } })
    await command(['init', '--yes', '--into', 'none', '--plain-secrets'])
    expect(JSON.parse(read(OWN)).mcpServers.github).toEqual(github)
    expect(Object.keys(JSON.parse(read(OWN)).mcpServers)).toEqual(['docs', 'github', 'memory', 'memory_cursor'])
  })

  it('asks at a terminal', async () => {
    const { dir, read, command } = home()
    const { code, out, err } = await command(['init'], ['nonsense', '1,4', 'work', '2', 'n', 'y'])
    expect(code).toBe(0)
    expect(err).toContain('  1  github         npx -y github-server      Claude Desktop, Cursor\n')
    expect(err).toContain('Import which servers? (such as 1,3-5, all or none; default all) Which?')
    expect(err).toContain('These secrets are written in plain text:\n  GITHUB_TOKEN (github)\n')
    expect(out + err).not.toContain(TOKEN)
    expect(JSON.parse(read(OWN))).toMatchObject({
      mcpServers: { github, docs: { url: 'https://docs.example/mcp' } },
      modules: { filesystem: { config: { roots: [join(dir, 'work')] } } },
    })
    // What was not imported stays.
    expect(Object.keys(JSON.parse(read('.cursor/mcp.json')).mcpServers)).toEqual(['memory', 'pegboard'])
    expect(read('.config/Claude/claude_desktop_config.json')).toBe(CLAUDE)
  })

  it('writes nothing if a file changes while the person looks at the preview, or if the answer is no', async () => {
    const { dir, read, command } = home()
    expect((await command(['init'], ['', '', '', '', ''])).code).toBe(1)
    const stale = await command(['init'], ['', '', '', '', 'y'], (text) => {
      if (text.includes('Write 3 files?')) writeFileSync(join(dir, '.cursor/mcp.json'), '{"mcpServers": {}}')
    })
    expect(stale).toMatchObject({ code: 1, err: expect.stringContaining('E_EDIT_STALE') })
    expect(existsSync(join(dir, OWN))).toBe(false)
    expect(read('.config/Claude/claude_desktop_config.json')).toBe(CLAUDE)
    expect(read('.cursor/mcp.json')).toBe('{"mcpServers": {}}')
    // Its secrets are not left behind either.
    expect((await command(['secret', 'list'])).out).toBe('No secrets. Store one with pegboard secret set <name>.\n')
  })

  it('leaves out clients whose files it must not touch', async () => {
    const { dir, read, command } = home({
      '.config/Claude/claude_desktop_config.json': CLAUDE,
      '.codeium/windsurf/mcp_config.json': '{ broken',
      'elsewhere.json': CURSOR,
      '.gemini/settings.json': '{}',
    })
    mkdirSync(join(dir, '.cursor'))
    symlinkSync(join(dir, 'elsewhere.json'), join(dir, '.cursor/mcp.json'))
    chmodSync(join(dir, '.gemini/settings.json'), 0o666)
    const { code, err } = await command(['init', '--yes'])
    expect(code).toBe(0)
    for (const name of ['.cursor/mcp.json', '.codeium/windsurf/mcp_config.json', '.gemini/settings.json'])
      expect(err).toContain(`${join(dir, name)} is left out: `)
    expect(read('elsewhere.json')).toBe(CURSOR)
    for (const client of ['cursor', 'windsurf', 'gemini'])
      expect(await command(['init', '--yes', '--into', client])).toMatchObject({
        code: 1,
        err: expect.stringContaining('E_EDIT_UNSAFE'),
      })
  })
})
