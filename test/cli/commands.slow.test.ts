import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { commands, guessedCommands } from '../../src/cli/commands.ts'
import { formatLogEntry } from '../../src/cli/open-app.ts'
import { run as runWith } from '../../src/cli/run-command.ts'
import { folder, notesModule, pegboard, terminal } from './terminal.ts'

let at: ReturnType<typeof folder>
const run = (...argv: string[]) => pegboard(at.dir, ...argv)
const json = async (...argv: string[]) => {
  const { code, out, err } = await run(...argv, '--config', 'mcp.config.json', '--json')
  expect(err, 'stderr').toBe('')
  return { code, value: JSON.parse(out) }
}

beforeAll(() => {
  at = folder({
    'mcp.config.json': { modules: { notes: { constraints: { blocked_actions: ['nothing_*'] } } } },
    'modules/notes.mjs': notesModule,
    'torn.json': { modulesDir: 'torn' },
    'torn/lame.mjs':
      "export default { name: 'lame', description: 'No effect.', tools: { a: { description: 'A.', run: () => 1 } } }",
    'words.json': { modulesDir: 'modules', search: { embedder: 'none' } },
    'secret-search.json': {
      modulesDir: 'modules',
      search: { embedder: 'openai:http://me:s3@cret@127.0.0.1:1/s3?key=cret' },
    },
    'broken-search.json': { modulesDir: 'modules', search: { embedder: 'openai:http://127.0.0.1:1/v1' } },
    'servers.json': {
      modulesDir: 'modules',
      mcpServers: {
        fine: { command: 'node', args: [join(import.meta.dirname, '../fixtures/upstreams/scripted.mjs')] },
        broken: { command: 'node', args: ['-e', 'console.error("Error: no key"); process.exit(2)'] },
        off: { command: 'node', disabled: true },
      },
    },
    'slow.json': {
      modulesDir: 'modules',
      search: { embedder: 'none' },
      mcpServers: { hangs: { command: 'node', args: ['-e', 'setInterval(() => {}, 1e6)'] } },
    },
    'noisy.json': {
      modulesDir: 'modules',
      search: { embedder: 'none' },
      mcpServers: {
        talks: { command: 'node', args: ['-e', 'console.log("Listening on 3000"); setInterval(() => {}, 1e6)'] },
      },
    },
    'strict.json': {
      modulesDir: 'modules',
      modules: { notes: { constraints: { allowed_actions: ['read'] } } },
      tools: { 'notes.read': { enabled: false } },
    },
  })
})
afterAll(() => at.remove())

describe('list', () => {
  it('prints the tools a client sees', async () => {
    const { code, value } = await json('list')
    expect(code).toBe(0)
    expect(value).toContainEqual({
      name: 'notes.add',
      wire_name: 'notes__add',
      module: 'notes',
      risk_level: 'medium',
      description: 'Keep a note under a title, replacing the old one.',
    })
    expect(value.map((row: { name: string }) => row.name)).not.toContain('notes.rebuild')
  })

  it('prints hidden tools with the reason on request', async () => {
    const { out } = await run('list', '--hidden', '--config', 'strict.json')
    expect(out).toMatch(/^notes\.add +medium .*hidden: not in modules\.notes\.constraints\.allowed_actions$/m)
    expect(out).toMatch(/^notes\.read +low .*hidden: notes\.read tool is disabled$/m)
    const { value } = await json('list', '--hidden')
    expect(value.find((row: { name: string }) => row.name === 'notes.rebuild').hidden).toContain('set-up steps')
  })

  it('prints modules and servers', async () => {
    const modules = await json('list', 'modules')
    expect(modules.value).toContainEqual({ id: 'notes', state: 'ready', tools: 2, summary: 'Short notes.' })
    expect(modules.value).toContainEqual({
      id: 'shell',
      state: 'unavailable',
      tools: 0,
      summary: expect.any(String),
      reason: 'set modules.shell.config.enabled to true',
    })
    const reasonOf = (id: string) => modules.value.find((row: { id: string }) => row.id === id).reason
    expect(reasonOf('http')).toBe('set modules.http.config.access to "read" or "write"')
    expect((await json('list', 'servers')).value).toEqual([])
  })

  it('prints servers with state, reason and next attempt, waits for unknown ones and starts no known one', async () => {
    const first = await run('list', 'servers', '--config', 'servers.json', '--json')
    const learnt = JSON.parse(first.out)
    expect(learnt).toMatchObject([
      {
        id: 'mcp_fine',
        state: 'started',
        transport: 'stdio',
        era: 'legacy',
        start: 'lazy',
        start_ms: expect.any(Number),
      },
      {
        id: 'mcp_broken',
        state: 'failing',
        tools: 0,
        reason: 'it exited with code 2: Error: no key',
        next_attempt: expect.stringMatching(/^in \d+ s$/),
        next_attempt_in_ms: expect.any(Number),
      },
      { id: 'mcp_off', state: 'disabled' },
    ])
    const { out } = await run('list', 'servers', '--config', 'servers.json')
    expect(out).toMatch(/^mcp_fine +known +\d+ +stdio +legacy$/m)
    expect(out).toMatch(/^mcp_broken +failing +0 +stdio +it exited with code 2: Error: no key( \(retry in \d+ s\))?$/m)
    expect(out).toMatch(/^mcp_off +disabled +0 +stdio$/m)
    const tools = await run('list', '--config', 'servers.json')
    expect(tools.out).toMatch(/^mcp_fine\.echo /m)
    expect(tools.err).toMatch(
      /^pegboard: warning: mcp_broken: it exited with code 2: Error: no key( \(retry in \d+ s\))?\n$/,
    )
    const found = await run('search', 'echo', '--limit', '1', '--config', 'servers.json', '--json')
    expect(JSON.parse(found.out)).toEqual([
      expect.objectContaining({ name: 'mcp_fine.echo', starts_in_ms: expect.any(Number) }),
    ])
  })
})

describe('on a terminal', () => {
  it('lists have a header', async () => {
    const { io, out, err } = terminal(at.dir)
    const argv = ['list', 'servers', '--config', 'slow.json', '--wait', '0']
    await runWith(argv, { ...io, terminal: { out: true, err: true } })
    expect(out()).toMatch(
      /^ID +STATE +TOOLS +TRANSPORT +MAY TOUCH +REASON\nmcp_hangs +configured +0 +stdio +all your files, network +starting/,
    )
    expect(err()).toContain(
      '1 local server runs without a sandbox and can read and write all your files. To limit a server, set its "sandbox".\n',
    )
  })

  it.each([
    [['list'], /^filesystem\.read +low +Read the content of a text file, whole or by…$/m],
    [['search', 'read a file'], /filesystem\.read +low +Read the content of.*… +Needs: existing path\.$/m],
  ])('descriptions in the table of %j fit 80 columns, and are whole in a pipe', async (argv, row) => {
    const { io, out } = terminal(at.dir)
    await runWith([...argv, '--config', 'words.json'], { ...io, terminal: { out: true, err: true, columns: 80 } })
    expect(out()).toMatch(row)
    expect(
      out()
        .split('\n')
        .filter((line) => line.length > 80),
    ).toEqual([])
    const piped = (await run(...argv, '--config', 'words.json')).out
    expect(piped).toContain('Read the content of a text file, whole or by lines (offset, limit, tail); show an image.')
  })

  it.each([
    [
      'modules',
      /^http +unavailable +0 +Send HTTP requests.*…?\n {2}set modules\.http\.config\.access to "read" or "write"$/m,
    ],
    ['servers', /^mcp_broken +failing +0 +stdio +all your files, network\n {2}it exited with code 2: Error: no key/m],
  ])('the table of list %s fits 80 columns, with whole reasons', async (what, row) => {
    const { io, out } = terminal(at.dir)
    const argv = ['list', what, '--config', 'servers.json']
    await runWith(argv, { ...io, terminal: { out: true, err: true, columns: 80 } })
    expect(out()).toMatch(row)
    expect(
      out()
        .split('\n')
        .filter((line) => line.length > 80),
    ).toEqual([])
  })

  it('the log is formatted for people and cannot control the terminal', () => {
    const line = {
      time: 'x',
      level: 'warn',
      scope: 'mcp_a',
      message: 'it broke',
      retryInMs: 5,
      stderr: 'one\n\u001b[31mtwo',
    }
    expect(formatLogEntry(JSON.stringify(line))).toBe(
      'pegboard: warn: mcp_a: it broke\n    retryInMs: 5\n    stderr: one\n      two',
    )
    expect(formatLogEntry('{"cut…')).toBe('{"cut…')
  })
})

describe('a server that has not answered yet', () => {
  const warning = 'pegboard: warning: mcp_hangs is still starting; to wait longer: --wait 120\n'

  it('is reported as starting by list and check', async () => {
    const listed = await run('list', 'servers', '--config', 'slow.json', '--wait', '0')
    expect(listed.out).toMatch(/^mcp_hangs +configured +0 +stdio +starting$/m)
    expect(listed.err).toBe(warning)
    const { code, out, err } = await run('check', '--config', 'slow.json', '--wait', '0')
    expect([code, err]).toEqual([1, ''])
    expect(out).toContain('  mcp_hangs is still starting; to wait longer: --wait 120\n')
  })

  it('is waited for only by calls of its own tools', async () => {
    expect((await run('list', 'modules', '--config', 'slow.json')).err).toBe('')
    const other = await run('call', 'notes.reed', '--config', 'slow.json')
    expect(other.err).toContain("E_NOT_FOUND: Tool 'notes.reed' not found. Did you mean 'notes.read'?")
    const own = await run('call', 'hangs__x', '--config', 'slow.json', '--wait', '1')
    expect(own.err).toContain(warning)
  })

  it('and prints other output is reported as doing so', async () => {
    const why =
      'no answer yet; its output is not MCP: "Listening on 3000"; it may not be an MCP server, or it logs to stdout'
    const listed = await run('list', 'servers', '--config', 'noisy.json', '--wait', '4')
    expect(listed.out).toContain(`mcp_talks  failing  0  stdio    ${why}`)
    expect(listed.err).toBe(
      `pegboard: waiting for mcp_talks\npegboard: warning: mcp_talks: ${why}; to wait longer: --wait 120\n`,
    )
    const checked = await run('check', '--config', 'noisy.json', '--wait', '4')
    expect(checked.out).toContain(`  mcp_talks is failing: ${why}\n`)
  })

  it('delays a search by three seconds at most', async () => {
    const { err, out } = await run('search', 'keep a note', '--config', 'slow.json')
    expect(err).toBe(warning)
    expect(out).toContain('notes.add')
  })
})

describe('search', () => {
  it('prints an array of names and scores, best first', async () => {
    const { code, value } = await json('search', 'keep a note', '--limit', '1')
    expect(code).toBe(0)
    expect(value).toEqual([
      {
        name: 'notes.add',
        score: expect.any(Number),
        description: 'Keep a note under a title, replacing the old one.',
        params_summary: 'title: str, text: str, stars?: int = 1',
        risk_level: 'medium',
      },
    ])
  })

  it('prints the nearest tools when nothing matches well, and says so', async () => {
    const { code, out, err } = await run('search', 'xylophone', '--json', '--config', 'mcp.config.json')
    expect([code, err]).toEqual([0, 'No close match; these are the nearest.\n'])
    expect(JSON.parse(out).length).toBeGreaterThan(0)
  })

  it('explains its answers on request', async () => {
    const words = ['search', 'keep a note', '--explain', '--ranker', 'lexical', '--config', 'words.json']
    const { code, out, err } = await run(...words)
    expect([code, err]).toEqual([0, ''])
    expect(out).toMatch(/^score +tool +words +meaning +covered +name covered +calls +matched words\n/)
    expect(out).toMatch(/^0\.\d\d +notes\.add +0\.\d\d +0\.00 +0\.00 +0\.00 +0 +keep note\n/m)
    const [first] = JSON.parse((await run(...words, '--json')).out)
    expect(first).toMatchObject({
      name: 'notes.add',
      matched: ['keep', 'note'],
      why: { lexicalShare: 1, cosine: 0, exactName: false, calls: 0 },
    })
    expect((await run('search', 'notes.add', '--explain', '--config', 'words.json')).out).toContain('(its name)')
  })

  it('reports an unusable model, and answers without it', async () => {
    const { code, out, err } = await run(
      'search',
      'keep a note',
      '--config',
      'broken-search.json',
      '--ranker',
      'lexical',
    )
    expect(code).toBe(0)
    expect(err).toContain(
      'pegboard: warning: openai:http://127.0.0.1:1 is unavailable: search.embedder "openai:…" needs',
    )
    expect(out).toContain('notes.add')
  })

  it('shows the address of a model without password, path and query', async () => {
    const { err } = await run('search', 'keep a note', '--config', 'secret-search.json', '--ranker', 'lexical')
    expect(err).toContain('pegboard: warning: openai:http://127.0.0.1:1 is unavailable: ')
    expect(err).not.toContain('s3')
    expect(err).not.toContain('cret')
  })
})

describe('call', () => {
  it('runs a tool with JSON arguments and prints the result', async () => {
    const { code, out } = await run('call', 'notes.add', '{"title":"a","text":"hello"}', '-c', 'mcp.config.json')
    expect([code, JSON.parse(out)]).toEqual([0, { title: 'a', length: 5, stars: 1 }])
  })

  it("accepts key=value pairs, typed by the tool's schema", async () => {
    const { value } = await json('call', 'notes__add', '--params', 'title=7', 'text=a=b', 'stars=3')
    expect(value.structuredContent).toEqual({ title: '7', length: 3, stars: 3 })
  })

  it('runs meta-tools', async () => {
    const { value } = await json('call', 'get_tool', '{"name":"notes.read"}')
    expect(value.structuredContent).toMatchObject({ name: 'notes.read', risk_level: 'low' })
  })

  it.each([
    [['notes.read', 'title=none'], 'pegboard: E_TOOL_FAILED: No note called none.'],
    [['notes.reed', 'title=none'], "pegboard: E_NOT_FOUND: Tool 'notes.reed' not found. Did you mean 'notes.read'?"],
    [['notes.read', '{}'], 'pegboard: E_VALIDATION: Invalid params for notes.read'],
  ])('%j fails with exit code 1', async (argv, message) => {
    const { code, out, err } = await run('call', ...argv, '-c', 'mcp.config.json', '--wait', '0')
    expect([code, out]).toEqual([1, ''])
    expect(err).toContain(message)
  })

  it('prints the data of a failure before its message', async () => {
    const other = folder({
      'mcp.config.json': {},
      'modules/build.mjs': `export default {
        name: 'build',
        description: 'Builds.',
        tools: { start: { description: 'Builds it.', effect: 'write', run: () => ({ error: 'The build failed.', output: 'line 3' }) } },
      }`,
    })
    try {
      const { code, out, err } = await pegboard(other.dir, 'call', 'build.start', '-c', 'mcp.config.json')
      expect([code, out]).toEqual([1, ''])
      expect(err).toMatch(/"output": "line 3"\n\}\npegboard: E_TOOL_FAILED: The build failed\./)
    } finally {
      other.remove()
    }
  })

  it('tells the operator why a tool is hidden, which clients are not told', async () => {
    const off = await run('call', 'shell.run', '-c', 'mcp.config.json')
    expect(off.code).toBe(1)
    expect(off.err).toBe(
      'pegboard: E_NOT_FOUND: shell.run is hidden: set modules.shell.config.enabled to true. pegboard --config mcp.config.json why shell.run explains what clients see.\n',
    )
    const { value } = await json('call', 'shell.run')
    expect(value.structuredContent.error.message).toContain("Tool 'shell.run' not found.")
  })

  it('prints a failure in the format that clients get with --json', async () => {
    const { code, value } = await json('call', 'notes.read', 'title=none')
    expect([code, value.isError, value.structuredContent.error.code]).toEqual([1, true, 'E_TOOL_FAILED'])
  })
})

describe('schema', () => {
  it('uses the singular for one tool', async () => {
    const { out } = await run('schema', '-c', 'mcp.config.json')
    expect(out).toMatch(/^notes +3 tools +Short notes\.$/m)
    expect(out).toMatch(/^plan +1 tool +/m)
  })

  it('prints every action with its parameters, and marks internal ones', async () => {
    const { code, value } = await json('schema', 'notes')
    expect(code).toBe(0)
    expect(value.actions.map((one: { name: string }) => one.name)).toEqual(['add', 'read', 'rebuild'])
    for (const one of value.actions) expect(one.parameters).toMatchObject({ type: 'object' })
    expect(value.actions[2].internal).toBe(true)
    const { out } = await run('schema', 'notes', '-c', 'mcp.config.json')
    expect(out).toMatch(/^ {4}title +string +required +Its name\.$/m)
    expect(out).toMatch(/^ {4}stars +integer +default 1$/m)
  })

  it('lists the known modules for an unknown name', async () => {
    const { code, err } = await run('schema', 'note', '-c', 'mcp.config.json')
    expect(code).toBe(1)
    expect(err).toMatch(/^pegboard: E_NOT_FOUND: There is no module "note"\. Modules: .*notes.*Did you mean "notes"\?/)
  })

  it('lists modules without a name', async () => {
    expect((await json('schema')).value).toContainEqual({ id: 'notes', summary: 'Short notes.', actions: 3 })
  })
})

describe('the command line', () => {
  it.each([
    [['serch', 'x'], 'unknown command "serch"; did you mean "search"?'],
    [['status'], 'unknown command "status"; did you mean "doctor"?'],
    [['rm', 'x'], 'unknown command "rm"; did you mean "remove"?'],
    [['servers'], 'unknown command "servers"; did you mean "list"?'],
    [['constructor'], 'unknown command "constructor"\n'],
    [['list', '--hiden'], 'unknown option --hiden for list; did you mean --hidden?'],
    [['list', 'colours'], 'list takes tools, modules or servers, not "colours"'],
    [['list', 'tools', 'x'], 'list does not take "x"'],
    [['search'], 'search needs a query'],
    [['search', 'x', '--ranker', 'all'], '--ranker takes hybrid, lexical, vector, not "all"'],
    [['search', 'x', '--limit', 'many'], '--limit takes a whole number from 1 to 100, not "many"'],
    [['call'], 'call needs the name of a tool'],
    [['call', 'x', '{bad'], 'the arguments are not JSON'],
    [['call', 'x', 'y'], '"y" is neither a JSON object nor key=value'],
    [['eval'], 'eval needs --tools FILE and --queries FILE'],
    [['serve', '--stdio', '--http'], 'choose --stdio or --http, not both'],
    [['serve', '--http', '--port', '99999'], '--port takes a whole number from 0 to 65535'],
    [['--nonsense'], 'unknown option --nonsense for pegboard\n'],
    [['--hlep'], 'unknown option --hlep for pegboard; did you mean --help?'],
    [['--config', 'mcp.config.json'], 'name a command, such as pegboard --config mcp.config.json serve\n'],
    [['--verbose'], 'name a command, such as pegboard serve\n'],
    [['version'], 'unknown command "version"; did you mean "--version"?'],
    [['list', '-x'], 'unknown option -x for list\n'],
    [['search', 'x', '--limit'], '--limit needs a value: --limit N\n'],
    [
      ['why', 'x', '--message', '-v'],
      '--message needs a value: --message TEXT, or --message=TEXT if it begins with "-"\n',
    ],
    [['list', '--hidden=yes'], '--hidden takes no value\n'],
    [['list', '-c'], '--config needs a value: --config FILE\n'],
    [['add'], 'add takes a name of the registry, a URL, npm:package, or a command\n'],
  ])('%j is a usage error with exit code 2', async (argv, message) => {
    const { code, out, err } = await run(...argv)
    expect([code, out]).toEqual([2, ''])
    expect(err).toContain(`pegboard: ${message}`)
  })

  it('suggests only commands that exist, for words that are none', () => {
    const names = commands.map(({ name }) => name)
    expect([...guessedCommands.values()].filter((name) => !names.includes(name))).toEqual([])
    expect([...guessedCommands.keys()].filter((name) => names.includes(name))).toEqual([])
  })

  it('prints help in general and for one command, and the version', async () => {
    const general = await run('--help')
    for (const name of ['serve', 'list', 'search', 'call', 'check', 'schema', 'eval'])
      expect(general.out).toMatch(new RegExp(`^ {2}${name} `, 'm'))
    const search = (await run('help', 'search')).out
    expect(search).toContain('Usage: pegboard search <query> [--limit N]')
    const about = search.split('\n').flatMap((row) => /^ +-.*? {2,}(?=[A-Z])/.exec(row)?.[0].length ?? [])
    expect(new Set(about).size).toBe(1)
    expect((await run('search', '--help')).out).toContain('-c, --config FILE')
    expect((await run('help', 'help')).out).toBe(general.out)
    expect((await run('--version')).out).toMatch(/^\d+\.\d+\.\d+\n$/)
    expect((await run()).code).toBe(0)
  })

  it('prints help within 80 columns', async () => {
    const pages = ['--help', ...commands.map(({ name }) => name)].map((topic) => run('help', topic))
    for (const { out } of await Promise.all(pages))
      expect(out.split('\n').filter((line) => line.length > 80)).toEqual([])
    expect((await run('help', 'undo')).out).toContain(
      '      --force                 Undo even if a file changed since then. The later\n' +
        '                              changes are lost.\n',
    )
  })

  it('reports files that were not loaded, with every command', async () => {
    const warning = 'pegboard: warning: not loaded: lame.mjs: lame.a needs effect: "read", "write" or "destructive".\n'
    for (const command of [['list'], ['search', 'greet']])
      expect((await run(...command, '--config', 'torn.json')).err).toBe(warning)
    expect((await run('call', 'lame.a', '--config', 'torn.json')).err).toContain(warning)
    expect((await run('check', '--config', 'torn.json')).err).toBe('')
  })

  it("refers to the command's help", async () => {
    expect((await run('search')).err).toMatch(/\nSee pegboard help search\.\n$/)
    expect((await run('serach')).err).toMatch(/\nSee pegboard help\.\n$/)
  })

  it.each([
    [['list', '-x'], 'unknown option -x for list', 'See pegboard help list.'],
    [['serach'], 'unknown command "serach"; did you mean "search"?', 'See pegboard help.'],
    [['search'], 'search needs a query, such as pegboard search "read a file"', 'See pegboard help search.'],
    [[], 'name a command, such as pegboard serve', 'See pegboard help.'],
  ])('%j with --json prints its usage error as JSON', async (argv, message, hint) => {
    const { code, out, err } = await run(...argv, '--json')
    expect([code, out]).toEqual([2, ''])
    expect(JSON.parse(err)).toEqual({ error: { code: 'E_USAGE', message, hint } })
  })

  it('accepts --config before the command', async () => {
    expect((await run('--config', 'mcp.config.json', 'list')).out).toContain('notes.add')
  })

  it('prints configuration errors with their code, as JSON on request', async () => {
    const plain = await run('list', '--config', 'nope.json')
    expect(plain).toEqual({
      code: 1,
      out: '',
      err: 'pegboard: E_CONFIG_MISSING: The configuration file nope.json does not exist. Check the path given with --config.\n',
    })
    const asJson = await run('list', '--config', 'nope.json', '--json')
    expect(JSON.parse(asJson.err).error.code).toBe('E_CONFIG_MISSING')
  })
})
