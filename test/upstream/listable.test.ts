import { PassThrough } from 'node:stream'
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js'
import { expect, it } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { serveOnStdio } from '../../src/server/stdio.ts'
import { connectTo, StreamTransport } from '../client.ts'
import { add, serve } from '../offered.ts'

const object = (more: object) => ({ type: 'object', ...more })

/** Left out as a whole: nobody could call them. */
const REFUSED = [
  { inputSchema: { type: 'string' } },
  { inputSchema: { type: ['object', 'null'] } },
  { inputSchema: object({ properties: [] }) },
  { inputSchema: object({ properties: { a: 5 } }) },
  { inputSchema: object({ properties: { a: null } }) },
  { inputSchema: object({ required: 'a' }) },
  { inputSchema: object({ $schema: 5 }) },
]

/** Listed without what clients cannot read. */
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

it('one tool that clients cannot read costs nobody the list, whichever client it is', async () => {
  const named = (lies: readonly object[], name: string) =>
    lies.map((lie, n) => ({ ...add, name: `${name}_${n}`, ...lie }))
  const tools = [add, ...named(REFUSED, 'refused'), ...named(MENDED, 'mended')]
  const served = await serve({ a: { tools } }, { a: { trust: 'always' } })
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

/** Of a prompt, a resource or a template of one; listed without it. */
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
/** Of a prompt, which nobody could be asked for then. */
const REFUSED_ARGUMENTS = [
  'x',
  [null],
  [{ name: 7 }],
  [{ name: 'a', required: 'yes' }],
  [{ name: 'a', description: 1 }],
]

it('one prompt, resource or template that clients cannot read costs nobody the list, whichever client it is', async () => {
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
