import { PassThrough } from 'node:stream'
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { expect, it } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { serveOnStdio } from '../../src/server/serve-stdio.ts'
import { connectTo, StreamTransport } from '../client.ts'
import { add, serve } from '../listed-server.ts'

const object = (more: object) => ({ type: 'object', ...more })

/** Dropped entirely, because no client could call them. */
const REFUSED = [
  { inputSchema: { type: 'string' } },
  { inputSchema: { type: ['object', 'null'] } },
  { inputSchema: object({ properties: [] }) },
  { inputSchema: object({ properties: { a: 5 } }) },
  { inputSchema: object({ properties: { a: null } }) },
  { inputSchema: object({ required: 'a' }) },
  { inputSchema: object({ $schema: 5 }) },
]

/** Listed without the parts that clients cannot read. */
const MENDED = [
  { title: 7 },
  { description: { a: 1 } },
  { annotations: [] },
  { annotations: { readOnlyHint: 'yes' } },
  { icons: 'x' },
  { icons: [{ src: 5 }] },
  { _meta: [] },
  { execution: 'x' },
  { outputSchema: [] },
  { outputSchema: { type: 'array' } },
  { outputSchema: object({ required: 'a' }) },
  { outputSchema: object({ properties: { a: { $ref: '#/nowhere' } } }) },
  { outputSchema: object({ properties: { a: { pattern: '([' } } }) },
  { outputSchema: object({ properties: { a: { type: 'objekt' } } }) },
  { outputSchema: object({ items: 5 }) },
  { outputSchema: object({ $id: 'https://example.com/same', properties: { a: {} } }) },
  { outputSchema: object({ $id: 'https://example.com/same', properties: { b: {} } }) },
  { outputSchema: object({ properties: { a: { $id: 'https://example.com/same' } } }) },
]

it('one tool that clients cannot read never costs them the list', async () => {
  const named = (lies: readonly object[], name: string) =>
    lies.map((lie, n) => ({ ...add, name: `${name}_${n}`, ...lie }))
  const tools = [add, ...named(REFUSED, 'refused'), ...named(MENDED, 'mended')]
  const served = await serve({ a: { tools } }, { a: { trust: 'always', maxResultTokens: 0 } })
  const expected = ['a__add', ...MENDED.map((_, n) => `a__mended_${n}`)]
  const own = (names: readonly string[]) => names.filter((name) => name.startsWith('a__'))
  for (const era of ['legacy', 'modern'] as const) {
    const client = await connectTo(served.app, era)
    const listed = (await client.listTools()).tools
    expect(own(listed.map(({ name }) => name))).toEqual(expected)
    const outputs = listed.filter(({ name, outputSchema }) => name.startsWith('a__') && outputSchema)
    expect(outputs.map(({ name, outputSchema }) => [name, outputSchema])).toEqual([
      ['a__mended_15', object({ properties: { a: {} } })],
      ['a__mended_16', object({ properties: { b: {} } })],
    ])
    expect((await client.callTool({ name: 'a__mended_9', arguments: {} })).content).toEqual([
      { type: 'text', text: 'mended_9 ran' },
    ])
    await client.close()
  }
  const [up, down] = [new PassThrough(), new PassThrough()]
  serveOnStdio({ host: served.app.server, clock: systemClock, input: up, output: down })
  const old = new OldClient({ name: 'old', version: '1.0.0' })
  await old.connect(new StreamTransport(down, up) as never)
  expect(own((await old.listTools()).tools.map(({ name }) => name))).toEqual(expected)
  await old.close()
  const skipped = served.logged
    .map((line) => String(JSON.parse(line).message))
    .filter((one) => one.startsWith('skipped'))
  expect(skipped).toHaveLength(REFUSED.length)
  expect(skipped[0]).toBe('skipped "refused_0": its inputSchema is of "string", not of an object')
})

/** Schemas with invalid JSON Schema, and their listed form. */
const CLEANED: ReadonlyArray<readonly [object, object]> = [
  [{}, { type: 'object' }],
  [{ $ref: '#/$defs/a', $defs: { a: object({ properties: { b: {} } }) } }, object({ properties: { b: {} } })],
  [object({ properties: { a: true, b: false } }), object({ properties: { a: {}, b: { not: {} } } })],
  [object({ properties: { a: { type: 'objekt', title: 'A' } } }), object({ properties: { a: { title: 'A' } } })],
  [object({ properties: { a: { enum: {} }, b: { enum: [] } } }), object({ properties: { a: {}, b: {} } })],
  [object({ properties: { a: { minimum: '1', multipleOf: 0 } } }), object({ properties: { a: {} } })],
  [
    object({ properties: { a: { type: 'number', minimum: 1, exclusiveMinimum: true } } }),
    object({ properties: { a: { type: 'number', minimum: 1 } } }),
  ],
  [object({ properties: { a: { minLength: -1, pattern: '(' } } }), object({ properties: { a: {} } })],
  [object({ properties: { a: { $ref: '#/nowhere' } } }), object({ properties: { a: {} } })],
  [object({ properties: { a: { description: 5, title: {}, format: 5 } } }), object({ properties: { a: {} } })],
  [object({ properties: { a: { nullable: true } } }), object({ properties: { a: {} } })],
  [object({ properties: { a: { items: [5], anyOf: [] } } }), object({ properties: { a: {} } })],
  [object({ properties: { a: object({ oneOf: 5, allOf: [{}, 5] }) } }), object({ properties: { a: object({}) } })],
  [object({ additionalProperties: 'no', $defs: 5, definitions: [], if: 5 }), object({})],
  [object({ $anchor: '!', $id: '#a', $vocabulary: 5, $comment: 5 }), object({})],
  [object({ required: ['a', 'a'], patternProperties: { '(': {} } }), object({ required: ['a'] })],
  // Parameter names are not keywords, and examples are data.
  [
    object({ properties: { type: { type: 'string', default: { enum: {} } }, enum: { const: { minimum: 'x' } } } }),
    object({ properties: { type: { type: 'string', default: { enum: {} } }, enum: { const: { minimum: 'x' } } } }),
  ],
]

it('one invalid JSON Schema never costs the list: its invalid parts are removed', async () => {
  const ajv = new Ajv2020({ strict: false })
  const tools = CLEANED.flatMap(([sent], n) => [
    { ...add, name: `in_${n}`, inputSchema: sent },
    { ...add, name: `out_${n}`, outputSchema: sent },
  ])
  for (const schema of ['portable', 'as-is']) {
    const served = await serve(
      { a: { tools: [add, ...tools] } },
      {},
      undefined,
      {},
      { exposure: { mode: 'direct', schema } },
    )
    const client = await connectTo(served.app)
    const [up, down] = [new PassThrough(), new PassThrough()]
    serveOnStdio({ host: served.app.server, clock: systemClock, input: up, output: down })
    const old = new OldClient({ name: 'old', version: '1.0.0' })
    await old.connect(new StreamTransport(down, up) as never)
    for (const { tools: listed } of [await client.listTools(), await old.listTools()]) {
      const own = new Map(listed.map((tool) => [tool.name, tool]))
      expect([...own.keys()].filter((name) => name.startsWith('a__'))).toHaveLength(1 + tools.length)
      for (const [n, [sent, shown]] of CLEANED.entries()) {
        const { inputSchema } = own.get(`a__in_${n}`) ?? expect.fail(`in_${n} is not listed`)
        if (schema === 'portable') expect(inputSchema, JSON.stringify(sent)).toEqual(shown)
        const { outputSchema = {} } = own.get(`a__out_${n}`) ?? expect.fail(`out_${n} is not listed`)
        for (const one of [inputSchema, outputSchema])
          expect(ajv.validateSchema(one as object), `${JSON.stringify(sent)} as ${JSON.stringify(one)}`).toBe(true)
      }
    }
    await client.close()
    await old.close()
  }
}, 60_000)

/** Parts of a prompt, a resource or a template that are dropped from the list. */
const MENDED_BESIDES = [
  { title: 7 },
  { description: { a: 1 } },
  { icons: 'x' },
  { icons: [{ src: 5 }] },
  { _meta: [] },
  { mimeType: 7 },
  { size: 'large' },
  { annotations: [] },
  { annotations: { audience: ['everyone'] } },
  { annotations: { priority: 5 } },
  { annotations: { lastModified: 'yesterday' } },
]
/** Prompts that nobody could request. */
const REFUSED_ARGUMENTS = [
  'x',
  [null],
  [{ name: 7 }],
  [{ name: 'a', required: 'yes' }],
  [{ name: 'a', description: 1 }],
]

it('one prompt, resource or template that clients cannot read never costs them the list', async () => {
  const named = (lies: readonly object[], entry: (name: string) => object) =>
    lies.map((lie, n) => ({ ...entry(`e${n}`), ...lie }))
  const sound = { audience: ['user'], priority: 0.5, lastModified: '2025-01-12T15:00:58Z' }
  const served = await serve({
    a: {
      tools: [add],
      resources: [
        { uri: 'a:nameless' },
        { uri: 'a:sound', name: 'sound', title: 'Sound', size: 7, annotations: sound, own: 1 },
        ...named(MENDED_BESIDES, (name) => ({ uri: `a:${name}`, name })),
      ],
      resourceTemplates: named(MENDED_BESIDES, (name) => ({ uriTemplate: `a:${name}/{id}`, name })),
      prompts: [
        ...named(MENDED_BESIDES, (name) => ({ name })),
        ...named(
          REFUSED_ARGUMENTS.map((wrong) => ({ arguments: wrong })),
          (name) => ({ name: `refused_${name}` }),
        ),
      ],
    },
  })
  const expected = (entry: (name: string) => string) => MENDED_BESIDES.map((_, n) => entry(`e${n}`))
  const check = async (client: Pick<OldClient, 'listResources' | 'listResourceTemplates' | 'listPrompts'>) => {
    const { resources } = await client.listResources()
    const own = resources.filter(({ uri }) => uri.startsWith('a:'))
    expect(own.map(({ uri }) => uri)).toEqual(['a:nameless', 'a:sound', ...expected((name) => `a:${name}`)])
    expect(own.slice(0, 3)).toEqual([
      { uri: 'a:nameless', name: 'a:nameless' },
      expect.objectContaining({ uri: 'a:sound', name: 'sound', title: 'Sound', size: 7, annotations: sound }),
      { uri: 'a:e0', name: 'e0' },
    ])
    const { resourceTemplates } = await client.listResourceTemplates()
    const templates = resourceTemplates.map(({ uriTemplate }) => uriTemplate).filter((one) => one.startsWith('a:'))
    expect(templates).toEqual(expected((name) => `a:${name}/{id}`))
    const prompts = (await client.listPrompts()).prompts
      .map(({ name }) => name)
      .filter((name) => name.startsWith('a__'))
    expect(prompts).toEqual(expected((name) => `a__${name}`))
  }
  for (const era of ['legacy', 'modern'] as const) {
    const client = await connectTo(served.app, era)
    await check(client as never)
    await client.close()
  }
  const [up, down] = [new PassThrough(), new PassThrough()]
  serveOnStdio({ host: served.app.server, clock: systemClock, input: up, output: down })
  const old = new OldClient({ name: 'old', version: '1.0.0' })
  await old.connect(new StreamTransport(down, up) as never)
  await check(old)
  await old.close()
})
