import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { createCatalog } from '../../src/catalog/catalog.ts'
import { localCaller } from '../../src/core/caller.ts'
import { silentLog } from '../../src/core/log.ts'
import { defaultProfile } from '../../src/core/profile.ts'
import { createPolicy } from '../../src/policy/policy.ts'
import { createViews } from '../../src/view/views.ts'
import { sameRules } from '../view-rules.ts'
import { bench, moduleSource, put, tempDir, until } from './setup.ts'

const ids = (result: Awaited<ReturnType<typeof bench>>): string[] =>
  result.catalog.snapshot().tools.map((tool) => tool.id)

describe('loading', () => {
  it('evaluates _ files first, then the others in case-insensitive order [SBS-04]', async () => {
    const note = (name: string) => `globalThis.__order = [...(globalThis.__order ?? []), '${name}']\n`
    const found = await bench({
      'bbb.mjs': note('bbb') + moduleSource('bbb', 'b'),
      'Aaa.mjs': `${note('Aaa')}const word = globalThis.__word()\n${moduleSource('aaa', '')}`.replace(
        "=> ''",
        '=> word',
      ),
      '_common.mjs': `${note('_common')}globalThis.__word = () => 'helped'\nexport const answer = 42\n`,
    })
    const report = await found.loader.start()
    expect((globalThis as Record<string, unknown>)['__order']).toEqual(['_common', 'Aaa', 'bbb'])
    expect(report.failed).toEqual([])
    expect(report.loaded).toEqual(['aaa', 'bbb'])
    expect(await found.run('aaa.say')).toBe('helped')
    expect(found.loader.shared).toMatchObject({ common: { answer: 42 } })
  })

  it('loads a good file beside five broken ones, and reports each with its line', async () => {
    const found = await bench(
      {
        'a_syntax.mjs': 'export default {\n  name: "a",\n  tools: {{\n}\n',
        'b_throws.mjs': 'const a = 1\n\nthrow new Error("boom")\n',
        'c_schema.mjs': moduleSource('c', 'c').replace("effect: 'read'", "effect: 'read', input: { type: 'objekt' }"),
        'd_register.mjs': 'registerTool({ name: "d" })\n',
        'e_hangs.mjs': 'await new Promise(() => {})\n',
        'good.mjs': moduleSource('good', 'fine'),
      },
      { importTimeoutMs: 300 },
    )
    const report = await found.loader.start()
    expect(report.loaded).toEqual(['good'])
    expect(await found.run('good.say')).toBe('fine')
    const errors = Object.fromEntries(report.failed.map(({ file, error }) => [file, error]))
    expect(Object.keys(errors).sort()).toEqual([
      'a_syntax.mjs',
      'b_throws.mjs',
      'c_schema.mjs',
      'd_register.mjs',
      'e_hangs.mjs',
    ])
    expect(errors['a_syntax.mjs']).toMatch(/^a_syntax\.mjs:3: /)
    expect(errors['b_throws.mjs']).toBe('b_throws.mjs:3: boom')
    expect(errors['c_schema.mjs']).toContain('the input of c.say.type is "objekt"')
    expect(errors['d_register.mjs']).toBe('d_register.mjs:1: registerTool("d") needs execute(args, env).')
    expect(errors['e_hangs.mjs']).toContain('importing took longer than 300 ms')
    expect(found.warnings).toHaveLength(5)
    expect(found.loader.status().failed).toHaveLength(5)
  })

  it('runs .mjs, .js, .cjs and .ts drop-ins outside the repository that import pegboard and zod', async () => {
    const body = (name: string) => `export default defineModule({
      name: '${name}', description: 'A drop-in.',
      tools: { add: { description: 'Adds two numbers.', effect: 'read', input: z.object({ a: z.number(), b: z.number().default(1) }), run: ({ a, b }) => a + b } },
    })\n`
    const found = await bench({
      'one.mjs': `import { defineModule } from 'pegboard'\nimport { z } from 'zod'\n${body('one')}`,
      'two.ts': `import { defineModule, z } from 'pegboard'\nimport { twice, type Num } from './lib/math.js'\nconst n: Num = twice(2)\n${body('two').replace('a + b', '(a + b) * (n as number)')}`,
      'lib/math.ts': 'export type Num = number\nexport const twice = (n: Num): Num => n * 2\n',
      'three.js': `import { z } from 'zod'\nimport { defineModule } from 'pegboard'\n${body('three')}`,
      'four.cjs': `module.exports = { name: 'four', description: 'A drop-in.', tools: { add: { description: 'Adds one to a number.', effect: 'read', input: { type: 'object', properties: { a: { type: 'number' } } }, run: async ({ a }) => (await import('zod')).z.number().parse(a) + 1 } } }`,
      'five/index.mjs': `import { plus } from './plus.mjs'\n${body('five').replace('defineModule(', '(').replace('z.object({ a: z.number(), b: z.number().default(1) })', "{ type: 'object', properties: { a: {}, b: { default: 1 } } }").replace('a + b', 'plus(a, b)')}`,
      'five/plus.mjs': 'export const plus = (a, b) => a + b\n',
    })
    const report = await found.loader.start()
    expect(report.failed).toEqual([])
    expect(ids(found)).toEqual(['five.add', 'four.add', 'one.add', 'three.add', 'two.add'])
    expect(await found.run('one.add', { a: 1 })).toBe(2)
    expect(await found.run('two.add', { a: 1 })).toBe(8)
    expect(await found.run('three.add', { a: 1, b: 5 })).toBe(6)
    expect(await found.run('four.add', { a: 1 })).toBe(2)
    expect(await found.run('five.add', { a: 2 })).toBe(3)
  })

  it('loads bundled modules before a drop-in whose import never ends', async () => {
    const hello = fileURLToPath(new URL('../../modules', import.meta.url))
    // The test runner compiles imports first, which must not count here.
    await (await bench({}, { bundledDirs: [hello], importTimeoutMs: 30_000 })).loader.start()
    const found = await bench(
      { 'hang.mjs': 'await new Promise(() => setInterval(() => {}, 1e6).unref())', 'zz.mjs': moduleSource('zz', 'z') },
      { bundledDirs: [hello], importTimeoutMs: 1_500 },
    )
    const all = found.loader.start()
    await until(() => found.catalog.snapshot().owners.has('hello'))
    expect(found.catalog.snapshot().owners.has('zz')).toBe(false)
    expect((await all).failed).toMatchObject([{ error: expect.stringContaining('importing took longer') }])
    expect(found.catalog.snapshot().owners.has('zz')).toBe(true)
  })

  it('rejects a misspelled key', async () => {
    const found = await bench({
      'slip.mjs':
        "export default { name: 'slip', description: 'x', tools: { a: { description: 'A tool.', effect: 'read', inputs: {}, run() {} } } }",
    })
    expect((await found.loader.start()).failed).toMatchObject([
      { code: 'E_MODULE_SHAPE', error: expect.stringContaining('slip.a has "inputs"; did you mean "input"?') },
    ])
  })

  it.each([
    ['need: {}', 'tight.a has "need"; did you mean "needs"?'],
    [
      'needs: { flag: ["x"] }',
      'tight.a needs has "flag"; it takes providers, notProviders, capabilities, flags, permissions.',
    ],
    ['needs: { permissions: "admin" }', 'tight.a needs.permissions is not a list of words.'],
    ['needs: ["admin"]', 'tight.a needs is not an object.'],
    ['intent: 3', 'the intent of tight.a is not a word.'],
    ['provides: ["x"]', 'the provides of tight.a is not a word.'],
  ])("rejects %s: a tool's need must not be ignored silently", async (slip, error) => {
    const tool = `{ description: 'A tool.', effect: 'read', ${slip}, run() {} }`
    const found = await bench({
      'tight.mjs': `export default { name: 'tight', description: 'x', tools: { a: ${tool} } }`,
      'loose.mjs': `export default [{ name: 'b', ${tool.slice(1)}]`,
    })
    const { failed } = await found.loader.start()
    expect(failed.map((one) => [one.code, one.error])).toContainEqual(['E_MODULE_SHAPE', `tight.mjs: ${error}`])
    expect(failed.map(({ file }) => file).includes('loose.mjs')).toBe(!slip.startsWith('need:'))
  })

  it('accepts needs in single-tool files too', async () => {
    const found = await bench({
      'loose.mjs':
        "export const name = 'b'\nexport const description = 'Does one thing.'\nexport const needs = { flags: ['x'] }\nexport const intent = 'image'\nexport const provides = 'web_search'\nexport const run = () => 1\n",
    })
    await found.loader.start()
    expect(found.tool('loose.b')).toMatchObject({ needs: { flags: ['x'] }, intent: 'image', provides: 'web_search' })
  })

  it('rejects TypeScript that cannot be stripped, with file and line', async () => {
    const found = await bench({
      'enums.ts': `const a: number = 1\nenum Kind { A }\n${moduleSource('enums', 'x')}`,
      'broken.ts': 'import "./_far.ts"\n',
      '_far.ts': 'export const x: = 3\n',
    })
    const report = await found.loader.start()
    const errors = Object.fromEntries(report.failed.map(({ file, error }) => [file, error]))
    expect(errors['enums.ts']).toBe('enums.ts:2: TypeScript enum is not supported in strip-only mode')
    expect(errors['broken.ts']).toMatch(/^_far\.ts:1: Unexpected token/)
  })

  it('reports the line of an import that cannot be resolved', async () => {
    const found = await bench({ 'lost.mjs': '// first\nimport x from "nonesuch"\nexport default x\n' })
    const report = await found.loader.start()
    expect(report.failed[0]?.error).toMatch(/^lost\.mjs:2: Cannot find package 'nonesuch'/)
  })

  it('loads only declared modules when autoload is off', async () => {
    const files = { 'one.mjs': moduleSource('one', '1'), 'two.mjs': moduleSource('two', '2') }
    const declared = await bench(files, { autoload: false, settings: { two: {} } })
    expect((await declared.loader.start()).loaded).toEqual(['two'])
    const without = await bench(files, { settings: { two: { enabled: false } } })
    expect((await without.loader.start()).loaded).toEqual(['one'])
  })

  it('reports a configured module that does not exist', async () => {
    const found = await bench({ 'weather.mjs': moduleSource('weather', '1') }, { settings: { wether: {} } })
    await found.loader.start()
    expect(found.warnings).toMatchObject([
      { message: 'modules.wether is configured, but there is no such module', nearest: 'weather' },
    ])
  })
})

describe('the loader with conflicting names', () => {
  it('rejects the second module of one name, and keeps a renamed tool callable by its old name [TOM-07]', async () => {
    const first = moduleSource('same', 'first').replace('tools:', "renamed: { speak: 'say' }, tools:")
    const bundled = await tempDir({ 'one.mjs': first, 'two.mjs': moduleSource('same', 'second') })
    const found = await bench({}, { bundledDirs: [bundled] })
    const report = await found.loader.start()
    const error = 'bundled/two.mjs: the module "same" is already defined in bundled/one.mjs.'
    expect(report.failed).toEqual([{ file: 'bundled/two.mjs', code: 'E_NAME_TAKEN', error }])
    expect(found.warnings).toMatchObject([{ message: `a module was not loaded: ${error}` }])
    const view = createViews({ catalog: found.catalog, rulesOf: sameRules(createPolicy()), log: silentLog }).viewFor(
      localCaller,
    )
    const spoken = view.resolve('same.speak')
    expect(spoken.kind === 'found' && (await found.run(spoken.tool.tool.id))).toBe('first')
  })

  it('keeps every old name of a tool that is renamed repeatedly while served', async () => {
    const module = (action: string, renamed: object): string =>
      moduleSource('same', action).replace('tools: { say:', `renamed: ${JSON.stringify(renamed)}, tools: { ${action}:`)
    const found = await bench({ 'same.mjs': module('say', {}) })
    await found.loader.start()
    const views = createViews({ catalog: found.catalog, rulesOf: sameRules(createPolicy()), log: silentLog })
    const run = async (name: string) => {
      const spoken = views.viewFor(localCaller).resolve(name)
      return spoken.kind === 'found' ? await found.run(spoken.tool.tool.id) : spoken.kind
    }
    expect(await run('same.say')).toBe('say')
    await put(found.dir, { 'same.mjs': module('tell', { say: 'tell' }) })
    await found.loader.reload()
    expect([await run('same.say'), await run('same__say'), await run('same.tell')]).toEqual(['tell', 'tell', 'tell'])
    await put(found.dir, { 'same.mjs': module('speak', { say: 'tell', tell: 'speak', one: 'two', two: 'one' }) })
    await found.loader.reload()
    expect([await run('same.say'), await run('say'), await run('same.tell')]).toEqual(['speak', 'speak', 'speak'])
    expect([await run('same.one'), views.viewFor(localCaller).tools.length]).toEqual(['unknown', 1])
  })

  it('lets a drop-in replace a bundled module only with override', async () => {
    const bundled = await tempDir({ 'hello.mjs': moduleSource('hello', 'bundled') })
    const refused = await bench({ 'mine.mjs': moduleSource('hello', 'mine') }, { bundledDirs: [bundled] })
    expect((await refused.loader.start()).failed).toMatchObject([{ file: 'mine.mjs', code: 'E_NAME_TAKEN' }])
    expect(await refused.run('hello.say')).toBe('bundled')

    const file = moduleSource('hello', 'mine').replace("name: 'hello'", "name: 'hello', override: true")
    const taken = await bench({ 'mine.mjs': file }, { bundledDirs: [bundled] })
    await taken.loader.start()
    expect(await taken.run('hello.say')).toBe('mine')
    await rm(join(taken.dir, 'mine.mjs'))
    expect((await taken.loader.reload()).changed).toEqual(['hello'])
    expect(await taken.run('hello.say')).toBe('bundled')
  })

  it('rejects illegal and reserved names', async () => {
    const found = await bench(
      {
        'a.mjs': moduleSource('Bad Name', ''),
        'b.mjs': moduleSource('mcp_github', ''),
        'c.mjs': moduleSource('fine', '').replace('say:', '"no spaces please":'),
        'd.mjs': moduleSource('search', ''),
        'e.mjs': moduleSource('api_weather', ''),
        'mcp_tools.mjs':
          "export default { name: 'say', description: 'Says hello.', parameters: {}, run: () => 'hello' }",
      },
      { catalog: createCatalog(new Set(['search__say'])) },
    )
    const report = await found.loader.start()
    expect(report.loaded).toEqual([])
    expect(report.failed.map(({ code }) => code)).toEqual([
      'E_NAME_INVALID',
      'E_NAME_INVALID',
      'E_NAME_INVALID',
      'E_NAME_INVALID',
      'E_NAME_INVALID',
      'E_NAME_TAKEN',
    ])
  })
})

describe('the loader with a configuration', () => {
  const configured = `import { defineModule, z } from 'pegboard'
export default defineModule({
  name: 'clock', description: 'Tells the time.',
  config: z.object({ timeout_seconds: z.number().default(5), root: z.string().default('{{workspace}}/x') }),
  tools: { read: { description: 'Reads its own configuration.', effect: 'read', run: (input, { config }) => config } },
})\n`

  it('fills in defaults and templates, and warns about unknown keys', async () => {
    const found = await bench({ 'clock.mjs': configured }, { settings: { clock: { config: { timeout_second: 3 } } } })
    await found.loader.start()
    expect(await found.run('clock.read')).toEqual({ timeout_seconds: 5, root: `${found.dir}/x` })
    expect(found.warnings).toMatchObject([{ key: 'modules.clock.config.timeout_second', nearest: 'timeout_seconds' }])
  })

  it('reports options that a schema does not declare, as far as they can be a mistake', async () => {
    const kit = (name: string, config: string): string =>
      `import { z } from 'pegboard'\n${moduleSource(name, '').replace('tools:', `config: ${config}, tools:`)}`
    const given = { config: { limti: 1, other: 2, quarry: 3 } }
    const key = "limit: { type: 'number' }, query: { type: 'number' }"
    const json = (more: string): string => `{ type: 'object', properties: { ${key} }, ${more} }`
    const found = await bench(
      {
        'closed.mjs': kit('closed', 'z.object({ limit: z.number().optional() })'),
        'free.mjs': moduleSource('free', ''),
        'joined.mjs': kit('joined', json('allOf: [{ properties: { other: {} } }]')),
        'open.mjs': kit('open', 'z.looseObject({ limit: z.number().optional(), query: z.number().optional() })'),
        'pattern.mjs': kit('pattern', json("patternProperties: { '^o': {} }, additionalProperties: true")),
        'raw.mjs': kit('raw', json('required: []')),
        'set.mjs': kit('set', 'z.looseObject({ limit: z.number() })'),
        'short.mjs': kit('short', 'z.looseObject({ key: z.number().optional() })'),
      },
      {
        settings: {
          closed: given,
          free: given,
          joined: given,
          open: given,
          pattern: given,
          raw: given,
          set: { config: { limit: 1, limti: 1 } },
          short: { config: { kye: 1 } },
        },
      },
    )
    await found.loader.start()
    const expected = [
      'modules.closed.config.limti: an unknown configuration key is ignored; did you mean "limit"?',
      'modules.closed.config.other: an unknown configuration key is ignored',
      'modules.closed.config.quarry: an unknown configuration key is ignored',
      'modules.open.config.limti: open does not declare this option; did you mean "limit"?',
      'modules.raw.config.limti: raw does not declare this option; did you mean "limit"?',
      'modules.raw.config.other: raw does not declare this option',
      'modules.raw.config.quarry: raw does not declare this option; did you mean "query"?',
    ]
    expect(found.warnings.map(({ message }) => message)).toEqual(expected)
    expect(found.loader.status().warnings).toEqual(expected)
  })

  it('reports an unknown option of a profile once, also for another object of the profile', async () => {
    const source = moduleSource('kit', '')
      .replace('tools:', 'config: z.object({ limit: z.number().optional() }), tools:')
      .replace("() => ''", '(input, ctx) => typeof ctx.config')
    const found = await bench({ 'kit.mjs': `import { z } from 'pegboard'\n${source}` })
    await found.loader.start()
    for (const id of ['one', 'one', 'two'])
      await found.run('kit.say', {}, { profile: { ...defaultProfile, id, config: { kit: { limt: 1 } } } })
    const expected = ['one', 'two'].map(
      (id) => `profiles.${id}.modules.kit.config.limt: an unknown configuration key is ignored; did you mean "limit"?`,
    )
    expect(found.warnings.map(({ message }) => message)).toEqual(expected)
    expect(found.loader.status().warnings).toEqual(expected)
  })

  it('skips only the module with an invalid configuration, naming the key', async () => {
    const found = await bench(
      { 'clock.mjs': configured, 'one.mjs': moduleSource('one', '1') },
      { settings: { clock: { config: { timeout_seconds: 'x' } } } },
    )
    const report = await found.loader.start()
    expect(report.loaded).toEqual(['one'])
    expect(report.failed).toMatchObject([
      {
        file: 'clock.mjs',
        code: 'E_MODULE_CONFIG',
        error: expect.stringContaining('modules.clock.config.timeout_seconds: '),
      },
    ])
    const mended = await found.loader.configure({ clock: { config: { timeout_seconds: 9 } } })
    expect(mended).toMatchObject({ added: ['clock'], failed: [] })
    expect(await found.run('clock.read')).toMatchObject({ timeout_seconds: 9 })
  })

  it('stops a module once, after its last start, so that a new configuration is not stopped with the old one', async () => {
    const { loader, run } = await bench({
      'line.mjs': `const open = new Set()
let ends = 0
export default {
  name: 'line', description: 'A line of a test.',
  start({ config, signal }) {
    open.add(config.number)
    signal.addEventListener('abort', () => open.delete(config.number), { once: true })
  },
  stop() { ends++; globalThis.lineEnds = ends },
  tools: { state: { description: 'Says what is open.', effect: 'read', run: () => ({ open: [...open], ends }) } },
}`,
    })
    await loader.start()
    await loader.configure({ line: { config: { number: 1 } } })
    await loader.configure({ line: { config: { number: 2 } } })
    await expect.poll(() => run('line.state')).toEqual({ open: [2], ends: 0 })
    await loader.stop()
    expect((globalThis as { lineEnds?: number }).lineEnds).toBe(1)
  })

  const database = `import { writeFileSync } from 'node:fs'
export default {
  name: 'database', description: 'A database of a test.',
  tools: {
    connect: { description: 'Opens a database file.', effect: 'write', internal: true, input: { type: 'object', properties: { database: { type: 'string' } } },
      run: ({ database }) => { writeFileSync(database, ''); return null } },
    fail: { description: 'Always fails, as a step.', effect: 'write', run: () => ({ error: 'no disk' }) },
  },
}\n`

  it('runs set-up steps with filled templates, also of internal tools [DIG-24]', async () => {
    const setup = [{ action: 'connect', params: { database: '{{workspace}}/data.db' } }]
    const found = await bench({ 'database.mjs': database }, { settings: { database: { setup } } })
    await found.loader.start()
    expect(existsSync(join(found.dir, 'data.db'))).toBe(true)
    expect(found.tool('database.connect').internal).toBe(true)
    expect(found.loader.status().loaded).toEqual([{ id: 'database', file: 'database.mjs', state: 'ready' }])
  })

  it('keeps a module whose set-up step failed, marked as degraded [DIG-24]', async () => {
    const setup = [{ action: 'fail' }, { action: 'connect', params: { database: '{{env.NOT_SET}}' } }]
    const found = await bench({ 'database.mjs': database }, { settings: { database: { setup } } })
    await found.loader.start()
    const owner = found.catalog.snapshot().owners.get('database')
    expect(owner).toMatchObject({ state: 'degraded', reason: 'the set-up step database.fail failed: no disk' })
    expect(found.warnings.map(({ error }) => error)).toEqual(['no disk', 'the environment variable NOT_SET is not set'])
    expect(ids(found)).toEqual(['database.connect', 'database.fail'])
  })
})

describe('starting and stopping', () => {
  it('passes the configuration to start, reports a start that fails or hangs, and calls stop at the end', async () => {
    const events: string[] = []
    ;(globalThis as Record<string, unknown>)['__events'] = events
    const file = (name: string, start: string) =>
      moduleSource(name, name).replace(
        'tools:',
        `start({ config }) { ${start} }, stop() { globalThis.__events.push('stop ${name}') }, tools:`,
      )
    const found = await bench(
      {
        'a.mjs': file('a', "globalThis.__events.push('start a ' + config.x)"),
        'b.mjs': file('b', "throw new Error('no port')"),
        'c.mjs': file('c', 'return new Promise(() => {})'),
      },
      { startTimeoutMs: 200, settings: { a: { config: { x: 1 } } } },
    )
    const report = await found.loader.start()
    expect(report.loaded).toEqual(['a'])
    expect(report.failed.map(({ error }) => error)).toEqual([
      'b.mjs: b did not start: no port.',
      'c.mjs: c did not start: it took longer than 200 ms.',
    ])
    await found.loader.stop()
    expect(events).toEqual(['start a 1', 'stop a'])
  })
})

describe('reloading', () => {
  it('applies a new version at once, and keeps the old one if the new one fails', async () => {
    const found = await bench({ 'one.mjs': moduleSource('one', 'v1') })
    await found.loader.start()
    await put(found.dir, { 'one.mjs': moduleSource('one', 'v2') })
    expect(await found.loader.reload('one')).toMatchObject({ changed: ['one'], failed: [] })
    expect(await found.run('one.say')).toBe('v2')
    await put(found.dir, { 'one.mjs': 'export default {' })
    expect(await found.loader.reload('one')).toMatchObject({
      changed: [],
      loaded: ['one'],
      failed: [{ file: 'one.mjs' }],
    })
    expect(await found.run('one.say')).toBe('v2')
    await put(found.dir, {
      'one.mjs': moduleSource('one', 'v3').replace('tools:', "start() { throw new Error('late') }, tools:"),
    })
    expect((await found.loader.reload('one')).failed).toMatchObject([{ error: 'one.mjs: one did not start: late.' }])
    expect(await found.run('one.say')).toBe('v2')
    await put(found.dir, { 'one.mjs': moduleSource('one', 'v4') })
    expect((await found.loader.reload('one')).failed).toEqual([])
    expect(await found.run('one.say')).toBe('v4')
  })

  it('imports relative helpers and CommonJS files anew', async () => {
    const files = (word: string) => ({
      'one.mjs': `import { word } from './lib/word.mjs'\n${moduleSource('one', '').replace("=> ''", '=> word')}`,
      'lib/word.mjs': `export const word = '${word}'\n`,
      'two.cjs': `const { word } = require('./lib/word.cjs')\nmodule.exports = ${moduleSource('two', '').replace('export default', '').replace("=> ''", '=> word')}`,
      'lib/word.cjs': `exports.word = '${word}'\n`,
    })
    const found = await bench(files('old'))
    expect((await found.loader.start()).failed).toEqual([])
    await put(found.dir, files('new'))
    await found.loader.reload()
    expect([await found.run('one.say'), await found.run('two.say')]).toEqual(['new', 'new'])
  })

  it('passes the context to a reloaded tool that now asks for it [CTX-02]', async () => {
    const file = (run: string) => moduleSource('one', '').replace("run: () => ''", run)
    const found = await bench({ 'one.mjs': file('run(input) { return arguments.length }') })
    await found.loader.start()
    expect(await found.run('one.say')).toBe(1)
    await put(found.dir, { 'one.mjs': file('run(input, ctx) { return ctx.callId }') })
    await found.loader.reload()
    expect(await found.run('one.say')).toBe('test')
  })

  it('lets running calls finish before the old version is stopped', async () => {
    const events: string[] = []
    ;(globalThis as Record<string, unknown>)['__drain'] = events
    let release = (): void => undefined
    ;(globalThis as Record<string, unknown>)['__gate'] = new Promise<void>((resolve) => {
      release = resolve
    })
    const slow = moduleSource('one', '')
      .replace("run: () => ''", 'async run() { await globalThis.__gate; return "old" }')
      .replace('tools:', "stop() { globalThis.__drain.push('stopped') }, tools:")
    const found = await bench({ 'one.mjs': slow })
    await found.loader.start()
    const call = found.run('one.say')
    await put(found.dir, { 'one.mjs': moduleSource('one', 'new') })
    await found.loader.reload()
    expect(await found.run('one.say')).toBe('new')
    expect(events).toEqual([])
    release()
    expect(await call).toBe('old')
    await found.loader.stop()
    expect(events).toEqual(['stopped'])
  })
})
