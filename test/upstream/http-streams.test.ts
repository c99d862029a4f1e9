import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text as readText } from 'node:stream/consumers'
import { describe, expect, it } from 'vitest'
import type { Relay } from '../../src/core/tool.ts'
import { modern, type Rig, until, withHttpServer, withServers } from './host.ts'

interface Call {
  readonly name: string
  readonly id: unknown
  readonly stream: ServerResponse
}

/** A 2025-era server whose calls stay open, each on its own stream, until the test ends them. */
async function withOpenCalls(
  test: (
    rig: Rig,
    server: {
      readonly calls: Call[]
      /** The stream without a request. */
      readonly unrelated: () => ServerResponse | undefined
      /** Our answers to questions of the server. */
      readonly answers: unknown[]
      say(stream: ServerResponse, message: object, eventId?: string): void
      end(call: Call): void
    },
  ) => Promise<void>,
): Promise<void> {
  const calls: Call[] = []
  const answers: unknown[] = []
  let unrelated: ServerResponse | undefined
  const say = (stream: ServerResponse, message: object, eventId?: string): void => {
    const id = eventId === undefined ? '' : `id: ${eventId}\nretry: 1\n`
    stream.write(`${id}data: ${JSON.stringify({ jsonrpc: '2.0', ...message })}\n\n`)
  }
  const server = createServer(async (request, response) => {
    const stream = (): void => void response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
    if (request.method === 'GET') {
      stream()
      const last = request.headers['last-event-id']
      const call = calls.find(({ name }) => name === last)
      if (call) Object.assign(call, { stream: response })
      else unrelated = response
      return
    }
    if (request.method !== 'POST') return void response.writeHead(405).end()
    const { id, method, params, result } = JSON.parse(await readText(request))
    if (id === undefined || method === undefined) {
      if (method === undefined) answers.push(result)
      return void response.writeHead(202).end()
    }
    stream()
    if (method === 'tools/call') return void calls.push({ name: params.name, id, stream: response })
    const results: Record<string, object> = {
      initialize: {
        protocolVersion: '2025-11-25',
        capabilities: { tools: {}, logging: {} },
        serverInfo: { name: 'open', version: '1' },
      },
      'tools/list': { tools: ['ann', 'bob'].map((name) => ({ name, inputSchema: { type: 'object' } })) },
    }
    const answer = results[method] ? { result: results[method] } : { error: { code: -32601, message: 'no' } }
    say(response, { id, ...answer })
    response.end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  try {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`
    await withServers({ s: { url } }, (rig) =>
      test(rig, {
        calls,
        answers,
        unrelated: () => unrelated,
        say,
        end({ id, stream }) {
          say(stream, { id, result: { content: [{ type: 'text', text: 'done' }] } })
          stream.end()
        },
      }),
    )
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

/** A client with its messages and questions. */
function person() {
  const heard: unknown[] = []
  const asked: unknown[] = []
  const relay: Partial<Relay> = {
    clientCapabilities: { elicitation: {} },
    notify: (_method, params) => void heard.push((params as { data: unknown }).data),
    async request(_method, params) {
      asked.push((params as { message: unknown }).message)
      return { action: 'accept', content: {} }
    },
  }
  return { relay, heard, asked }
}

const log = (data: string) => ({ method: 'notifications/message', params: { level: 'info', data } })
const question = (id: number, message: string) => ({
  id,
  method: 'elicitation/create',
  params: { message, requestedSchema: { type: 'object', properties: {} } },
})

describe('calls of two clients at one server over HTTP', () => {
  /** Both calls are open at the server. */
  const both = async (
    { call }: Rig,
    calls: readonly Call[],
  ): Promise<{ ann: ReturnType<typeof person>; bob: ReturnType<typeof person>; done: Promise<unknown> }> => {
    const [ann, bob] = [person(), person()]
    const done = Promise.all([call('mcp_s.ann', {}, { relay: ann.relay }), call('mcp_s.bob', {}, { relay: bob.relay })])
    await until(() => calls.length === 2)
    return { ann, bob, done }
  }
  const of = (calls: readonly Call[], name: string): Call => calls.find((call) => call.name === name) as Call

  it('get the log messages of their own stream, and none of the other call', () =>
    withOpenCalls(async (rig, { calls, say, end }) => {
      const { ann, bob, done } = await both(rig, calls)
      say(of(calls, 'ann').stream, log('for Ann'))
      say(of(calls, 'bob').stream, log('for Bob'))
      for (const call of calls) end(call)
      await done
      expect([ann.heard, bob.heard]).toEqual([['for Ann'], ['for Bob']])
    }))

  it('get no message of a stream without a call, because its owner is unknown', () =>
    withOpenCalls(async (rig, { calls, answers, unrelated, say, end }) => {
      await until(() => unrelated() !== undefined)
      const { ann, bob, done } = await both(rig, calls)
      say(unrelated() as ServerResponse, log('for somebody'))
      say(unrelated() as ServerResponse, question(1, 'Somebody?'))
      await until(() => answers.length === 1)
      for (const call of calls) end(call)
      await done
      expect(answers).toEqual([{ action: 'cancel' }])
      expect([ann.heard, bob.heard, ann.asked, bob.asked]).toEqual([[], [], [], []])
    }))

  it('get their log messages on a resumed stream too', () =>
    withOpenCalls(async (rig, { calls, say, end }) => {
      const { ann, bob, done } = await both(rig, calls)
      const call = of(calls, 'ann')
      const { stream } = call
      say(stream, log('before'), 'ann')
      stream.end()
      await until(() => call.stream !== stream)
      say(call.stream, log('after'))
      for (const one of calls) end(one)
      await done
      expect([ann.heard, bob.heard]).toEqual([['before', 'after'], []])
    }))

  it('get the questions of their own stream, and not those of the other', () =>
    withOpenCalls(async (rig, { calls, answers, say, end }) => {
      const { ann, bob, done } = await both(rig, calls)
      say(of(calls, 'ann').stream, question(1, 'Ann?'))
      say(of(calls, 'bob').stream, question(2, 'Bob?'))
      await until(() => answers.length === 2)
      for (const call of calls) end(call)
      await done
      expect([ann.asked, bob.asked]).toEqual([['s: Ann?'], ['s: Bob?']])
      expect(answers).toEqual([
        { action: 'accept', content: {} },
        { action: 'accept', content: {} },
      ])
    }))

  it('get nothing from the stream of an abandoned call', () =>
    withOpenCalls(async ({ call }, { calls, say, end }) => {
      const [ann, bob] = [person(), person()]
      const gone = new AbortController()
      const given = call('mcp_s.ann', {}, { relay: ann.relay, signal: gone.signal })
      const done = call('mcp_s.bob', {}, { relay: bob.relay })
      await until(() => calls.length === 2)
      gone.abort()
      await expect(given).rejects.toMatchObject({ code: 'E_CANCELLED' })
      say(of(calls, 'ann').stream, log('for Ann'))
      end(of(calls, 'bob'))
      await done
      expect([ann.heard, bob.heard]).toEqual([[], []])
    }))

  it('get their own log messages from a 2026-07-28 server', () =>
    withHttpServer(modern('--http', '--only'), /port (\d+)/, (port) =>
      withServers({ m: { url: `http://127.0.0.1:${port}/mcp` } }, async ({ call }) => {
        const [ann, bob] = [person(), person()]
        await Promise.all(
          [ann, bob].map(({ relay }, n) => call('mcp_m.meet', { text: n === 0 ? 'Ann' : 'Bob' }, { relay })),
        )
        expect([ann.heard, bob.heard]).toEqual([['Ann'], ['Bob']])
      }),
    ))
})
