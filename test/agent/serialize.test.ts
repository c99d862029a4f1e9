import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { geminiSchema } from '../../src/agent/gemini.ts'
import { serializeTools, TOOL_FORMATS } from '../../src/agent/serialize.ts'
import { createToolset } from '../../src/agent.ts'
import { localCaller } from '../../src/core/caller.ts'
import { startApp } from '../app.ts'
import { connectTo } from '../client.ts'
import { makeTool } from '../tools.ts'

/** The bundled tools, and one whose name and schema every provider rejects unchanged. */
async function toolset() {
  const { app } = await startApp({ exposure: { mode: 'direct', primitives: false } })
  const schema = {
    type: 'object',
    properties: {
      unit: { $ref: '#/$defs/unit' },
      place: { type: 'string', format: 'uri' },
      when: { type: ['string', 'null'], format: 'date-time' },
      amount: { oneOf: [{ type: 'integer' }, { type: 'string' }], description: 'How much.' },
      level: { enum: [1, 2] },
      tags: { type: 'array', items: { type: 'string', const: 'x' } },
    },
    required: ['unit'],
    additionalProperties: false,
    $defs: { unit: { enum: ['c', 'f'] } },
  }
  app.catalog.set(
    { id: 'weather', summary: 'Weather', origin: 'module', state: 'ready' },
    { tools: [makeTool('weather.très long name', { schema })] },
  )
  return { app, tools: await createToolset({ app }) }
}

describe('tools in the format of a provider [TOM-15]', () => {
  it.each(TOOL_FORMATS)('%s: match the reviewed snapshot, with valid names', async (format) => {
    const { tools } = await toolset()
    const declared = tools.serialize(format)
    const file = join(import.meta.dirname, `../snapshots/formats/${format}.json`)
    await expect(`${JSON.stringify(declared, null, 2)}\n`).toMatchFileSnapshot(file)
    const names = [...JSON.stringify(declared).matchAll(/"name":"([^"]+)","description"/g)].map(([, name]) => name)
    expect(names).toHaveLength(tools.list().length)
    for (const name of names) expect(name).toMatch(/^[a-zA-Z0-9_-]{1,64}$/)
  })

  it('have the schemas of tools/list', async () => {
    const { app, tools } = await toolset()
    const listed = (await (await connectTo(app)).listTools()).tools
    const schemas = Object.fromEntries(listed.map(({ name, inputSchema }) => [name, inputSchema]))
    const functions = tools.serialize('openai').map((one) => [one.function.name, one.function.parameters])
    expect(Object.fromEntries(functions)).toEqual(schemas)
    expect(tools.serialize('ollama')).toEqual(tools.serialize('openai'))
    const own = tools.serialize('anthropic').map((one) => [one.name, one.input_schema])
    expect(Object.fromEntries(own)).toEqual(schemas)
  })

  it('are the five meta-tools in discovery mode', async () => {
    const { app } = await startApp({ exposure: { mode: 'discovery' } })
    const tools = await createToolset({ app })
    expect(tools.serialize('anthropic').map(({ name }) => name)).toEqual(
      app.surface.guide(localCaller).map(({ name }) => name),
    )
  })

  it('are empty if there are no tools', () => {
    expect(serializeTools([], 'gemini')).toEqual([])
    expect(serializeTools([], 'openai')).toEqual([])
  })
})

describe('a schema for Gemini', () => {
  it('contains only supported keywords', () => {
    const schema = {
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      type: 'object',
      properties: {
        url: { type: 'string', format: 'uri', default: 'x' },
        at: { type: 'string', format: 'date-time' },
        n: { type: 'integer', format: 'int32', exclusiveMinimum: 0, maximum: 9 },
        level: { type: 'integer', enum: [1, 2] },
        kind: { const: 'a' },
        maybe: { anyOf: [{ type: 'string', minLength: 1 }, { type: 'null' }], description: 'Perhaps.' },
        either: { oneOf: [{ type: 'string' }, { type: 'number' }] },
        both: {
          allOf: [
            { type: 'object', properties: { a: { type: 'string' } } },
            { properties: { b: {} }, required: ['b'] },
          ],
        },
        list: { type: 'array' },
        map: { type: 'object', additionalProperties: { type: 'string' } },
      },
      required: ['url', 'gone'],
      additionalProperties: false,
    }
    expect(geminiSchema(schema)).toEqual({
      type: 'OBJECT',
      properties: {
        url: { type: 'STRING' },
        at: { type: 'STRING', format: 'date-time' },
        n: { type: 'INTEGER', maximum: 9 },
        level: { type: 'INTEGER' },
        kind: { type: 'STRING', enum: ['a'] },
        maybe: { type: 'STRING', minLength: 1, description: 'Perhaps.', nullable: true },
        either: { anyOf: [{ type: 'STRING' }, { type: 'NUMBER' }] },
        both: { type: 'OBJECT', properties: { a: { type: 'STRING' }, b: {} }, required: ['b'] },
        list: { type: 'ARRAY', items: {} },
        map: { type: 'OBJECT' },
      },
      required: ['url'],
    })
  })

  it('is a single object if the original has alternatives at the top', () => {
    const schema = {
      anyOf: [
        { type: 'object', properties: { id: { type: 'string' } }, required: ['id'] },
        { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
      ],
    }
    expect(geminiSchema(schema)).toEqual({
      type: 'OBJECT',
      properties: { id: { type: 'STRING' }, name: { type: 'STRING' } },
    })
  })

  it('is finite, however deep the original is', () => {
    let schema: Record<string, unknown> = { type: 'string' }
    for (let depth = 0; depth < 500; depth++) schema = { type: 'object', properties: { a: schema } }
    expect(JSON.stringify(geminiSchema(schema)).length).toBeLessThan(2_000)
  })
})
