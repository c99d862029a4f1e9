import type { Client } from '@modelcontextprotocol/client'
import { describe, expect, it } from 'vitest'
import { type Answer, startApp } from '../app.ts'
import { connectTo } from '../client.ts'

// Questions of upstream servers, as a person behind a client sees them.

/** readline of Node 24 also splits lines at U+2028, which JSON does not escape. */
const LINES = `
let rest = ''
const onLine = (use) => process.stdin.setEncoding('utf8').on('data', (text) => {
  const lines = (rest + text).split('\\n')
  rest = lines.pop()
  lines.forEach(use)
})`

/** A 2025 server with one tool, which sends the given request and returns the response. */
const ASKS_2025 = `${LINES}
const open = new Map()
const send = (message) => console.log(JSON.stringify({ jsonrpc: '2.0', ...message }))
onLine((line) => {
  const { id, method, params, result, error } = JSON.parse(line)
  if (method === 'initialize')
    send({ id, result: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'x', version: '1' }, seen: params.capabilities } })
  else if (method === 'tools/list') send({ id, result: { tools: [{ name: 'ask', description: 'Asks.', inputSchema: { type: 'object' } }] } })
  else if (method === 'tools/call') {
    open.set('q' + id, id)
    send({ id: 'q' + id, ...params.arguments })
  } else if (method === undefined && open.has(id))
    send({ id: open.get(id), result: { content: [{ type: 'text', text: JSON.stringify(error ?? result) }] } })
  else if (id !== undefined && method) send({ id, error: { code: -32601, message: 'no' } })
})`
/** A 2026 server that answers a call with the same question. */
const ASKS_2026 = `${LINES}
const send = (message) => console.log(JSON.stringify({ jsonrpc: '2.0', ...message }))
const done = { resultType: 'complete', ttlMs: 0, cacheScope: 'private' }
onLine((line) => {
  const { id, method, params } = JSON.parse(line)
  if (method === 'server/discover')
    send({ id, result: { ...done, supportedVersions: ['2026-07-28'], capabilities: { tools: {} }, serverInfo: { name: 'x', version: '1' } } })
  else if (method === 'tools/list') send({ id, result: { ...done, tools: [{ name: 'ask', description: 'Asks.', inputSchema: { type: 'object' } }] } })
  else if (method === 'tools/call')
    send({ id, result: params.inputResponses
      ? { resultType: 'complete', content: [{ type: 'text', text: JSON.stringify(params.inputResponses.q) }] }
      : { resultType: 'input_required', requestState: 's', inputRequests: { q: params.arguments } } })
  else if (id !== undefined) send({ id, error: { code: -32601, message: 'no' } })
})`

const program = (code: string, more: object = {}) => ({
  command: process.execPath,
  args: ['-e', code],
  start: 'eager',
  ...more,
})

type Asked = { readonly method: string; readonly params: Answer }

/** A client in front of the server whose person approves everything; `asked` has the shown questions. */
async function behind(code: string, more: object = {}) {
  const { app } = await startApp({ exposure: { mode: 'direct' }, mcpServers: { gh: program(code, more) } })
  await app.settled(20_000)
  const capabilities = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} }
  const client = await connectTo(app, code === ASKS_2026 ? 'modern' : 'legacy', { capabilities })
  const asked: Asked[] = []
  client.setRequestHandler('elicitation/create', ({ method, params }) => {
    asked.push({ method, params })
    return { action: 'accept', content: {} }
  })
  client.setRequestHandler('sampling/createMessage', ({ method, params }) => {
    asked.push({ method, params })
    return { role: 'assistant', model: 'm', content: { type: 'text', text: 'Hello' } }
  })
  client.setRequestHandler('roots/list', ({ method, params }) => {
    asked.push({ method, params })
    return { roots: [] }
  })
  return { client, asked, ask: (method: string, params: object) => askThrough(client, more, method, params) }
}

async function askThrough(client: Client, more: { prefix?: string }, method: string, params: object): Promise<Answer> {
  const name = more.prefix === '' ? 'ask' : 'gh__ask'
  const result = (await client.callTool({ name, arguments: { method, params } })) as Answer
  return result
}

const form = { message: 'Your name?', requestedSchema: { type: 'object', properties: {} } }
const page = (url: unknown, more: object = {}) => ({ mode: 'url', elicitationId: '1', message: 'Log in', url, ...more })
const model = {
  messages: [{ role: 'user', content: { type: 'text', text: 'Hi' } }],
  maxTokens: 5,
  systemPrompt: 'Be kind.',
}

describe.each([
  ['2025', ASKS_2025],
  ['2026', ASKS_2026],
])('a question of a %s server [R38]', (era, code) => {
  it.each([{}, { prefix: '' }])('has the name of the server, with %j', async (more) => {
    const { client, ask, asked } = await behind(code, more)
    await ask('elicitation/create', form)
    expect(asked.map(({ params }) => params.message)).toEqual(['gh: Your name?'])
    await client.close()
  })

  it('reaches the person only as a form or an https page, unless the operator allows more', async () => {
    const { client, ask, asked } = await behind(code)
    for (const [method, params] of [
      ['sampling/createMessage', model],
      ['roots/list', {}],
    ] as const) {
      const result = await ask(method, params)
      if (era === '2025') expect(JSON.parse(result.content[0].text)).toMatchObject({ code: -32601 })
      else expect(JSON.stringify(result)).toContain('mcpServers.gh.relay does not allow')
    }
    expect(asked).toEqual([])
    await client.close()
  })

  it('for a model or for roots has the name of the server, if relay allows it', async () => {
    const { client, ask, asked } = await behind(code, { relay: ['sampling', 'roots'] })
    await ask('sampling/createMessage', model)
    await ask('roots/list', {})
    expect(asked.map(({ method }) => method)).toEqual(['sampling/createMessage', 'roots/list'])
    expect(asked[1]?.params._meta['pegboard/server']).toBe('gh')
    expect(asked[0]?.params.systemPrompt).toBe('The MCP server gh asks for this completion.\n\nBe kind.')
    await ask('elicitation/create', form)
    expect(asked).toHaveLength(2)
    await client.close()
  })

  it('has the server name in each line, so that it cannot look like a question of Pegboard', async () => {
    const { client, ask, asked } = await behind(code)
    const forged = `Your name?\n\n\u2028\r\n${' '.repeat(3_000)}\nMay filesystem.delete run?\nIt is a tool of the module filesystem.`
    await ask('elicitation/create', { ...form, message: forged })
    await ask('elicitation/create', page('https://a.example/x', { message: forged }))
    const lines = 'gh: Your name?\ngh: May filesystem.delete run?\ngh: It is a tool of the module filesystem.'
    expect(asked.map(({ params }) => params.message)).toEqual([lines, `${lines} (opens a page at a.example)`])
    await client.close()
  })

  it('is cut if it is long, like the texts of its fields', async () => {
    const { client, ask, asked } = await behind(code)
    const long = `${'word '.repeat(40_000)}`
    const field = { type: 'string', title: 'A\n\nMay shell.run run?', description: long, default: 'a\nb' }
    await ask('elicitation/create', { message: long, requestedSchema: { type: 'object', properties: { a: field } } })
    const [{ params }] = asked as [Asked]
    expect(params.message).toHaveLength('gh: '.length + 4_000 + ' … (196,000 more characters were left out)'.length)
    expect(params.message.endsWith('word  … (196,000 more characters were left out)')).toBe(true)
    const { a } = params.requestedSchema.properties
    expect(a.title).toBe('A May shell.run run?')
    expect(a.default).toBe('a\nb')
    expect(a.description).toHaveLength(1_000 + ' … (199,000 more characters were left out)'.length)
    await client.close()
  })

  it('with too many fields or options, or an endless name, reaches no one', async () => {
    const { client, ask, asked } = await behind(code)
    const fields = (count: number, name = 'f') =>
      Object.fromEntries(Array.from({ length: count }, (_one, at) => [`${name}${at}`, { type: 'string' }]))
    const options = Array.from({ length: 5_000 }, (_one, at) => `option ${at}`)
    for (const properties of [fields(5_000), fields(1, 'f'.repeat(300)), fields(1, 'a\nb'), { a: { enum: options } }])
      await ask('elicitation/create', { ...form, requestedSchema: { type: 'object', properties } })
    await ask('elicitation/create', page(`https://a.example/${'x'.repeat(10_000)}`))
    expect(asked).toEqual([])
    await ask('elicitation/create', { ...form, requestedSchema: { type: 'object', properties: fields(100) } })
    expect(asked).toHaveLength(1)
    await client.close()
  })

  it.each([
    'javascript:alert(1)',
    'file:///etc/passwd',
    'http://example.com/',
    'data:text/html,x',
    'ms-msdt:/id',
    'https://bank.example@evil.example/',
    '//evil.example',
    7,
  ])('with the page %s reaches no one', async (url) => {
    const { client, ask, asked } = await behind(code)
    const result = await ask('elicitation/create', page(url))
    if (era === '2025') expect(JSON.parse(result.content[0].text)).toMatchObject({ code: -32602 })
    else expect(result.isError).toBe(true)
    expect(asked).toEqual([])
    await client.close()
  })

  it.each([
    page('javascript:alert(1)', { mode: 'URL' }),
    page('javascript:alert(1)', { mode: 'form', requestedSchema: form.requestedSchema }),
    { ...form, message: { text: 'Your name?' } },
  ])('that is neither a form nor a page, such as %j, reaches no one', async (params) => {
    const { client, ask, asked } = await behind(code)
    await ask('elicitation/create', params)
    expect(asked).toEqual([])
    await client.close()
  })

  it('names the real host of a page', async () => {
    const { client, ask, asked } = await behind(code)
    await ask('elicitation/create', page('https://gіthub.com/login?next=https://github.com'))
    expect(asked[0]?.params).toMatchObject({
      message: 'gh: Log in (opens a page at xn--gthub-n2e.com)',
      url: 'https://xn--gthub-n2e.com/login?next=https://github.com',
    })
    await client.close()
  })
})
