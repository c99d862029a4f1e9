import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { readConfig } from '../../src/config/load-config.ts'
import { type Answer, startApp, temporaryFolder } from '../app.ts'
import { connectTo } from '../client.ts'
import { add, serve } from '../listed-server.ts'
import { place, talkTo } from '../process.ts'

const input = { type: 'object', properties: {} }
const written = (name: string, resultText: string, more: object = {}) => ({
  name,
  inputSchema: input,
  resultText,
  ...more,
})

/** A 2025 server over HTTP that answers each call with this literal result. */
async function overHttp(resultText: string): Promise<string> {
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    if (body === '') return void response.writeHead(405).end()
    const { id, method } = JSON.parse(body)
    const results: Record<string, string> = {
      initialize:
        '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}',
      'tools/list': JSON.stringify({ tools: [{ name: 'get', description: 'Gets.', inputSchema: input }] }),
      'tools/call': resultText,
    }
    if (id === undefined) return void response.writeHead(202).end()
    const result = results[method]
    const said = result === undefined ? '"error":{"code":-32601,"message":"no"}' : `"result":${result}`
    response.setHeader('content-type', 'application/json')
    response.end(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},${said}}`)
  }).listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await new Promise((resolve) => server.once('listening', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`
}

const NUMBERS = '{"id":9007199254740993,"big":1e400,"low":-1E+999,"zero":-0,"plain":1.5e10}'
const NUMBERS_RESULT = `{"content":[{"type":"text","text":"ran"}],"structuredContent":${NUMBERS}}`
/** Numbers that JavaScript cannot represent are texts. */
const KEPT = { id: '9007199254740993', big: '1e400', low: '-1E+999', plain: 1.5e10 }

test('SCH-07: ids and numbers that parsing would change arrive exactly or as text, on every route', async () => {
  const served = await serve({ a: { tools: [written('get', NUMBERS_RESULT)] } })
  await served.client(async (client) => {
    const all = (await client.callTool({
      name: 'run_parallel',
      arguments: { actions: [{ name: 'mcp_a.get' }] },
    })) as Answer
    expect(all.structuredContent.results[0].data).toMatchObject(KEPT)
    expect(all.structuredContent.results[0].data.zero === 0).toBe(true)
    const { task_id } = (
      (await client.callTool({ name: 'background_run', arguments: { name: 'mcp_a.get' } })) as Answer
    ).structuredContent
    const result = (await client.callTool({
      name: 'background_result',
      arguments: { task_id, timeout: 5 },
    })) as Answer
    expect(JSON.stringify(result)).toContain('9007199254740993')
    expect(JSON.stringify(result)).toContain('1e400')
    expect(JSON.stringify(result)).not.toContain('9007199254740992')
  })
})

test('SCH-07: the same over HTTP', async () => {
  const url = await overHttp(NUMBERS_RESULT)
  const { app } = await startApp({ exposure: { mode: 'direct' }, mcpServers: { web: { url, start: 'eager' } } })
  await app.settled(20_000)
  const client = await connectTo(app)
  const direct = (await client.callTool({ name: 'web__get', arguments: {} })) as Answer
  expect(direct.structuredContent).toMatchObject(KEPT)
  const all = (await client.callTool({
    name: 'run_parallel',
    arguments: { actions: [{ name: 'mcp_web.get' }] },
  })) as Answer
  expect(all.structuredContent.results[0].data).toMatchObject(KEPT)
  await client.close()
})

test('SCH-07: a direct call gets the digits that the server sent, and no argument becomes null', async () => {
  const dir = temporaryFolder()
  const { app } = await serve({ a: { tools: [written('get', NUMBERS_RESULT), { ...add, echo: true }] } }, {}, dir)
  await app.stop()
  const listed = join(import.meta.dirname, '../fixtures/upstreams/listed.mjs')
  const mcpServers = { a: { command: process.execPath, args: [listed, join(dir, 'a.tools.json')], start: 'eager' } }
  const talk = await talkTo(place({ exposure: { mode: 'direct' }, mcpServers }))
  let text = ''
  talk.child.stdout?.on('data', (chunk) => (text += chunk))
  const call = async (id: number, name: string, args: string): Promise<Answer> => {
    talk.child.stdin?.write(
      `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"${name}","arguments":${args}}}\n`,
    )
    return ((await talk.answer(id)) as Answer).result
  }
  await call(7, 'a__get', '{}')
  expect(text).toContain(`"structuredContent":${NUMBERS}`)
  const refused = await call(8, 'a__add', '{"n":1e400}')
  expect(JSON.stringify(refused)).toContain('E_VALIDATION: n is a number that JSON cannot represent.')
})

const ESCAPED = '"\\u005f\\u005fproto\\u005f\\u005f"'
const deep = (inner: string): string => `[{"a":[{"b":[{"c":${inner}}]}]}]`

test('SCH-05: prototype keys are rejected in arguments and removed from results, five levels deep in lists', async () => {
  const hostile = `{"kept":1,${ESCAPED}:{"polluted":1},"__proto__":{"polluted":2},"constructor":{"prototype":{"polluted":3}}}`
  const result = `{"content":[{"type":"text","text":"ran"}],"structuredContent":{"list":${deep(hostile)}}}`
  const large = `{"content":[{"type":"text","text":"${'x'.repeat(9_000)}"}],"structuredContent":{"list":${deep(hostile)}}}`
  const url = await overHttp(result)
  const tools = [written('get', result), written('large', large), { ...add, echo: true }]
  const served = await serve({ a: { tools } })
  const web = await startApp({ exposure: { mode: 'direct' }, mcpServers: { web: { url, start: 'eager' } } })
  await web.app.settled(20_000)
  const remote = await connectTo(web.app)
  await served.client(async (client) => {
    for (let n = 0; n < 1_000; n++) {
      const name = ['a__get', 'a__large', 'web__get'][n % 3] as string
      const by = name === 'web__get' ? remote : client
      const { structuredContent } = (await by.callTool({ name, arguments: {} })) as Answer
      if (n < 6) {
        const inner = structuredContent.list[0].a[0].b[0].c
        expect(Object.getOwnPropertyNames(inner)).toEqual(['kept'])
      }
    }
    for (const bad of [`{${ESCAPED}:1}`, '{"__proto__":{"x":1}}', '{"constructor":{"prototype":{"x":1}}}']) {
      const args = JSON.parse(`{"n":${deep(bad)}}`)
      for (const call of [
        { name: 'a__add', arguments: args },
        { name: 'execute_tool', arguments: { name: 'mcp_a.add', params: args } },
        { name: 'run_parallel', arguments: { actions: [{ name: 'mcp_a.add', params: args }] } },
      ]) {
        const refused = (await client.callTool(call)) as Answer
        expect(refused.isError).toBe(true)
        expect(JSON.stringify(refused)).toContain('forbidden key')
      }
    }
  })
  await remote.close()
  expect(({} as { polluted?: unknown }).polluted).toBeUndefined()
  expect(Object.prototype).not.toHaveProperty('polluted')
}, 120_000)

test('SCH-05: prototype keys in a configuration have no effect', () => {
  const machine = { env: {}, cwd: '/' }
  for (const bad of [
    `{${ESCAPED}:{"polluted":1}}`,
    '{"__proto__":{"polluted":1}}',
    '{"constructor":{"prototype":{"polluted":1}}}',
  ])
    for (const text of [bad, `{"modules":{"hello":{"list":${deep(bad)}}}}`, `{"mcpServers":${bad}}`]) {
      try {
        const { config } = readConfig(text, '/x/mcp.config.json', machine)
        expect(JSON.stringify(config)).not.toContain('"polluted":1}}')
      } catch (error) {
        expect((error as Answer).code).toMatch(/^E_CONFIG_(?:INVALID|SYNTAX)$/)
      }
      expect(({} as { polluted?: unknown }).polluted).toBeUndefined()
    }
})

test('SCH-16: Pegboard skips a tool with an unknown schema dialect or a non-object schema, with the reason, and keeps the others', async () => {
  const anchored = (type: string) => ({
    type: 'object',
    properties: { v: { $ref: '#same' } },
    $defs: { v: { $anchor: 'same', type } },
  })
  const tools = [
    add,
    { name: 'dialect', inputSchema: { type: 'object', $schema: 'https://evil.example/schema' } },
    { name: 'nothing', inputSchema: null },
    { name: 'list', inputSchema: [] },
    { name: 'anything', inputSchema: true },
    { name: 'text', inputSchema: { type: 'string' } },
    { name: 'older', inputSchema: { type: 'object', $schema: 'http://json-schema.org/draft-07/schema#' } },
    { name: 'anchored', inputSchema: anchored('string'), echo: true },
  ]
  const served = await serve({ a: { tools }, b: { tools: [{ name: 'anchored', inputSchema: anchored('number') }] } })
  expect(served.ids()).toEqual(['mcp_a.add', 'mcp_a.older', 'mcp_a.anchored', 'mcp_b.anchored'])
  const { servers } = ((await served.call('mcp__list_servers')) as Answer).structuredContent
  expect(servers.map(({ id, notes }: Answer) => [id, notes])).toEqual([
    [
      'a',
      [
        'skipped "dialect": its inputSchema is of an unknown dialect, "…"',
        'skipped "nothing": its inputSchema is not an object',
        'skipped "list": its inputSchema is not an object',
        'skipped "anything": its inputSchema is not an object',
        'skipped "text": its inputSchema is of "string", not of an object',
      ],
    ],
    ['b', undefined],
  ])
  expect((await served.call('a__anchored', { v: 'x' })).content[0].text).toBe('{"v":"x"}')
  const shown = async (name: string) =>
    (await served.call('get_tool', { name })).structuredContent.parameters.$defs.v.type
  expect([await shown('mcp_a.anchored'), await shown('mcp_b.anchored')]).toEqual(['string', 'number'])
})

test('SCH-17: a pattern with look-around or a back-reference is not enforced, and the status says so', async () => {
  const slow = '^(?=(a+))\\1+$'
  const inputSchema = { type: 'object', patternProperties: { [slow]: { type: 'string' } } }
  const outputSchema = {
    type: 'object',
    patternProperties: { [slow]: { type: 'number' } },
    additionalProperties: false,
  }
  const evil = 'a'.repeat(40)
  const result = `{"content":[{"type":"text","text":"ran"}],"structuredContent":{"${evil}!":"x"}}`
  const tools = [{ name: 'ahead', inputSchema, echo: true }, written('answers', result, { outputSchema }), add]
  const served = await serve({ a: { tools } })
  const { servers } = ((await served.call('mcp__list_servers')) as Answer).structuredContent
  const note = 'a pattern of its schema is not enforced: it has look-around, a back-reference or an error'
  expect(servers[0].notes).toEqual([`"ahead": ${note}`, `"answers": ${note}`])
  expect((await served.call('a__ahead', { [`${evil}!`]: 1 })).content[0].text).toBe(`{"${evil}!":1}`)
  expect(
    (
      await served.app.call({
        name: 'mcp_a.answers',
        input: {},
        caller: (await import('../../src/core/caller.ts')).localCaller,
      })
    ).kind,
  ).toBe('mcp')
})

test('SCH-18: Pegboard does not fill in defaults of a foreign schema', async () => {
  const inputSchema = {
    type: 'object',
    properties: { force: { type: 'boolean', default: true }, n: { type: 'number' } },
  }
  const served = await serve({ a: { tools: [{ name: 'remove', inputSchema, echo: true }] } })
  expect((await served.call('a__remove', { n: 1 })).content[0].text).toBe('{"n":1}')
  expect((await served.call('execute_tool', { name: 'mcp_a.remove', params: { n: 1 } })).content[0].text).toBe(
    '{"n":1}',
  )
})

test('SCH-18: a result that violates its outputSchema loses its structured content, has a note, and keeps its text', async () => {
  const outputSchema = { type: 'object', properties: { id: { type: 'integer' } }, required: ['id'] }
  const says = (structured: string, text = 'the text') =>
    `{"content":[{"type":"text","text":"${text}"}],"structuredContent":${structured}}`
  const tools = [
    written('good', says('{"id":9007199254740993}'), { outputSchema }),
    written('bad', says('{"id":"rm -rf"}'), { outputSchema }),
    written('large', says('{"id":null}', 'y'.repeat(10_000)), { outputSchema }),
  ]
  const served = await serve({ a: { tools } })
  const why =
    "The structured content was withheld: it does not match the tool's outputSchema (at id). The tool did run."
  await served.client(async (client) => {
    await client.listTools()
    expect((await client.callTool({ name: 'a__good', arguments: {} })).isError).toBeFalsy()
    for (const [name, text] of [
      ['bad', 'the text'],
      ['large', 'y'.repeat(10_000)],
    ]) {
      const direct = (await client.callTool({ name: `a__${name}`, arguments: {} })) as Answer
      expect(direct.structuredContent).toBeUndefined()
      expect(direct.content.map((block: Answer) => block.text)).toEqual([text, `[NOTICE] ${why}`])
      expect(direct._meta['pegboard/withheld']).toEqual({ structuredContent: why })
    }
    const all = (await client.callTool({
      name: 'run_parallel',
      arguments: { actions: [{ name: 'mcp_a.bad' }] },
    })) as Answer
    expect(all.structuredContent.results[0]).toMatchObject({ success: true, data: `the text\n[NOTICE] ${why}` })
  })
})

const many = (length: number, of: (n: number) => unknown): unknown[] => Array.from({ length }, (_, n) => of(n))
const tree = { $ref: '#/$defs/tree' }
const COSTLY: ReadonlyArray<readonly [name: string, outputSchema: object, value: object]> = [
  [
    'an enum of 30,000 numbers for 40,000 items',
    { properties: { list: { items: { enum: [...many(30_000, (n) => n + 10), 1] } } } },
    { list: many(40_000, () => 1) },
  ],
  [
    'hundreds of parts for each item',
    { properties: { list: { allOf: many(900, () => ({ items: true })) } } },
    { list: many(40_000, () => 1) },
  ],
  [
    'hundreds of parts that count the keys',
    { allOf: many(900, () => ({ maxProperties: 90_000 })) },
    Object.fromEntries(many(8_000, (n) => [`k${n}`, 1]) as Array<[string, number]>),
  ],
  [
    'a part that contains itself twice, in a value of forty levels',
    { $defs: { tree: { properties: { a: { anyOf: [tree, tree] } } } }, $ref: '#/$defs/tree' },
    many(40, () => 0).reduce((inner: object) => ({ a: inner }), {}),
  ],
  ['parts that contain each other', { $defs: { tree: { allOf: [tree] } }, $ref: '#/$defs/tree' }, {}],
]

test('SCH-18: the check against an outputSchema has a time limit, and the result says if it was not checked', async () => {
  const tools = COSTLY.map(([, outputSchema, value], n) =>
    written(`t${n}`, JSON.stringify({ content: [{ type: 'text', text: 'ran' }], structuredContent: value }), {
      outputSchema: { type: 'object', ...outputSchema },
    }),
  )
  const served = await serve({ a: { tools } }, { a: { maxResultTokens: 0 } })
  for (const [n, [name]] of COSTLY.entries()) {
    const result = await served.call(`a__t${n}`)
    expect(
      result.content.map((block: Answer) => block.text),
      name,
    ).toEqual(['ran', "[NOTICE] The structured content was not checked: the tool's outputSchema takes too long."])
  }
})
