import { describe, expect, it } from 'vitest'
import { type CallContext, noOrigin, type SentFile } from '../../src/core/caller.ts'
import { ToolContext } from '../../src/loader/tool-context.ts'
import { bench, moduleSource, put } from './setup.ts'

const single = `export const name = 'shout'
export const description = 'Says a text in capitals.'
export const parameters = { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] }
export function run({ text }) { return text.toUpperCase() }
`
const many = `export const tools = [
  { name: 'lower', description: 'Says a text in small letters.', parameters: { properties: { text: { type: 'string' } } }, effect: 'read', run: ({ text }) => text.toLowerCase() },
  { name: 'who', description: 'Says who is asking, with context.', run: (input, ctx) => { ctx.sent_files.push({ data: 'x', filename: 'a.txt', mimetype: 'text/plain' }); return ctx.user_name + '@' + ctx.platform } },
]\n`
const script = (name: string, answer: string, register = 'registerTool') =>
  `${register}({ name: '${name}', execute: function (args, env) { return ${answer} }, def: { type: 'function', function: { name: '${name}', description: 'A tool of a script.', parameters: { type: 'object', properties: { n: { type: 'integer' } } } } } })\n`

/** A module with one reading tool, one writing tool, and these resources. */
const withResources = (resources: string): string => `export default {
  name: 'shelf', description: 'A module of a test.', resources: ${resources},
  tools: {
    all: { description: 'Says one fixed word.', effect: 'read', run: () => 'all' },
    put: { description: 'Puts something there.', effect: 'write', run: () => 'put' },
  } }\n`

describe('resources of a module', () => {
  const book = "{ name: 'all', description: 'All there is.', tool: 'all', input: { n: 1 } }"
  it('are the results of its tools', async () => {
    const found = await bench({ 'shelf.mjs': withResources(`{ 'shelf://all': ${book} }`) })
    expect((await found.loader.start()).failed).toEqual([])
    expect(found.catalog.snapshot().owners.get('shelf')?.toolResources).toEqual([
      {
        uri: 'shelf://all',
        entry: { uri: 'shelf://all', name: 'all', description: 'All there is.', mimeType: 'application/json' },
        tool: 'shelf.all',
        input: { n: 1 },
        mimeType: 'application/json',
      },
    ])
  })

  it.each([
    ['[]', 'the resources of shelf are not an object'],
    [`{ 'all': ${book} }`, 'needs a URI with a scheme of its own, such as shelf://all'],
    [`{ 'file:///etc/passwd': ${book} }`, 'needs a URI with a scheme of its own'],
    [`{ 'server://status': ${book} }`, 'needs a URI with a scheme of its own'],
    [`{ 'shelf://{id}': ${book} }`, 'needs a URI with a scheme of its own'],
    [`{ 'shelf://all': 1 }`, 'is not an object'],
    [`{ 'shelf://all': { name: 'all', tool: 'all' } }`, 'has no description'],
    [`{ 'shelf://all': { ...${book}, inputs: {} } }`, 'did you mean "input"?'],
    [`{ 'shelf://all': { ...${book}, tool: 'put' } }`, 'with effect: "read"'],
    [`{ 'shelf://all': { ...${book}, tool: 'none' } }`, 'with effect: "read"'],
    [`{ 'shelf://all': { ...${book}, tool: 'toString' } }`, 'with effect: "read"'],
  ])('are rejected if they are %s', async (resources, error) => {
    const { failed } = await (await bench({ 'shelf.mjs': withResources(resources) })).loader.start()
    expect(failed).toMatchObject([{ file: 'shelf.mjs', code: 'E_MODULE_SHAPE', error: expect.stringContaining(error) }])
  })
})

describe('the loader of drop-in files', () => {
  it('loads a module, a single tool, a list of tools and scripts that register [CTX-33]', async () => {
    const before = 'registerTool' in globalThis
    const found = await bench({
      'plain.mjs': moduleSource('plain', 'module'),
      'loud.mjs': single,
      'Pair.Of.mjs': many,
      'script.js': script('count', 'args.n + 1'),
      'older.js': script('older', "'old'", 'llm_tool_register'),
    })
    expect((await found.loader.start()).failed).toEqual([])
    expect(found.catalog.snapshot().tools.map(({ id }) => id)).toEqual([
      'loud.shout',
      'older.older',
      'pair_of.lower',
      'pair_of.who',
      'plain.say',
      'script.count',
    ])
    expect(await found.run('loud.shout', { text: 'hi' })).toBe('HI')
    expect(await found.run('pair_of.lower', { text: 'HI' })).toBe('hi')
    expect(await found.run('script.count', { n: 1 })).toBe(2)
    expect(await found.run('older.older')).toBe('old')
    expect('registerTool' in globalThis).toBe(before)
  })

  it('treats single tools as writing and open-world unless they declare otherwise', async () => {
    const found = await bench({ 'loud.mjs': single, 'pair.mjs': many })
    await found.loader.start()
    expect(found.tool('loud.shout')).toMatchObject({ effect: 'write', openWorld: true })
    expect(found.tool('pair.lower')).toMatchObject({ effect: 'read', openWorld: false })
  })

  it('lets the later definition of a single tool win, in the same position', async () => {
    const found = await bench({
      'a.mjs': script('t', "'from a'") + script('u', "'u'"),
      'z.mjs': script('t', "'from z'"),
    })
    await found.loader.start()
    expect(found.catalog.snapshot().tools.map(({ id, aliases }) => [id, aliases])).toEqual([
      ['a.t', ['z.t']],
      ['a.u', []],
    ])
    expect(await found.run('a.t')).toBe('from z')
    expect(found.warnings).toMatchObject([
      {
        message:
          'The tool "t" of z.mjs replaces the one of a.mjs: clients see it as a.t, and can also call it z.t. To keep both tools, rename one. Otherwise, delete one.',
      },
    ])
  })

  it('says which of several definitions of a single tool counts', async () => {
    const found = await bench({
      'a.mjs': script('t', "'from a'"),
      'b.mjs': script('t', "'from b'"),
      'c.mjs': script('t', "'from c'") + script('u', "'u1'") + script('u', "'u2'"),
    })
    await found.loader.start()
    expect([await found.run('a.t'), await found.run('c.u')]).toEqual(['from c', 'u2'])
    expect(found.loader.status().warnings).toEqual([
      'The tool "t" of c.mjs replaces the one of a.mjs and the one of b.mjs: clients see it as a.t, and can also call it b.t or c.t. To keep both tools, rename one. Otherwise, delete one.',
      'The tool "u" of c.mjs replaces the one of c.mjs: clients see it as c.u. To keep both tools, rename one. Otherwise, delete one.',
    ])
  })

  it('gives scripts information about the caller', async () => {
    const found = await bench({ 'env.js': script('env', '[env.speaker.alias, env.channel]') })
    await found.loader.start()
    const origin = { ...noOrigin, userName: 'Ada', channelId: 'c1' }
    expect(await found.run('env.env', {}, { origin })).toEqual(['Ada', 'c1'])
  })

  it('shares declarations of a plain _ script with all scripts, by name and as env.shared [SBS-04]', async () => {
    const own = globalThis.fetch
    const found = await bench({
      '_common.js':
        'const WORD = "shout"\nfunction helperOfTheTest(text) {\n  return `${WORD} ${text.toUpperCase()}`\n}\nfunction fetch() {}\n',
      'use.js': script('use', '[helperOfTheTest("a"), env.shared.common.helperOfTheTest("b")]'),
    })
    const report = await found.loader.start()
    expect(report.failed).toEqual([])
    const ctx = { shared: found.loader.shared }
    expect(await found.run('use.use', {}, ctx)).toEqual(['shout A', 'shout B'])
    expect(fetch).toBe(own)
    await put(found.dir, { '_common.js': 'function helperOfTheTest(text) { return text }\n' })
    await found.loader.reload()
    expect(await found.run('use.use', {}, ctx)).toEqual(['a', 'b'])
  })

  it('treats scripts as read-only unless they declare otherwise [SBS-04, SBS-11]', async () => {
    const found = await bench({ 'plain.js': script('plain', '1') })
    await found.loader.start()
    expect(found.catalog.snapshot().byId.get('plain.plain')).toMatchObject({ effect: 'read' })
  })

  it('turns { error } and errors thrown by a script into failures with that message', async () => {
    const found = await bench({
      'graceful.js': script('graceful', "({ error: 'no such board', near: ['x'] })"),
      'throws.js': script('throws', "(() => { throw new Error('broken pipe') })()"),
    })
    await found.loader.start()
    await expect(found.run('graceful.graceful')).rejects.toMatchObject({
      code: 'E_TOOL_FAILED',
      message: 'no such board',
      data: { near: ['x'] },
    })
    await expect(found.run('throws.throws')).rejects.toMatchObject({
      code: 'E_TOOL_FAILED',
      message: 'tool exec: broken pipe',
    })
  })

  it('gives single tools the flat context on request, and passes on what they send', async () => {
    const found = await bench({ 'pair.mjs': many })
    await found.loader.start()
    const sent: SentFile[] = []
    const ctx: Partial<CallContext> = {
      origin: { ...noOrigin, platform: 'mcp', userName: 'Ada' },
      sendFile: (file) => sent.push(file),
    }
    expect(await found.run('pair.who', {}, ctx)).toBe('Ada@mcp')
    expect(sent).toEqual([{ data: 'x', filename: 'a.txt', mimetype: 'text/plain' }])
  })

  it('creates a flat context without arguments or shared objects [CTX-03]', () => {
    const [a, b] = [new ToolContext(), new ToolContext()]
    expect(a).toEqual(b)
    expect(Object.keys(a)).toHaveLength(20)
    expect(a.sent_files).not.toBe(b.sent_files)
    expect(a.adapters_by_name).not.toBe(b.adapters_by_name)
    expect(a.all_adapters).not.toBe(b.all_adapters)
    expect([a.platform, a.redis, a.injected_tools]).toEqual(['', null, null])
  })

  it('says what a file without a tool should export', async () => {
    const found = await bench({
      'empty.mjs': 'export const x = 1\n',
      'half.mjs': moduleSource('half', '').replace("effect: 'read', ", ''),
    })
    const report = await found.loader.start()
    expect(report.failed).toMatchObject([
      { file: 'empty.mjs', code: 'E_MODULE_SHAPE', error: expect.stringContaining('exports neither a module') },
      { file: 'half.mjs', code: 'E_MODULE_SHAPE', error: expect.stringContaining('half.say needs effect') },
    ])
  })
})
