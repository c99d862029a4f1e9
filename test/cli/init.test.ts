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
  const command = async (
    argv: readonly string[],
    answers?: readonly string[],
    onPrompt?: (text: string) => void,
    cwd = dir,
  ) => {
    const { io, out, err, input } = terminal(dir, answers !== undefined)
    const world = {
      ...io,
      cwd,
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
  it('asks for no secret that an imported server names only as text', async () => {
    const { command, read } = home({
      '.cursor/mcp.json': '{"mcpServers":{"a":{"command":"a","args":["${keyring:B}"]}}}',
    })
    const { code, out } = await command(['init', '--yes'])
    expect(code).toBe(0)
    expect(JSON.parse(read(OWN)).mcpServers.a.args).toEqual(['$${keyring:B}'])
    expect(out).not.toContain('needs the secret')
  })

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

  it('only shows the changes with --dry-run, also at a terminal', async () => {
    const { dir, read, command } = home()
    expect(await command(['init', '--dry-run', '--yes'], [])).toMatchObject({
      code: 0,
      out: expect.stringContaining(`--- ${join(dir, '.cursor/mcp.json')}`),
      err: expect.stringMatching(/pegboard: nothing was written\n$/),
    })
    expect(read('.cursor/mcp.json')).toBe(CURSOR)
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

  it('says which servers of a project it leaves out, and removes one from the client that it imports', async () => {
    const shop = '/home/me/shop'
    const claudeCode = (...servers: readonly object[]): object => ({
      mcpServers: servers[0],
      projects: { [shop]: { mcpServers: servers[1], history: ['hello'] } },
    })
    const [docs, git] = [{ docs: { url: 'https://docs.example/mcp' } }, { git: { command: 'git-server' } }]
    const before = JSON.stringify(claudeCode(docs, git))
    const { dir, read, command } = home({ '.claude.json': before })
    const leftOut = `Left out, because these servers belong to one project:
  git  Claude Code in ${shop}
To import one: pegboard init --only NAME
`
    const first = await command(['init', '--yes'])
    expect(first.err).toContain(leftOut)
    expect(Object.keys(JSON.parse(read(OWN)).mcpServers)).toEqual(['docs'])
    const pegboard = { type: 'stdio', ...REGISTERED, args: [...REGISTERED.args, join(dir, OWN)], env: {} }
    expect(JSON.parse(read('.claude.json'))).toEqual(claudeCode({ pegboard }, git))

    const second = await command(['init', '--yes', '--only', 'git'])
    expect(second.err).not.toContain('Left out')
    expect(second.out).toContain(`1 server imported into ${join(dir, OWN)}.\n`)
    expect(JSON.parse(read(OWN)).mcpServers.git).toEqual({ command: 'git-server', cwd: shop })
    expect(JSON.parse(read('.claude.json'))).toEqual(claudeCode({ pegboard }, {}))
    await command(['undo'])
    await command(['undo'])
    expect(read('.claude.json')).toBe(before)

    await command(['init', '--yes', '--only', 'git', '--keep'])
    expect(JSON.parse(read('.claude.json'))).toEqual(claudeCode({ ...docs, pegboard }, git))
    expect((await command(['init', '--yes', '--from', 'cursor'])).err).not.toContain('Left out')
    expect((await command(['init', '--yes'])).err).not.toContain('Left out')
  })

  it('adds to an existing configuration, and knows what is there', async () => {
    const { read, command } = home()
    await command(['init', '--yes', '--only', 'docs', '--into', 'none'])
    expect(JSON.parse(read(OWN))).toEqual({ mcpServers: { docs: { url: 'https://docs.example/mcp' } } })
    await command(['init', '--yes', '--into', 'none', '--plain-secrets'])
    expect(JSON.parse(read(OWN)).mcpServers.github).toEqual(github)
    expect(Object.keys(JSON.parse(read(OWN)).mcpServers)).toEqual(['docs', 'github', 'memory', 'memory_cursor'])
  })

  it('knows a server whose secret an earlier import moved', async () => {
    const { read, command, dir } = home()
    await command(['init', '--yes', '--from', 'claude-desktop'])
    writeFileSync(join(dir, '.config/Claude/claude_desktop_config.json'), CLAUDE)
    const { out } = await command([
      'init',
      '--yes',
      '--from',
      'cursor',
      '--from',
      'claude-desktop',
      '--only',
      'gh',
      '--only',
      'github',
    ])
    expect(Object.keys(JSON.parse(read(OWN)).mcpServers)).toEqual(['github', 'memory'])
    expect(out).toContain('0 servers imported')
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
    expect(err).toMatch(/^ {2}Windsurf +left out +\S+mcp_config\.json$/m)
    expect(err).toMatch(/^ {2}Cursor +left out +\S+mcp\.json$/m)
    expect(read('elsewhere.json')).toBe(CURSOR)
    for (const client of ['cursor', 'windsurf', 'gemini-cli'])
      expect(await command(['init', '--yes', '--into', client])).toMatchObject({
        code: 1,
        err: expect.stringContaining('E_EDIT_UNSAFE'),
      })
  })

  describe('in a project', () => {
    const long = ['-y', 'shop-server', '--'.padEnd(80, 'x'), '--last']
    const MCP = `{ "mcpServers": {
      "shop": { "command": "npx", "args": ${JSON.stringify(long)} },
      "tools": { "command": "./bin/tools", "args": ["\${CLAUDE_PROJECT_DIR}/data"], "env": { "KEY": "\${keyring:GITHUB_TOKEN}" } },
      "docs": { "url": "https://docs.example/mcp", "headers": { "X-From": "shop" } } } }`
    const VSCODE = `{ "servers": { "issues": { "url": "https://issues.example", "headers": { "Authorization": "Bearer \${input:GITHUB_TOKEN}" } } } }`
    const shop = () => {
      const at = home({
        '.cursor/mcp.json': CURSOR,
        '.mcp.json': '{ "mcpServers": { "outside": { "command": "outside" } } }',
        'shop/.mcp.json': MCP,
        'shop/.git/HEAD': '',
        'shop/sub/.vscode/mcp.json': VSCODE,
      })
      const sub = join(at.dir, 'shop/sub')
      const inProject = (argv: readonly string[], answers?: readonly string[]) =>
        at.command(argv, answers, undefined, sub)
      return { ...at, inProject }
    }

    it('imports the servers of its files only with --project, and never changes the files', async () => {
      const { dir, read, inProject } = shop()
      const shown = await inProject(['init'])
      expect(shown.err).toContain(`Files of this project, whose servers are imported only if you choose them
  VS Code      1 server   ${join(dir, 'shop/sub/.vscode/mcp.json')}
  Claude Code  3 servers  ${join(dir, 'shop/.mcp.json')}
`)
      expect(shown.out).not.toContain('shop-server')
      expect(await inProject(['init', '--only', 'shop'])).toMatchObject({
        code: 2,
        err: expect.stringContaining(
          'no client has a server "shop"; add --project to import it from the file of this project',
        ),
      })
      expect((await inProject(['init', '--yes'])).code).toBe(0)
      expect(Object.keys(JSON.parse(read(OWN)).mcpServers)).toEqual(['gh', 'memory', 'docs'])
      expect(JSON.parse((await inProject(['init', '--json'])).out).projects).toEqual([
        { client: 'vscode', file: join(dir, 'shop/sub/.vscode/mcp.json'), servers: [{ name: 'issues' }], skipped: [] },
        {
          ...{ client: 'claude-code', file: join(dir, 'shop/.mcp.json'), skipped: [] },
          servers: [{ name: 'shop' }, { name: 'tools' }, { name: 'docs' }],
        },
      ])
      const argv = ['init', '--yes', '--project', '--into', 'vscode,claude-code']
      expect((await inProject(argv)).out).toContain(
        'A server needs the secret project_sub.GITHUB_TOKEN: pegboard secret set project_sub.GITHUB_TOKEN\n',
      )
      expect(JSON.parse(read(OWN)).mcpServers).toMatchObject({
        issues: {
          url: 'https://issues.example',
          headers: { Authorization: 'Bearer ${keyring:project_sub.GITHUB_TOKEN}' },
        },
        shop: { command: 'npx', args: long, cwd: join(dir, 'shop') },
        tools: {
          ...{ command: join(dir, 'shop/bin/tools'), args: [join(dir, 'shop/data')], cwd: join(dir, 'shop') },
          env: { KEY: '$${keyring:GITHUB_TOKEN}' },
        },
      })
      expect(read('shop/.mcp.json')).toBe(MCP)
      expect(read('shop/sub/.vscode/mcp.json')).toBe(VSCODE)
      await inProject(['undo'])
      await inProject(['undo'])
      expect(existsSync(join(dir, OWN))).toBe(false)
      expect(read('.cursor/mcp.json')).toBe(CURSOR)
    })

    it('offers them in full at a terminal, without choosing them', async () => {
      const { read, inProject } = shop()
      const { err } = await inProject(['init'], ['', '', 'none', '', 'y'])
      expect(err).toContain(`npx ${long.join(' ')}`)
      expect(err).toContain('Import which servers? (such as 1,3-5, all or none; default 1,2,3)')
      // The header of the project does not reach the server that Cursor has.
      expect(JSON.parse(read(OWN)).mcpServers.docs).toEqual({ url: 'https://docs.example/mcp' })
      expect(Object.keys(JSON.parse(read(OWN)).mcpServers)).toEqual(['gh', 'memory', 'docs'])
      await inProject(['init'], ['5', '', 'none', 'y'])
      expect(Object.keys(JSON.parse(read(OWN)).mcpServers)).toEqual(['gh', 'memory', 'docs', 'shop'])
    })

    it('reads only its own folder without .git, and nothing in the home folder', async () => {
      const { dir, command } = home({ 'a/.mcp.json': MCP, 'a/b/.mcp.json': VSCODE, '.mcp.json': MCP })
      const filesIn = async (cwd: string) =>
        JSON.parse((await command(['init', '--json'], undefined, undefined, cwd)).out).projects.map(
          ({ file }: { file: string }) => file,
        )
      expect(await filesIn(join(dir, 'a/b'))).toEqual([join(dir, 'a/b/.mcp.json')])
      expect(await filesIn(dir)).toEqual([])
    })
  })
})
