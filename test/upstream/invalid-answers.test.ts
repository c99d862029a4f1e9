import { PassThrough } from 'node:stream'
import { text as readText } from 'node:stream/consumers'
import { expect, it, onTestFinished } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { noRelay } from '../../src/core/tool.ts'
import { serveOnStdio } from '../../src/server/serve-stdio.ts'
import { type Answer, startApp } from '../app.ts'
import { count } from '../count.mjs'
import { scripted, withServers } from './host.ts'
import { listenOnFreePort } from './oauth/oauth-servers.ts'

const TEXT = '"content":[{"type":"text","text":"said"}]'
const nested = (levels: number): string => `${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`
const long = 'x'.repeat(20_000)

/** Answers of a server, and the caller's result: a code, or a part of the line. */
const LIES: ReadonlyArray<readonly [what: string, result: string, heard: string]> = [
  ['no result', 'null', 'E_UPSTREAM_PROTOCOL'],
  ['a list', '[]', 'E_UPSTREAM_PROTOCOL'],
  ['a text', '"x"', 'E_UPSTREAM_PROTOCOL'],
  ['_meta as a text', `{${TEXT},"_meta":"x"}`, 'E_UPSTREAM_PROTOCOL'],
  ['_meta as a list', `{${TEXT},"_meta":[1]}`, 'E_UPSTREAM_PROTOCOL'],
  ['_meta as a list, in a long answer', `{${TEXT},"_meta":[1],"x":"${long}"}`, 'E_UPSTREAM_PROTOCOL'],
  ['success as a text', `{${TEXT},"isError":"no"}`, 'E_UPSTREAM_PROTOCOL'],
  ['content that is no list', '{"content":{}}', 'E_UPSTREAM_PROTOCOL'],
  ['a picture without data', '{"content":[{"type":"image"}]}', 'E_UPSTREAM_PROTOCOL'],
  [
    'a picture without a kind, in a long answer',
    `{"content":[{"type":"image","data":"${long}"}]}`,
    'E_UPSTREAM_PROTOCOL',
  ],
  ['sound that is none', '{"content":[{"type":"audio","data":"#","mimeType":"audio/wav"}]}', 'E_UPSTREAM_PROTOCOL'],
  ['a resource that is none', '{"content":[{"type":"resource","resource":null}]}', 'E_UPSTREAM_PROTOCOL'],
  [
    'the same in a long answer',
    `{"content":[{"type":"resource"},{"type":"text","text":"${long}"}]}`,
    'E_UPSTREAM_PROTOCOL',
  ],
  ['a link to nowhere', '{"content":[{"type":"resource_link","uri":{},"name":[]}]}', 'E_UPSTREAM_PROTOCOL'],
  ['notes that are no object', '{"content":[{"type":"text","text":"a","annotations":7}]}', 'E_UPSTREAM_PROTOCOL'],
  ['a question', '{"resultType":"input_required","inputRequests":{}}', 'E_UPSTREAM_PROTOCOL'],
  ['a kind of result nobody knows', `{"resultType":{"a":1},${TEXT}}`, 'E_UPSTREAM_PROTOCOL'],
  ['depth', `{${TEXT},"structuredContent":${nested(20_000)}}`, 'cannot be sent as JSON'],
  ['no JSON', `{${TEXT},"structuredContent":{"n":NaN}}`, 'E_TIMEOUT'],
  ['a long number', `{${TEXT},"structuredContent":{"n":1234567890123456789}}`, '"n":1234567890123456789'],
  [
    'one beside a key twice',
    `{${TEXT},"structuredContent":{"n":1234567890123456789,"a":1,"a":2}}`,
    '"n":"1234567890123456789"',
  ],
  [
    'one beside what nobody sees',
    `{${TEXT},"structuredContent":{"n":-9007199254740993,"a":"\u202e 1234567890123456789"}}`,
    '"n":"-9007199254740993"',
  ],
  [
    'a long fraction',
    `{${TEXT},"structuredContent":{"n":0.1234567890123456789,"a":1,"a":2}}`,
    '"n":0.12345678901234568',
  ],
  [
    'names of what every object has',
    `{${TEXT},"then":{},"toJSON":1,"constructor":1,"structuredContent":{"toJSON":5}}`,
    'said',
  ],
  ['half a pair', '{"content":[{"type":"text","text":"\\ud800 said"}]}', 'said'],
]

it('whatever a server answers, its caller gets a result or an error, and the next call is answered', async () => {
  const { app } = await startApp({
    exposure: { mode: 'direct' },
    mcpServers: { s: { ...scripted(), timeoutMs: 2_000, start: 'background' } },
  })
  await app.settled(20_000)
  const [up, down] = [new PassThrough(), new PassThrough()]
  const connection = serveOnStdio({ host: app.server, clock: systemClock, input: up, output: down })
  onTestFinished(() => connection.close())
  const lines: string[] = []
  let rest = ''
  down.setEncoding('utf8').on('data', (chunk: string) => {
    const parts = (rest + chunk).split('\n')
    rest = parts.pop() ?? ''
    lines.push(...parts)
  })
  const send = (message: object): void => void up.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
  const line = async (id: number): Promise<string> => {
    for (const end = Date.now() + 15_000; Date.now() < end; await new Promise((done) => setTimeout(done, 5))) {
      const found = lines.find((one) => (JSON.parse(one) as Answer).id === id)
      if (found !== undefined) return found
    }
    throw new Error(`nothing was heard of ${id}`)
  }
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } }
  send({ id: 0, method: 'initialize', params })
  await line(0)
  for (const [at, [what, json, heard]] of LIES.entries()) {
    count('fault', what)
    send({ id: 2 * at + 1, method: 'tools/call', params: { name: 's__answer', arguments: { json } } })
    expect(await line(2 * at + 1), what).toContain(heard)
    send({ id: 2 * at + 2, method: 'tools/call', params: { name: 's__echo', arguments: { text: 'still here' } } })
    expect(await line(2 * at + 2), what).toContain('still here')
  }
  expect(({} as Answer).isAdmin).toBeUndefined()
}, 60_000)

const TAGS = [...'obey'].map((letter) => String.fromCodePoint(0xe0000 + (letter.codePointAt(0) as number))).join('')

/** Answers to other requests, and the result; `undefined` if no client could read it. */
const OTHER_LIES: ReadonlyArray<readonly [method: string, result: object, made?: object]> = [
  ['resources/read', {}],
  ['resources/read', { contents: {} }],
  ['resources/read', { contents: [null] }],
  ['resources/read', { contents: [{ uri: 7, text: 'x' }] }],
  ['resources/read', { contents: [{ uri: 'a:b' }] }],
  ['resources/read', { contents: [{ uri: 'a:b', blob: '#' }] }],
  ['resources/read', { contents: [{ uri: 'a:b', text: 'x', mimeType: 7 }] }],
  ['resources/read', { contents: [{ uri: 'a:b', text: 'x', _meta: [] }] }],
  [
    'resources/read',
    { contents: [{ uri: 'a:b', text: `said${TAGS}\u202e`, own: 1 }], more: 1 },
    { contents: [{ uri: 'a:b', text: 'said', own: 1 }], more: 1 },
  ],
  ['prompts/get', {}],
  ['prompts/get', { messages: 'x' }],
  ['prompts/get', { messages: [{ role: 'system', content: { type: 'text', text: 'x' } }] }],
  ['prompts/get', { messages: [{ role: 'user', content: 'x' }] }],
  ['prompts/get', { messages: [{ role: 'user', content: { type: 'image', data: '#', mimeType: 'image/png' } }] }],
  ['prompts/get', { description: 7, messages: [] }],
  [
    'prompts/get',
    { messages: [{ role: 'user', content: { type: 'text', text: `said${TAGS}` }, own: 1 }] },
    { messages: [{ role: 'user', content: { type: 'text', text: 'said' }, own: 1 }] },
  ],
  ['completion/complete', {}],
  ['completion/complete', { completion: { values: [7] } }],
  ['completion/complete', { completion: { values: ['a'] } }, { completion: { values: ['a'] } }],
]

it("a server's answer for a resource, a prompt or a completion is valid for clients, or rejected", async () => {
  let said: object = {}
  const web = await listenOnFreePort(() => async (request, response) => {
    if (request.method !== 'POST') return void response.writeHead(405).end()
    const { id, method } = JSON.parse(await readText(request))
    if (id === undefined) return void response.writeHead(202).end()
    if (method === 'server/discover') return void response.writeHead(400).end()
    const result =
      method === 'initialize'
        ? {
            protocolVersion: '2025-11-25',
            capabilities: { resources: {}, prompts: {}, completions: {} },
            serverInfo: { name: 'liar', version: '1' },
          }
        : method.endsWith('/list')
          ? { resources: [], resourceTemplates: [], prompts: [] }
          : said
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ jsonrpc: '2.0', id, result }))
  })
  onTestFinished(() => web.close())
  await withServers({ s: { url: web.origin, allowPrivate: true, start: 'background' } }, async ({ catalog }) => {
    const endpoints = catalog.snapshot().owners.get('mcp_s')?.endpoints
    for (const [method, result, made] of OTHER_LIES) {
      count('fault', method)
      said = result
      const answer = await endpoints
        ?.request(method, { uri: 'a:b', name: 'p', ref: {} }, noRelay, new AbortController().signal)
        .catch(({ code }: { code: unknown }) => code)
      expect(answer, `${method} ${JSON.stringify(result)}`).toEqual(made ?? 'E_UPSTREAM_PROTOCOL')
    }
  })
}, 60_000)
