import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { folder, notesModule, pegboard } from './terminal.ts'

let at: ReturnType<typeof folder>
const check = async (config: string) => {
  const { code, out } = await pegboard(at.dir, 'check', '--json', '--config', config)
  return { code, report: JSON.parse(out) }
}

beforeAll(() => {
  at = folder({
    'good.json': { exposure: { mode: 'direct' } },
    'typos.json': {
      modules: { notes: { constraints: { blocked_actions: ['drop_table'] } }, note: {} },
      tools: { 'notes.ad': { enabled: false } },
      exposure: { pinned: ['notes.rea'] },
      profiles: { chat: { deliberate: { triggers: { memroy: ['jot'], memory: ['note it'] } } } },
    },
    'broken.json': { modulesDir: 'broken', mcpServers: { nothing: {} } },
    'faulty.json': { modulesDir: 'faulty' },
    'faulty/kit.mjs': `
      const word = { type: 'object', properties: { word: { enum: ['a', 'b'] } } }
      const anyWord = { type: 'object', properties: { word: { type: 'string' } } }
      const tool = { description: 'Returns a word.', effect: 'read', input: word, run: () => 'a' }
      export default { name: 'kit', description: 'Words.', promptSection() { throw new Error('no text') }, tools: {
        plain: tool,
        broken: { ...tool, available() { throw new Error('no backend') } },
        wide: { ...tool, assemble: (_context, { description }) => ({ description, input: anyWord }) },
      } }`,
    'faulty/late.mjs': `
      const tool = { description: 'Returns a word.', effect: 'read', run: () => 'a' }
      export default { name: 'late', description: 'Words.', tools: {
        say: { ...tool, available: async () => true },
        fail: { ...tool, available: async () => { throw new Error('no backend') } },
        narrow: { ...tool, assemble: async (_context, draft) => draft } } }`,
    'faulty/late-switch.mjs': `
      export default { name: 'late_switch', description: 'Words.', enabled: async () => true, tools: {
        say: { description: 'Returns a word.', effect: 'read', run: () => 'a' } } }`,
    'faulty/odd.mjs': `
      const input = { type: 'object', properties: { word: { $ref: '#/$defs/word' } } }
      export default { name: 'odd', description: 'Words.', tools: {
        say: { description: 'Returns a word.', effect: 'read', input, run: () => 'a' } } }`,
    'faulty/off.mjs': `
      export default { name: 'off', description: 'Words.', enabled() { throw new Error('no switch') }, tools: {
        say: { description: 'Returns a word.', effect: 'read', run: () => 'a' } } }`,
    'twice.json': { modulesDir: 'twice' },
    'twice/a.mjs': "export const name = 'dice', description = 'Rolls a die.', run = () => 1",
    'twice/b.mjs': "export const name = 'dice', description = 'Rolls a die.', run = () => 2",
    'options.json': {
      modulesDir: 'options',
      modules: { kit: { config: { limt: 1 } }, hello: { config: { name: 'Ada' } } },
      profiles: { part: { modules: { kit: { config: { lmit: 2 } } } } },
    },
    'options/kit.mjs': `
      import { z } from 'zod'
      export default { name: 'kit', description: 'Words.', config: z.object({ limit: z.number().optional() }), tools: {
        say: { description: 'Returns a word.', effect: 'read', available: ({ config }) => true, run: () => 'a' } } }`,
    'tight.json': { exposure: { contextWindow: 1_000 } },
    'wrong.json': { exposre: {} },
    'frozen.json': {
      mcpServers: { fetched: { command: 'npx', args: ['-y', 'some-server'] } },
      policy: { deny: ['fetched.remove', 'nothing.remove'] },
    },
    'part.json': { profiles: { part: { use: ['notes'] } } },
    'same-name.json': {
      mcpServers: { filesystem: { command: '/nowhere/server' } },
      modules: { filesystem: { config: { roots: ['there'] } } },
    },
    'profiles.json': {
      mcpServers: {
        Memory: { command: 'no-such-program', disabled: true },
        'Mail (work)': { command: 'no-such-program', disabled: true },
        waiting: { command: 'no-such-program', args: ['${UNSET_VARIABLE}'] },
      },
      openapi: { pets: { document: 'pets.json', enabled: false } },
      modules: { shell: { enabled: false } },
      profiles: {
        a: { use: ['memry', 'git*', 'memory', 'Mail (work)', 'waiting', 'pets', 'shell', 'files*', 'notes'] },
        b: { use: ['mcp_memory', 'mcp_mail_work', 'api_pets'], modules: { filesytem: {}, shell: { enabled: false } } },
        c: { use: [], mcpServers: { calendar: { command: 'no-such-program', disabled: true } } },
        d: { use: ['calendar', '*'], mcpServers: { calendar: { command: 'no-such-program', disabled: true } } },
      },
    },
    'misspelt.json': { modules: { database: { config: { conections: {} } } } },
    'model.json': { search: { embedder: 'openai:http://127.0.0.1:1/v1' } },
    'clients.json': {
      modulesDir: 'long',
      exposure: { mode: 'direct', pinned: ['notes.read', 'notes.add'] },
      clients: { tiny: { maxTools: 6, maxNameLength: 20 }, 'small*': { maxTools: 6, exposure: { mode: 'discovery' } } },
    },
    'absent.json': {
      dirs: { workspace: 'there' },
      modules: {
        filesystem: { config: { roots: ['.', 'nowhere', '{{workspace}}/later'] } },
        media: { config: { speech: { type: 'command', command: 'no-such-speaker', args: ['%output%'] } } },
        shell: { enabled: false, config: { roots: ['nowhere'] } },
      },
      mcpServers: {
        gone: { command: '/nowhere/server' },
        relative: { command: './server', disabled: true },
        off: { command: 'no-such-program', disabled: true },
      },
    },
    'there/file.txt': 'here',
    'long/notes.mjs': notesModule,
    'long/long.mjs': `
      const union = { type: 'object', oneOf: [{ properties: { a: { type: 'string' } } }, { properties: { b: { type: 'string' } } }] }
      export default { name: 'long', description: 'Long names.', tools: { a_name_that_is_too_long: {
        description: 'Does nothing at all, at length.', effect: 'read', input: union, run: () => 1 } } }`,
    'modules/notes.mjs': notesModule.replace("aliases: ['jot down'],", "aliases: ['jot down'], intent: 'memory',"),
    'broken/bad.mjs': 'export default {\n  name: \n',
    'broken/notes.mjs': notesModule,
  })
})
afterAll(() => at.remove())

describe('check', () => {
  it('ignores rules about servers that --frozen skips', async () => {
    const { out } = await pegboard(at.dir, 'check', '--frozen', '--json', '--config', 'frozen.json')
    const { warnings } = JSON.parse(out) as { warnings: string[] }
    expect(warnings.filter((one) => one.startsWith('policy.'))).toEqual([
      'policy.deny names "nothing.remove", which matches no tool.',
    ])
  })

  it('prints the mode, both estimates and the tokens of each category', async () => {
    const { code, report } = await check('good.json')
    expect(code).toBe(0)
    expect(report).toMatchObject({ ok: true, mode: 'direct', budgetTokens: 26_214, warnings: [], errors: [] })
    expect(report.why).toMatch(
      /^exposure\.mode is "direct"; \d+ tools, about \d+ tokens \(estimated by length\), within/,
    )
    expect(report.estimators.flat).toEqual({ mode: 'direct', tokens: report.tools * 200 })
    const notes = report.categories.find((row: { id: string }) => row.id === 'notes')
    expect(notes).toEqual({ id: 'notes', state: 'ready', tools: 2, tokens: expect.any(Number) })
    const sum = report.categories.reduce((all: number, row: { tokens: number }) => all + row.tokens, 0)
    expect(sum).toBe(report.estimators.measured.tokens)
  })

  it('reports missing folders and programs of enabled entries', async () => {
    const { report } = await check('absent.json')
    const named = report.warnings.filter((warning: string) => /does not exist|not found/.test(warning))
    expect(named).toEqual([
      `modules.filesystem.config.roots: ${at.dir}/there/nowhere does not exist.`,
      'modules.media.config.speech.command: program no-such-speaker not found.',
      'mcpServers.gone.command: program /nowhere/server not found.',
    ])
  })

  it('with a profile ignores what the profile does not have', async () => {
    const { out } = await pegboard(at.dir, 'check', '--json', '--profile', 'part', '--config', 'part.json')
    expect(JSON.parse(out).categories.map(({ id }: { id: string }) => id)).toEqual(['notes'])
  })

  it('says which estimate would select discovery', async () => {
    const { report } = await check('tight.json')
    expect(report.budgetTokens).toBe(200)
    expect(report.estimators.flat.mode).toBe('discovery')
  })

  const promised = (name: string) => `${name} returned a promise, but it must be synchronous`

  it('reports tools that clients do not see because of an error in the module', async () => {
    const { code, report } = await check('faulty.json')
    expect(code).toBe(1)
    expect(report.errors).toEqual([
      'odd.mjs: the input of odd.say.properties.word.$ref leads nowhere: "#/$defs/word".',
      'kit.mjs: clients do not see kit.broken: its availability check failed: no backend',
      'kit.mjs: clients do not see kit.wide: its assembly check failed: assemble returned a schema that accepts more than the tool: word is no longer one of 2 values',
      `late.mjs: clients do not see late.say: its availability check failed: ${promised('available')}`,
      `late.mjs: clients do not see late.fail: its availability check failed: ${promised('available')}`,
      `late.mjs: clients do not see late.narrow: its assembly check failed: ${promised('assemble')}`,
      `late-switch.mjs: clients do not see late_switch.say: its switch check failed: ${promised('enabled')}`,
      'off.mjs: clients do not see off.say: its switch check failed: no switch',
    ])
    expect(report.warnings).toEqual(['kit.mjs: clients do not get the prompt section of kit: no text'])
  })

  it('finds such an error also with list modules and why', async () => {
    const { out: modules } = await pegboard(at.dir, 'list', 'modules', '--json', '--config', 'faulty.json')
    const reasonOf = (id: string) => JSON.parse(modules).find((row: { id: string }) => row.id === id)?.reason
    expect(reasonOf('kit')).toBe('kit.broken: its availability check failed: no backend')
    expect(reasonOf('late')).toBe(`its availability check failed: ${promised('available')}`)
    expect(reasonOf('late_switch')).toBe(`its switch check failed: ${promised('enabled')}`)
    const { out: why } = await pegboard(at.dir, 'why', 'late.fail', '--json', '--config', 'faulty.json')
    expect(JSON.parse(why).rule).toBe(`its availability check failed: ${promised('available')}`)
  })

  it('warns about a tool that two files define', async () => {
    const { code, report } = await check('twice.json')
    expect([code, report.warnings]).toEqual([
      0,
      [
        'The tool "dice" of b.mjs replaces the one of a.mjs: clients see it as a.dice, and can also call it b.dice. To keep both tools, rename one. Otherwise, delete one.',
      ],
    ])
  })

  it('warns about unknown options of modules, also in profiles', async () => {
    const limit = (key: string) => `${key}: an unknown configuration key is ignored; did you mean "limit"?`
    const everywhere = [
      'modules.hello.config.name: hello does not declare this option',
      limit('modules.kit.config.limt'),
    ]
    expect((await check('options.json')).report.warnings).toEqual(everywhere)
    const part = await pegboard(at.dir, 'check', '--json', '--profile', 'part', '--config', 'options.json')
    expect(JSON.parse(part.out).warnings).toEqual([...everywhere, limit('profiles.part.modules.kit.config.lmit')])
  })

  it('fails for an unusable search model', async () => {
    const { code, report } = await check('model.json')
    expect(code).toBe(1)
    expect(report.errors).toEqual([
      'search.embedder "openai:…" needs search.embedderOptions.model. Correct the named key.',
    ])
  })

  it('does not warn about settings of a module that has the name of a server', async () => {
    const { report } = await check('same-name.json')
    expect(report.warnings.filter((one: string) => one.startsWith('modules.'))).toEqual([])
  })

  it('warns about modules and servers of a profile that do not exist', async () => {
    const { report } = await check('profiles.json')
    expect(report.warnings.filter((one: string) => one.startsWith('profiles.'))).toEqual([
      'profiles.a.use names "memry", which is no server, API or module; did you mean "memory"?',
      'profiles.a.use names "git*", which is no server, API or module.',
      'profiles.b.modules names "filesytem", which is no server, API or module; did you mean "filesystem"?',
    ])
  })

  it('warns about settings that match nothing, without failing', async () => {
    const { code, report } = await check('typos.json')
    expect(code).toBe(0)
    expect(report.warnings).toEqual([
      'modules.notes.constraints names "drop_table", which is no tool of notes.',
      'modules.note names no loaded module; did you mean "notes"?',
      'tools.notes.ad names no tool; did you mean "notes.add"?',
      'exposure.pinned names "notes.rea", which is no visible tool; did you mean "notes.read"?',
      'profiles.chat.deliberate.triggers names "memroy", which is no tool\'s intent; did you mean "memory"?',
    ])
  })

  it('fails for unusable modules and servers, and still checks the rest', async () => {
    const { code, report } = await check('broken.json')
    expect(code).toBe(1)
    expect(report.ok).toBe(false)
    expect(report.errors).toHaveLength(2)
    expect(report.errors[0]).toMatch(/bad\.mjs/)
    expect(report.errors[1]).toBe('mcpServers.nothing names neither a command nor a url')
    expect(report.categories.map((row: { id: string }) => row.id)).toContain('notes')
  })

  it('reports a module with invalid settings once, as an error', async () => {
    const { report } = await check('misspelt.json')
    expect(report.errors).toEqual([
      'bundled/database/index.ts: modules.database.config: unknown key "conections"; did you mean "connections"?',
    ])
    expect(report.warnings).toEqual([])
  })

  it('fails for a configuration that cannot be read', async () => {
    const { code, report } = await check('wrong.json')
    expect(code).toBe(1)
    expect(report.errors[0]).toContain('unknown key "exposre"; did you mean "exposure"?')
  })

  it('shows what one client gets: mode, list, shortened names, changed schemas and warnings', async () => {
    const as = async (client: string) => {
      const { out } = await pegboard(at.dir, 'check', '--json', '--config', 'clients.json', '--client', client)
      return JSON.parse(out)
    }
    const cursor = await as('cursor')
    expect(cursor.mode).toBe('direct')
    expect(cursor.client).toMatchObject({
      name: 'cursor-vscode',
      title: 'Cursor',
      limits: { maxTools: 40, schema: 'strict', maxNameLength: 46, trustsListChanged: true },
      shortened: [],
      warnings: [],
    })
    expect(cursor.client.listed).toContain('long__a_name_that_is_too_long')
    expect(cursor.client.schemas).toContain('long.a_name_that_is_too_long')
    expect(cursor.warnings).toEqual([])

    const tiny = await as('tiny')
    expect(tiny.mode).toBe('discovery')
    expect(tiny.why).toContain('more than the 6 that this client accepts')
    expect(tiny.client.shortened).toEqual([
      { tool: 'filesystem.read_many', from: 'filesystem__read_many', to: 'filesystem__1e43e2ac' },
      { tool: 'filesystem.read_file', from: 'filesystem__read_file', to: 'filesystem__1aa2befd' },
      { tool: 'filesystem.write_file', from: 'filesystem__write_file', to: 'filesystem__075cf11d' },
      {
        tool: 'long.a_name_that_is_too_long',
        from: 'long__a_name_that_is_too_long',
        to: expect.stringMatching(/^long__a_nam_[0-9a-f]{8}$/),
      },
    ])
    expect(tiny.client.listed).toHaveLength(6)
    expect(tiny.warnings).toEqual([
      'Pegboard knows no client called "tiny", so it shows what every client supports.',
      '1 of the pinned tools are not listed: this client accepts at most 6 tools.',
      'the tools for parallel and background work are not listed: this client accepts at most 6 tools.',
    ])
    const code = (await pegboard(at.dir, 'check', '--json', '--config', 'tight.json', '--client', 'claude-code')).out
    expect(JSON.parse(code).client.listed).toContain('background_run')
    expect(JSON.parse(code).warnings).toEqual([])
    const nobody = (await pegboard(at.dir, 'check', '--config', 'clients.json', '--client', 'cursor')).out
    expect(nobody).toMatch(/^Client +cursor-vscode \(Cursor\)$/m)
    expect(nobody).toMatch(/^Limits +maxTools 40, schema strict, /m)
  })

  it('prints readable text', async () => {
    const { out } = await pegboard(at.dir, 'check', '--config', 'good.json')
    expect(out).toMatch(/^Configuration +.*good\.json$/m)
    expect(out).toMatch(/^Mode +direct: /m)
    expect(out).toMatch(/^By length +\d+ tokens for all tools: direct \(whole definitions, 4 characters a token\)$/m)
    expect(out).toMatch(/^By number +\d+ tokens for all tools: direct \(200 tokens a tool\)$/m)
    expect(out).toMatch(/^ {2}notes +2 tools +\d+ tokens$/m)
    expect(out).toMatch(/No problems found\.\n$/)
  })
})
