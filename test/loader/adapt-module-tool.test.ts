import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { type CallContext, localCaller } from '../../src/core/caller.ts'
import { silentLog } from '../../src/core/log.ts'
import type { ToolDef } from '../../src/core/module.ts'
import { defaultProfile } from '../../src/core/profile.ts'
import type { ParseResult } from '../../src/core/schema.ts'
import { noRelay, type Tool } from '../../src/core/tool.ts'
import { adaptTool } from '../../src/loader/adapt-module-tool.ts'
import { toolsOfModule } from '../../src/loader/module-shapes.ts'
import { testContext } from '../context.ts'

// biome-ignore lint/suspicious/noExplicitAny: inputs differ from test to test
function tool(def: Partial<ToolDef<any, any>>, config: unknown = {}): Tool {
  const full = {
    description: 'A tool made for a test.',
    effect: 'read' as const,
    run: (input: unknown) => input,
    ...def,
  }
  const [source] = toolsOfModule({ name: 'm', description: 'd', tools: { do_it: full } })
  return adaptTool(source!, { module: 'm', config, log: silentLog })
}
const sentence = (parsed: ParseResult): string =>
  parsed.ok ? 'ok' : parsed.issues.map(({ path, message }) => (path ? `${path}: ${message}` : message)).join('; ')
const value = async (subject: Tool, input: unknown = {}): Promise<unknown> => {
  const result = await subject.run(input, testContext(), noRelay)
  return result.kind === 'value' ? result.value : result
}

describe('a tool of a module', () => {
  it('fills in defaults', () => {
    const made = tool({ aliases: ['a'], sideEffects: ['none'] })
    expect(made).toMatchObject({
      id: 'm.do_it',
      name: 'm__do_it',
      module: 'm',
      title: 'Do it',
      effect: 'read',
      idempotent: true,
      openWorld: false,
      aliases: ['a'],
      sideEffects: ['none'],
      tags: [],
      examples: [],
    })
    expect(made.input.json).toEqual({ type: 'object', properties: {}, additionalProperties: false })
    expect(tool({ effect: 'write' }).idempotent).toBe(false)
  })

  it('describes a wrong argument, and a missing one as missing', () => {
    const input = z.object({ place: z.string(), days: z.int().min(1).max(10).default(3) })
    const said = (given: unknown): string => sentence(tool({ input }).input.parse(given))
    expect(said({})).toBe('place: is missing; it must be a string')
    expect(said({ place: 'Rome', days: 11 })).toBe('days: must be at most 10')
    expect(said({ place: 'Rome', days: 'two' })).toBe('days: must be a number, not a string')
  })

  it("passes on another tool's returned result, and nothing that only looks like one", async () => {
    const relayed = { kind: 'mcp', result: { content: [{ type: 'text', text: 'theirs' }], isError: true } } as const
    const given = {
      kind: 'value',
      value: { n: 1 },
      files: [{ data: 'x', filename: 'a.txt', mimetype: 'text/plain' }],
      warnings: ['careful'],
    } as const
    const context = (answer: unknown): CallContext => ({ ...testContext(), call: async () => answer as never })
    const through = tool({ run: async (_input: unknown, ctx: CallContext) => await ctx.call('x.y', {}) })
    expect(await through.run({}, context(relayed), noRelay)).toBe(relayed)
    // The files of the inner call are in the output of both already.
    expect(await through.run({}, context(given), noRelay)).toEqual({ ...given, files: [] })
    const forged = tool({ run: async (_input: unknown, _ctx: CallContext) => ({ ...relayed }) })
    expect(await forged.run({}, context(relayed), noRelay)).toEqual({
      kind: 'value',
      value: relayed,
      files: [],
      warnings: [],
    })
  })

  it('publishes closed schemas and suggests the nearest parameter for an unknown one', () => {
    const made = tool({ input: z.object({ path: z.string(), limit: z.int().default(5) }) })
    expect(made.input.json).toMatchObject({ additionalProperties: false, required: ['path'] })
    expect(sentence(made.parse({ path: 'x', limt: 3 }))).toBe('unknown parameter "limt"; did you mean "limit"?')
    expect(sentence(made.parse({ path: 'x', colour: 3 }))).toBe('unknown parameter "colour"; known: path, limit')
    expect(sentence(made.parse('x'))).toBe('must be an object')
    expect(made.parse({ file: 'x' })).toMatchObject({
      issues: [{ message: 'unknown parameter "file"; known: path, limit' }, { path: 'path', message: 'is missing' }],
    })
    expect(made.parse({ path: 'x' })).toEqual({ ok: true, value: { path: 'x', limit: 5 } })
  })

  it('removes undeclared keys for raw JSON schemas, and fills in their defaults [SBS-09]', () => {
    const made = tool({ input: { type: 'object', properties: { n: { type: 'integer', default: 3 } } } })
    expect(made.parse({})).toEqual({ ok: true, value: { n: 3 } })
    expect(sentence(made.parse({ n: 1, extra: true }))).toContain('unknown parameter "extra"')
    expect(made.parse({ n: 'x' }).ok).toBe(false)
  })

  it('keeps schemas open that the author opened', () => {
    const made = tool({ input: { type: 'object', properties: {}, additionalProperties: { type: 'string' } } })
    expect(made.input.json['additionalProperties']).toEqual({ type: 'string' })
    expect(made.parse({ anything: 'goes' })).toEqual({ ok: true, value: { anything: 'goes' } })
  })

  it('hides hidden parameters, and still accepts and validates them [DIG-28]', () => {
    for (const input of [
      z.object({ path: z.string(), encoding: z.enum(['utf8', 'latin1']).default('utf8') }),
      {
        type: 'object',
        properties: { path: { type: 'string' }, encoding: { enum: ['utf8', 'latin1'], default: 'utf8' } },
        required: ['path'],
      },
    ]) {
      const made = tool({ input, hidden: ['encoding'] })
      expect(Object.keys(made.input.json['properties'] as object)).toEqual(['path'])
      expect(made.parse({ path: 'x', encoding: 'latin1' })).toEqual({
        ok: true,
        value: { path: 'x', encoding: 'latin1' },
      })
      expect(made.parse({ path: 'x', encoding: 'klingon' }).ok).toBe(false)
    }
    expect(() => tool({ input: z.object({ secret: z.string() }), hidden: ['secret'] })).toThrow('must be optional')
  })

  it('rejects schemas that no client could use', () => {
    expect(() => tool({ input: z.union([z.object({}), z.object({ a: z.string() })]) })).toThrow(
      'must be an object at its root',
    )
    expect(() => tool({ input: z.object({ ctx: z.string() }) })).toThrow('a parameter called ctx')
    expect(() => tool({ input: { type: 'object', properties: { a: { type: 'strin' } } } })).toThrow(
      'properties.a.type is "strin"',
    )
  })

  it('rejects references to parts that the schema does not have, and accepts all others', () => {
    const node = { type: 'object', properties: { next: { $ref: '#/$defs/node' }, root: { $ref: '#' } } }
    const input = { type: 'object', properties: { a: { $ref: '#/$defs/node' }, b: { $ref: '#b' } } }
    const $defs = { node, b: { $anchor: 'b', type: 'string' } }
    expect(tool({ input: { ...input, $defs } }).parse({ a: { next: {} }, b: 'x' }).ok).toBe(true)
    expect(() => tool({ input: { ...input, $defs: {} } })).toThrow(
      /^the input of m\.do_it\.properties\.a\.\$ref leads nowhere: "#\/\$defs\/node"\.$/,
    )
    for (const $ref of ['#/$defs/none', '#/properties/a/type'])
      expect(() => tool({ output: { type: 'object', properties: { a: { type: 'string' }, b: { $ref } } } })).toThrow(
        `the output of m.do_it.properties.b.$ref leads nowhere: "${$ref}"`,
      )
    const metaSchema = 'https://json-schema.org/draft/2020-12/schema'
    for (const $ref of ['#', '#/$defs/a~1b%20~0c', '#/properties/a/allOf/0', '#anchor', 'other.json', metaSchema])
      tool({
        output: {
          type: 'object',
          properties: { a: { allOf: [true] }, b: { $ref } },
          $defs: { 'a/b ~c': { $anchor: 'anchor' } },
        },
      })
    const examples = { type: 'object', properties: { a: { default: { $ref: '#/none' } } } }
    expect(tool({ input: examples }).parse({ a: 1 }).ok).toBe(true)
  })

  it('accepts ids in definitions, as zod 4.2 writes them', () => {
    const $defs = {
      leaf: { id: 'leaf', type: 'string' },
      tree: { id: 'tree', type: 'object', properties: { leaf: { $ref: '#/$defs/leaf' } } },
    }
    const input = { type: 'object', properties: { id: { type: 'string' }, tree: { $ref: '#/$defs/tree' } }, $defs }
    expect(tool({ input }).input.json).toMatchObject({ $defs })
  })
})

describe('the context', () => {
  it('is passed only to functions that declare it, or ask for it [CTX-01]', async () => {
    expect(
      await value(
        tool({
          run: (...given: unknown[]) => given.length,
        }),
      ),
    ).toBe(1)
    expect(await value(tool({ run: (_input: unknown, ctx: CallContext) => ctx.config }, { key: 1 }))).toEqual({
      key: 1,
    })
    expect(
      await value(
        tool({
          context: true,
          run: (_input: unknown, ctx: CallContext = testContext({ callId: 'none' })) => ctx.callId,
        }),
      ),
    ).toBe('test')
  })

  it('cannot be sent by a client, nor seen in a schema [CTX-01]', () => {
    const made = tool({ input: z.object({ text: z.string() }), run: (_input: unknown, ctx: unknown) => ctx })
    expect(JSON.stringify(made.input.json)).not.toContain('ctx')
    expect(made.parse({ text: 'x', ctx: { user_id: 'root' }, env: {}, _ctx: {} })).toEqual({
      ok: true,
      value: { text: 'x' },
    })
    const declares = tool({ input: z.object({ env: z.string() }) })
    expect(declares.parse({ env: 'production' })).toEqual({ ok: true, value: { env: 'production' } })
  })

  it('is passed to a replaced function that newly declares it [CTX-02]', async () => {
    const def = {
      description: 'A tool made for a test.',
      effect: 'read' as const,
      run: (..._given: unknown[]): unknown => _given.length,
    }
    const [source] = toolsOfModule({ name: 'm', description: 'd', tools: { t: def } })
    const made = adaptTool(source!, { module: 'm', config: {}, log: silentLog })
    expect(await value(made)).toBe(1)
    def.run = ((_input: unknown, ctx: { callId: string }) => ctx.callId) as typeof def.run
    expect(await value(made)).toBe('test')
  })
})

describe('availability and assembly', () => {
  it('are bound to the configuration', () => {
    const short = z.object({ days: z.int().max(3) })
    const made = tool(
      {
        input: z.object({ days: z.int().max(10), hourly: z.boolean().optional() }),
        available: ({ config }: { config: { key?: string } }) => config.key !== undefined || 'set modules.m.config.key',
        assemble: (_view: unknown, draft: { description: string }) => ({ ...draft, input: short }),
      },
      {},
    )
    expect(made.available(localCaller, defaultProfile)).toBe('set modules.m.config.key')
    const draft = made.assemble(localCaller, () => undefined, defaultProfile)
    expect(draft?.input.json).toMatchObject({ properties: { days: { maximum: 3 } }, additionalProperties: false })
    expect(made.assemble(localCaller, () => undefined, defaultProfile)?.input).toBe(draft?.input)
    expect(draft && sentence(draft.input.parse({ days: 2, hourly: true }))).toContain('unknown parameter "hourly"')
  })

  it('turn a returned top-level error into a failure that keeps the rest', async () => {
    await expect(value(tool({ run: () => ({ error: 'nothing there', tried: 3 }) }))).rejects.toMatchObject({
      code: 'E_TOOL_FAILED',
      message: 'nothing there',
      data: { tried: 3 },
    })
    expect(await value(tool({ run: () => ({ error: null, ok: 1 }) }))).toEqual({ error: null, ok: 1 })
  })
})
