import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { Client } from '@modelcontextprotocol/client'
import { expect, onTestFinished, test } from 'vitest'
import { type Answer, startApp, temporaryFolder } from '../app.ts'
import { callTool, connectTo } from '../client.ts'
import { count } from '../count.mjs'
import { add, codeOf, serve } from '../listed-server.ts'
import { place, serveHttp, type Talk, talkTo } from '../process.ts'
import { LAG, soonest } from './lag.ts'

const echo = `export default {
  name: 'desk', description: 'Takes what it is given.',
  tools: {
    take: { description: 'Takes anything and says how much it was.', effect: 'read', input: { type: 'object', properties: { n: {} } }, run: (given) => JSON.stringify(given).length + ' taken' },
    open: { description: 'Opens a drawer.', effect: 'read', run: () => 'opened', input: { type: 'object',
      properties: { drawer: { type: 'object', properties: { label: { type: 'string' } }, additionalProperties: false } }, additionalProperties: false } },
    admin: { description: 'Says whether everybody became an admin.', effect: 'read', run: () => String(({}).isAdmin) },
  },
}`

/** Calls a tool with literal arguments that JSON.stringify would not write. */
async function call(talk: Talk, id: number, name: string, args: string): Promise<Answer> {
  count('fault')
  talk.child.stdin?.write(
    `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"${name}","arguments":${args}}}\n`,
  )
  return ((await talk.answer(id)) as Answer).result
}

const desk = (more: object = {}): Promise<Talk> =>
  talkTo(place({ exposure: { mode: 'direct' }, ...more }, { 'desk.mjs': echo }))

/** The error of a tool result, as opposed to a protocol error. */
function refusal(result: Answer): { code: string; message: string } {
  expect(result.isError).toBe(true)
  const { code, message } = result.structuredContent.error
  return { code, message }
}

test('SCH-01: an unknown argument gets an error result that names its path', async () => {
  const talk = await desk()
  expect(refusal(await call(talk, 1, 'desk__open', '{"extra":1}'))).toEqual({
    code: 'E_VALIDATION',
    message: expect.stringMatching(/^Invalid params for desk\.open: .*extra/),
  })
  expect(refusal(await call(talk, 2, 'desk__open', '{"drawer":{"label":"a","extra":{"deep":1}}}'))).toEqual({
    code: 'E_VALIDATION',
    message: expect.stringMatching(/^Invalid params for desk\.open: .*drawer\.?.*extra/),
  })
  expect((await call(talk, 3, 'desk__open', '{"drawer":{"label":"a"}}')).content[0].text).toBe('opened')
})

test('SCH-02: a value that assembly removed from the schema is rejected before a backend request', async () => {
  const seen: string[] = []
  const backend = createServer((request, response) => {
    seen.push(String(request.url))
    response.end('[]')
  })
  await new Promise<void>((resolve) => backend.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void backend.close())
  const url = `http://127.0.0.1:${(backend.address() as AddressInfo).port}`
  const { app } = await startApp({
    exposure: { mode: 'direct' },
    modulesDir: join(import.meta.dirname, '../fixtures/modules'),
    autoload: false,
    modules: { web: { override: true } },
    profiles: { some: { modules: { web: { config: { brave_url: url, duckduckgo_url: url } } } } },
  })
  const client = await connectTo(app, 'legacy', {}, 'some')
  onTestFinished(() => client.close())
  const listed = (await client.listTools()).tools.find(({ name }) => name === 'web__web_search') as Answer
  const offered = listed.inputSchema.properties.category.enum
  expect(offered).toEqual(['text', 'image', 'video', 'news'])
  for (const [name, args] of [
    ['web__web_search', { query: 'cats', category: 'music' }],
    ['execute_tool', { name: 'web.web_search', params: { query: 'cats', category: 'music' } }],
  ] as const) {
    const refused = refusal(await client.callTool({ name, arguments: args }))
    expect(refused.code).toBe('E_VALIDATION')
    expect(refused.message).toMatch(/^Invalid params for web\.web_search: category: /)
  }
  expect(seen).toEqual([])
  expect(
    (await client.callTool({ name: 'web__web_search', arguments: { query: 'cats', category: 'video' } })).isError,
  ).not.toBe(true)
  expect(seen).toHaveLength(1)
})

test('SCH-04: prototype keys are rejected, and do not make anyone an admin', async () => {
  const talk = await desk()
  for (const [id, args] of [
    '{"__proto__":{"isAdmin":true}}',
    '{"constructor":{"prototype":{"isAdmin":true}}}',
    '{"a":[{"b":{"prototype":1}}]}',
    '{"\\u005f_proto__":{"isAdmin":true}}',
    '{"a":1,"__proto__":1,"__proto__":null}',
  ].entries()) {
    const { code, message } = refusal(await call(talk, id + 1, 'desk__take', args))
    expect([code, message]).toEqual(['E_VALIDATION', expect.stringContaining('forbidden key "')])
  }
  const through = await call(talk, 11, 'execute_tool', '{"name":"desk.take","params":{"__proto__":{"isAdmin":true}}}')
  expect(refusal(through).code).toBe('E_VALIDATION')
  const asText = await call(
    talk,
    12,
    'execute_tool',
    '{"name":"desk.take","params":"{\\"__proto__\\":{\\"isAdmin\\":true}}"}',
  )
  expect(refusal(asText).code).toBe('E_VALIDATION')
  expect((await call(talk, 13, 'desk__admin', '{}')).content[0].text).toBe('undefined')
})

test('SCH-06: an integer that cannot be exact is rejected anywhere, and accepted as text', async () => {
  const talk = await desk()
  for (const [id, args] of [
    '{"n":1234567890123456789}',
    '{"list":[{"n":-1234567890123456789}]}',
    '{"n":9007199254740993}',
    '{"n":1e30}',
    '{"n":12345678901234567890123456789012345678901234567890.0}',
  ].entries()) {
    const refused = refusal(await call(talk, id + 1, 'desk__take', args))
    expect(refused.code, args).toBe('E_INT_PRECISION')
    expect(refused.message).not.toMatch(/\d{16}/)
  }
  const through = await call(talk, 21, 'execute_tool', '{"name":"desk.take","params":"{\\"n\\":1234567890123456789}"}')
  expect(refusal(through).code).toBe('E_INT_PRECISION')
  expect((await call(talk, 22, 'desk__take', '{"n":"1234567890123456789"}')).content[0].text).toBe('27 taken')
  expect((await call(talk, 23, 'desk__take', '{"n":9007199254740991}')).content[0].text).toBe('22 taken')
})

test('SCH-08: arguments nested a hundred thousand levels deep are rejected, and the next message is served', async () => {
  const talk = await desk()
  let id = 0
  const timed = async (input: string): Promise<readonly [Answer, number]> => {
    const started = performance.now()
    const answer = await call(talk, ++id, 'desk__take', input)
    return [answer, performance.now() - started]
  }
  const flat: number[] = []
  const deep: number[] = []
  for (let n = 0; n < 10; n++)
    for (const [open, close] of [
      ['{"a":', '}'],
      ['[', ']'],
    ] as const) {
      const [answer, ms] = await timed(`{"deep":${open.repeat(100_000)}1${close.repeat(100_000)}}`)
      expect(refusal(answer)).toEqual({ code: 'E_VALIDATION', message: 'The arguments are nested more than 64 deep.' })
      deep.push(ms)
      // A valid message of the same length, to measure the normal time on this machine.
      flat.push((await timed(`{"deep":"${'a'.repeat((open.length + 1) * 100_000)}"}`))[1])
    }
  expect(Math.min(...deep) - Math.min(...flat)).toBeLessThan(50)
  expect((await call(talk, ++id, 'desk__take', '{}')).content[0].text).toBe('2 taken')
})

const millionItems = `{"list":[${'0,'.repeat(999_999)}0]}`
const keys = (count: number): string => Array.from({ length: count }, (_, n) => `"k${n}":0`).join()
const millionKeys = `{${keys(1_000_000)}}`
const fiveMegabytes = `{"name":"${'x'.repeat(5_000_000)}"}`
const manyItems = { code: 'E_VALIDATION', message: 'The arguments hold more than 10000 keys and items (size limit).' }
const muchText = {
  code: 'E_VALIDATION',
  message: 'The arguments hold more than 4194304 characters of text (size limit).',
}

/**
 * Repeats until an answer took less than 200 ms and the event loop was blocked for less than 100 ms, each at least
 * once.
 */
async function atOnce(ask: () => Promise<void>, lag: () => Promise<number>): Promise<void> {
  let took = Number.POSITIVE_INFINITY
  let stood = Number.POSITIVE_INFINITY
  const longest = await soonest(200, async () => {
    await lag()
    const began = performance.now()
    await ask()
    took = Math.min(took, performance.now() - began)
    stood = Math.min(stood, await lag())
    return Math.max(took, 2 * stood)
  })
  expect(longest, `answered after ${took} ms, stood still for ${stood} ms`).toBeLessThan(200)
}

test('SCH-09: a million keys, a million items and five megabytes of text are rejected within 200 ms, and delay no other call by 100 ms', async () => {
  const modules = { 'desk.mjs': echo, 'loop.mjs': LAG }
  const http = { maxBodyBytes: 16 * 1024 * 1024 }
  const { url, token } = await serveHttp(place({ exposure: { mode: 'direct' }, server: { http } }, modules))
  let session = ''
  const post = async (body: string): Promise<Answer> => {
    const response = await fetch(new URL('/mcp', url), {
      method: 'POST',
      headers: {
        authorization: `Bearer ${token}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        ...(session && { 'mcp-session-id': session }),
      },
      body,
    })
    session ||= String(response.headers.get('mcp-session-id'))
    const text = await response.text()
    return JSON.parse(text.startsWith('{') ? text : String(/^data: (\{.*)$/m.exec(text)?.[1]))
  }
  await post(
    '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}',
  )
  const call = async (name: string, args: string): Promise<Answer> =>
    (await post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"${name}","arguments":${args}}}`))
      .result
  const lag = async (): Promise<number> => Number((await call('loop__lag', '{}')).content[0].text)
  // The check itself detects a blocked event loop.
  await lag()
  await call('loop__block', '{}')
  expect(await lag()).toBeGreaterThan(140)
  for (const [args, refused] of [
    [millionKeys, manyItems],
    [millionItems, manyItems],
    [fiveMegabytes, muchText],
  ] as const)
    await atOnce(async () => expect(refusal(await call('desk__take', args))).toEqual(refused), lag)
}, 120_000)

test('SCH-09: the same on a pipe, where an oversized message is rejected for its size', async () => {
  const talk = await talkTo(place({ exposure: { mode: 'direct' } }, { 'desk.mjs': echo, 'loop.mjs': LAG }))
  let id = 0
  const lag = async (): Promise<number> => Number((await call(talk, ++id, 'loop__lag', '{}')).content[0].text)
  const spread = Array.from({ length: 100 }, (_, n) => `"o${n}":{${keys(3_000)}}`).join()
  for (const args of [millionItems, `{${keys(300_000)}}`, `{${spread}}`, `{"list":[${'[],'.repeat(1_000_000)}0]}`])
    await atOnce(async () => expect(refusal(await call(talk, ++id, 'desk__take', args))).toEqual(manyItems), lag)
  // As text, which execute_tool accepts, too.
  const asText = `{"name":"desk.take","params":${JSON.stringify(`{${keys(250_000)}}`)}}`
  await atOnce(async () => expect(refusal(await call(talk, ++id, 'execute_tool', asText))).toEqual(manyItems), lag)
  for (const args of [millionKeys, fiveMegabytes])
    await atOnce(async () => {
      count('fault')
      talk.child.stdin?.write(
        `{"jsonrpc":"2.0","id":${++id},"method":"tools/call","params":{"name":"desk__take","arguments":${args}}}\n`,
      )
      expect(((await talk.answer(id)) as Answer).error).toEqual({
        code: -32600,
        message: 'Invalid request: message exceeds 4194304 bytes',
      })
    }, lag)
}, 120_000)

test('SCH-10: a schema that refers to the network disables its tool, without a request, and the other tools stay', async () => {
  let asked = 0
  const listener = createServer((_request, response) => {
    asked++
    response.end('{}')
  })
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void listener.close())
  const { port } = listener.address() as AddressInfo
  const object = (a: object) => ({ type: 'object', properties: { a } })
  const where = `//127.0.0.1:${port}/s.json`
  const served = await serve({
    a: {
      tools: [
        add,
        { name: 'fetches', inputSchema: object({ $ref: `http:${where}` }) },
        { name: 'fetches_where_it_is', inputSchema: object({ $ref: where }) },
        { name: 'fetches_late', inputSchema: object({ $dynamicRef: `http:${where}#x` }) },
        { name: 'answers_so', inputSchema: object({}), outputSchema: object({ $ref: `HTTP:${where}` }) },
      ],
    },
  })
  expect((await served.call('a__add')).content[0].text).toBe('add ran')
  await served.call('get_tool', { name: 'mcp_a.add' })
  expect(served.ids()).toEqual(['mcp_a.add'])
  expect(asked).toBe(0)
  for (const name of ['fetches', 'fetches_where_it_is', 'fetches_late', 'answers_so'])
    expect(served.logged.join('\n')).toContain(`skipped \\"${name}\\": its schema refers to`)
})

/** Calls the tool while another client calls a second tool, which must answer as fast. */
async function beside(client: Client, name: string, args: object): Promise<Answer> {
  const both = await Promise.all([
    callTool(client, { name, arguments: { ...args } }),
    client.callTool({ name: 'b__add', arguments: {} }),
  ])
  expect((both[1] as Answer).content[0].text).toBe('add ran')
  return both[0]
}

test('SCH-11: a malicious pattern delays no answer by more than 100 ms', async () => {
  const inputSchema = { type: 'object', properties: { a: { type: 'string', pattern: '^(a|a)*$' } } }
  const broken = { type: 'object', properties: { a: { type: 'string', pattern: '([' } } }
  const tools = [
    { name: 'slow', inputSchema },
    { name: 'broken', inputSchema: broken },
  ]
  const served = await serve({ a: { tools }, b: { tools: [add] } })
  await served.client(async (client) => {
    const took = await soonest(100, async () => {
      const asked = performance.now()
      const answer = await beside(client, 'a__slow', { a: `${'a'.repeat(40)}!` })
      const took = performance.now() - asked
      expect(answer.content[0].text).toBe('slow ran')
      return took
    })
    expect(took).toBeLessThan(100)
    expect(((await beside(client, 'a__broken', { a: 'x' })) as Answer).content[0].text).toBe('broken ran')
    for (const [name, args] of [
      ['get_tool', { name: 'mcp_a.slow' }],
      ['search_tools', { query: 'slow', detail: 'full' }],
    ] as const)
      expect((await client.callTool({ name, arguments: args })).isError).toBeFalsy()
  })
})

test('SCH-12: a schema whose references double twenty times disables its tool within 500 ms, with a short reason', async () => {
  const doubling = (times: number, end: object = {}) => {
    const twice = (n: number) => ({ allOf: [{ $ref: `#/$defs/d${n + 1}` }, { $ref: `#/$defs/d${n + 1}` }] })
    const $defs = Object.fromEntries(Array.from({ length: times }, (_, n) => [`d${n}`, twice(n)]))
    return { type: 'object', properties: { a: { $ref: '#/$defs/d0' } }, $defs: { ...$defs, [`d${times}`]: end } }
  }
  // The largest accepted schema, with an error in every part.
  const most = { name: 'most', inputSchema: doubling(12, { type: 'string' }) }
  const served = await serve({
    a: { tools: [add, { name: 'bomb', inputSchema: doubling(20) }, most] },
    b: { tools: [add] },
  })
  expect(served.ids()).toEqual(['mcp_a.add', 'mcp_a.most', 'mcp_b.add'])
  const told = served.logged.filter((line) => line.includes('bomb'))
  expect(told.map((line) => JSON.parse(line).message)).toEqual([
    'skipped "bomb": its schema unfolds to more than 100000 parts',
  ])
  await served.client(async (client) => {
    for (const [name, said] of [
      ['a__bomb', 'E_NOT_FOUND'],
      ['a__most', 'most ran'],
    ] as const) {
      const took = await soonest(500, async () => {
        const asked = performance.now()
        const answer = await beside(client, name, { a: 1 })
        const took = performance.now() - asked
        expect(codeOf(answer)).toContain(said)
        expect(JSON.stringify(answer).length).toBeLessThan(4_096)
        return took
      })
      expect(took, name).toBeLessThan(500)
    }
  })
})

test('SCH-13: two servers with the same $id are validated by their own schemas', async () => {
  const schema = (properties: object) => ({ $id: 'https://example.com/args', type: 'object', properties })
  const served = await serve({
    a: { tools: [{ name: 'take', inputSchema: schema({}) }] },
    b: { tools: [{ name: 'take', strict: true, inputSchema: schema({ n: { type: 'number' } }) }] },
  })
  expect((await served.call('a__take', { n: 'no' })).content[0].text).toBe('take ran')
  const refused = await served.call('b__take', { n: 'no' })
  expect(refused).toMatchObject({
    isError: true,
    content: [{ text: 'n must be a number' }, { text: expect.stringContaining('Class argument') }],
  })
  const shown = async (name: string) =>
    (await served.call('get_tool', { name })).structuredContent.parameters.properties
  expect(await shown('mcp_a.take')).toEqual({})
  expect(await shown('mcp_b.take')).toEqual({ n: { type: 'number' } })
})

test('SCH-13: two modules with the same $id are validated by their own schemas', async () => {
  const dir = temporaryFolder()
  mkdirSync(join(dir, 'modules'))
  const source = (name: string, n: object): string => `export default { name: '${name}', description: 'Takes a number.',
    tools: { take: { description: 'Takes a number and says so.', effect: 'read', run: () => 'taken', input: ${JSON.stringify(
      {
        $id: 'https://example.com/args',
        type: 'object',
        properties: { n: { $ref: '#/$defs/n' } },
        $defs: { n },
      },
    )} } } }`
  writeFileSync(join(dir, 'modules/loose.mjs'), source('loose', {}))
  writeFileSync(join(dir, 'modules/tight.mjs'), source('tight', { type: 'integer' }))
  const { app } = await startApp({ exposure: { mode: 'direct' } }, dir)
  const client = await connectTo(app)
  onTestFinished(() => client.close())
  const take = (name: string): Promise<Answer> => client.callTool({ name: `${name}__take`, arguments: { n: 'no' } })
  expect((await take('loose')).content[0].text).toBe('taken')
  expect(refusal(await take('tight')).code).toBe('E_VALIDATION')
  expect((await take('loose')).content[0].text).toBe('taken')
})

test('SCH-14: a schema with too many bytes, parts or names disables its tool, and the others stay', async () => {
  const properties = (count: number, text = '') =>
    Object.fromEntries(Array.from({ length: count }, (_, n) => [`p${n}`, { description: `${n}${text}` }]))
  const tools = [
    add,
    { name: 'talkative', description: `Talks. ${'y'.repeat(1_000_000)}` },
    { name: 'wide', inputSchema: { type: 'object', properties: properties(1_001) } },
    { name: 'long', inputSchema: { type: 'object', properties: properties(100, 'z'.repeat(3_000)) } },
    { name: 'n'.repeat(300) },
    { name: '' },
    { name: 7 },
    { name: 'list', inputSchema: [] },
    null,
  ]
  const served = await serve({ a: { tools } })
  expect(served.ids()).toEqual(['mcp_a.add'])
  const skipped = served.logged
    .map((line) => String(JSON.parse(line).message))
    .filter((one) => one.startsWith('skipped'))
  expect(skipped).toEqual([
    expect.stringMatching(/^skipped "talkative": its definition has 1000\d{3} bytes$/),
    'skipped "wide": its schema has more than 1000 parts',
    expect.stringMatching(/^skipped "long": its schema has 30\d{4} bytes$/),
    `skipped "${'n'.repeat(60)}": its name has 300 characters`,
    'skipped a tool whose name is not a string',
    'skipped a tool whose name is not a string',
    'skipped "list": its inputSchema is not an object',
    'skipped a tool that is not an object',
  ])
})

test('SCH-14: a schema with six thousand levels disables its tool, and the others stay', async () => {
  const deep = `${'{"properties":{"a":'.repeat(3_000)}{}${'}}'.repeat(3_000)}`
  const toolsText = `[${JSON.stringify({ ...add, inputSchema: {} })},{"name":"deep","inputSchema":${deep}},{"name":"notes","annotations":${deep}},{"name":"answers","inputSchema":{},"outputSchema":${deep}}]`
  const served = await serve({ a: { tools: [], toolsText } })
  expect(served.ids()).toEqual(['mcp_a.add'])
  for (const name of ['deep', 'notes', 'answers'])
    expect(served.logged.join('\n')).toContain(`skipped \\"${name}\\": its schema is more than 32 deep`)
  expect((await served.call('a__add')).content[0].text).toBe('add ran')
})
