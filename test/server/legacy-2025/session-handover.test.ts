import { afterEach, describe, expect, it, vi } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { silentLog } from '../../../src/core/log.ts'
import { createSessionHandover } from '../../../src/server/legacy-2025/session-handover.ts'
import { createProcessRpc } from '../../../src/server/process-rpc.ts'
import { createMemoryStore } from '../../../src/state/memory-store.ts'
import { createManualClock } from '../../clock.ts'
import { ask, call, open, readUntil, type Started, start, until } from '../echo.ts'

const running: Started[] = []
afterEach(async () => {
  await Promise.all(running.splice(0).map((server) => server.close()))
})

/** Servers that share a store and exchange messages, as over Redis. */
async function fleet(size: number, { clock = systemClock, idleMs = 60_000 } = {}) {
  const store = createMemoryStore(clock)
  const ears: Array<{ readonly who: number; readonly topic: string; hear(text: string): void }> = []
  let away = false
  const reach = () => {
    if (away) throw new Error('away')
    return store
  }
  const servers = await Promise.all(
    Array.from({ length: size }, (_, who) => {
      const shared = {
        store: () => ({
          ...store,
          table: <T>(kind: string) => {
            const table = store.table<T>(kind)
            return {
              ...table,
              get: async (id: string) => reach().table<T>(kind).get(id),
              put: async (...args: Parameters<typeof table.put>) =>
                reach()
                  .table<T>(kind)
                  .put(...args),
            }
          },
        }),
        publish: (topic: string, text: string) => {
          for (const ear of ears) if (ear.who !== who && ear.topic === topic) setImmediate(() => ear.hear(text))
        },
        subscribe: (topic: string, hear: (text: string) => void) => void ears.push({ who, topic, hear }),
      }
      const handover = createSessionHandover({ shared, clock, log: silentLog, idleMs })
      return start(clock, { handover, processes: createProcessRpc(shared, clock), set: { sessionIdleMs: idleMs } })
    }),
  )
  running.push(...servers)
  const cut = (now: boolean): void => {
    away = now
  }
  return { servers: servers as [Started, Started, Started], store, cut }
}

const initialize = {
  jsonrpc: '2.0',
  id: 0,
  method: 'initialize',
  params: {
    protocolVersion: '2025-11-25',
    capabilities: { elicitation: {} },
    clientInfo: { name: 'roamer', version: '1' },
  },
}

async function openAt({ url }: Started): Promise<Record<string, string>> {
  const { headers } = await ask(url, { body: initialize })
  return { 'mcp-session-id': String(headers['mcp-session-id']), 'mcp-protocol-version': '2025-11-25' }
}
const ping = { jsonrpc: '2.0', id: 'p', method: 'ping' }

describe('a session among several servers', () => {
  it("continues on a server that did not open it, with its client's identity", async () => {
    const { servers } = await fleet(3)
    const headers = await openAt(servers[0])
    for (const { url } of servers)
      expect((await ask(url, { headers, body: call(5, 'echo', { text: 'hi' }) })).json.result).toEqual({
        content: [{ type: 'text', text: 'hi' }],
      })
    expect(servers.map(({ echo }) => echo.servers[0]?.getClientVersion()?.name)).toEqual(['roamer', 'roamer', 'roamer'])
    expect(servers.map((server) => server.sessions().streamable)).toEqual([1, 1, 1])
  })

  it('is taken over once, however many requests arrive at the same time', async () => {
    const { servers } = await fleet(2)
    const headers = await openAt(servers[0])
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, id) =>
        ask(servers[1].url, { headers, body: call(id, 'echo', { text: `${id}` }) }),
      ),
    )
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200))
    expect(servers[1].echo.made).toHaveLength(1)
  })

  it('stays private, and an unknown one stays unknown', async () => {
    const { servers, store } = await fleet(2)
    const headers = await openAt(servers[0])
    const [row] = await store.table('session').list()
    await store.table('session').put({ id: String(row?.id), owner: 'eve', value: row?.value })
    expect((await ask(servers[1].url, { headers, body: ping })).status).toBe(404)
    expect((await ask(servers[1].url, { headers: { 'mcp-session-id': 'none' }, body: ping })).status).toBe(404)
  })

  it('ends everywhere when its client ends it anywhere', async () => {
    const { servers, store } = await fleet(3)
    const headers = await openAt(servers[0])
    await ask(servers[1].url, { headers, body: ping })
    expect((await ask(servers[2].url, { method: 'DELETE', headers })).status).toBe(200)
    await until(() => servers.every((server) => server.sessions().streamable === 0))
    expect(await store.table('session').count()).toBe(0)
    for (const { url } of servers) expect((await ask(url, { headers, body: ping })).status).toBe(404)
  })

  it('stores nothing longer than a setting, whatever its client sends', async () => {
    const { servers, store } = await fleet(2)
    const headers = await openAt(servers[0])
    const level = (value: string, id: number) => ({
      jsonrpc: '2.0',
      id,
      method: 'logging/setLevel',
      params: { level: value },
    })
    await ask(servers[0].url, { headers, body: level('x'.repeat(1_000_000), 1) })
    await ask(servers[0].url, { headers, body: level('error', 2) })
    const kept = async () => (await store.table<{ settings: unknown[] }>('session').list())[0]?.value.settings
    let settings: unknown
    await vi.waitFor(
      async () => {
        settings = await kept()
        expect(settings).toHaveLength(1)
      },
      { timeout: 15_000 },
    )
    expect(settings).toEqual([level('error', 2)])
  })

  it('gets an answer that was sent to another server than the one that asked', async () => {
    const { servers } = await fleet(2)
    const headers = await openAt(servers[0])
    for (const [n, { url }] of [...servers].entries()) {
      const stream = await open(url, { method: 'GET', headers })
      const answer = ask(url, { headers, body: call(n + 10, 'ask') })
      const said = await readUntil(stream, (text) => text.includes('elicitation/create'))
      const { id } = JSON.parse(/^data: (.*elicitation\/create.*)$/m.exec(said)?.[1] ?? '{}') as { id: unknown }
      const body = { jsonrpc: '2.0', id, result: { action: 'accept', content: { color: `green ${n}` } } }
      expect((await ask((servers[1 - n] as Started).url, { headers, body })).status).toBe(202)
      expect((await answer).text).toContain(`green ${n}`)
      stream.destroy()
    }
  })

  it('fails at once to ask if its client has no stream', async () => {
    const { servers } = await fleet(2)
    const headers = await openAt(servers[0])
    const stream = await open(servers[0].url, { method: 'GET', headers })
    const refused = await ask(servers[1].url, { headers, body: call(3, 'ask') })
    expect(refused.json.error?.message).toBe('The client has no open stream for questions')
    stream.destroy()
  })

  it('cancels a call that runs on another server', async () => {
    const { servers } = await fleet(2)
    const headers = await openAt(servers[0])
    await ask(servers[1].url, { headers, body: ping })
    const running = ask(servers[0].url, { headers, body: call(7, 'wait', { ms: 20_000 }) })
    await until(() => servers[0].echo.servers.length === 1)
    await new Promise((done) => setTimeout(done, 50))
    const body = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 7 } }
    expect((await ask(servers[1].url, { headers, body })).status).toBe(202)
    await until(() => servers[0].echo.aborted() === 1)
    void running
  })

  it('continues a broken stream, whichever server the client reaches', async () => {
    const { servers } = await fleet(3)
    const headers: Record<string, string> = { ...(await openAt(servers[0])), accept: 'text/event-stream' }
    const calling = { ...headers, accept: 'application/json, text/event-stream' }
    const stream = await open(servers[0].url, { headers: calling, body: call(7, 'wait', { ms: 3_000, text: 'späť' }) })
    const id = /^id: (.*)$/m.exec(await readUntil(stream, (text) => text.includes('\n\n')))?.[1] as string
    stream.destroy()
    const resume = (lastEventId: string, session = {}) =>
      ({ method: 'GET', headers: { ...headers, ...session, 'last-event-id': lastEventId } }) as const
    // The second stream breaks as well, and the client has no newer id.
    const second = await open(servers[1].url, resume(id))
    expect([second.statusCode, second.headers['mcp-session-id']]).toEqual([200, headers['mcp-session-id']])
    expect(await readUntil(second, (text) => text.includes('\n\n'))).toBe(`id: ${id}\ndata: \n\n`)
    second.destroy()
    const third = await ask(servers[2].url, resume(id))
    const [, last, text] = /^event: message\nid: (\S+)\ndata: (.*)\n\n$/m.exec(third.text) ?? []
    expect(JSON.parse(String(text)).result).toEqual({ content: [{ type: 'text', text: 'späť' }] })
    // Nothing more arrives, and no other session gets any of it.
    expect((await ask(servers[1].url, resume(String(last)))).status).toBe(204)
    const other = await openAt(servers[1])
    const none = await ask(servers[2].url, resume(id, other))
    expect([none.status, none.json.error?.message]).toEqual([400, 'Bad request: Last-Event-ID is not of this session'])
    expect(servers[0].echo.aborted()).toBe(0)
  })

  it('gets the messages of all servers on its one stream', async () => {
    const { servers } = await fleet(2)
    const headers = await openAt(servers[0])
    const stream = await open(servers[1].url, { method: 'GET', headers })
    await servers[0].echo.servers[0]?.notification({
      method: 'notifications/message',
      params: { level: 'info', data: 'from the first' },
    })
    expect(await readUntil(stream, (said) => said.includes('from the first'))).toContain('from the first')
    stream.destroy()
  })

  it('keeps its settings wherever they were made', async () => {
    const { servers, store } = await fleet(3)
    const levels: string[][] = servers.map(() => [])
    const headers = await openAt(servers[0])
    await ask(servers[1].url, { headers, body: ping })
    for (const [n, { echo }] of servers.entries())
      for (const server of echo.servers)
        server.setRequestHandler('logging/setLevel', ({ params }) => {
          levels[n]?.push(params.level)
          return {}
        })
    const body = { jsonrpc: '2.0', id: 3, method: 'logging/setLevel', params: { level: 'error' } }
    expect((await ask(servers[0].url, { headers, body })).json.result).toEqual({})
    await until(() => levels[1]?.[0] === 'error')
    expect(levels).toEqual([['error'], ['error'], []])
    expect(JSON.stringify(await store.table('session').list())).toContain('"level":"error"')
  })

  it('lives as long as any server uses it, and little longer', async () => {
    const clock = createManualClock()
    const { servers, store } = await fleet(2, { clock, idleMs: 1_000 })
    const headers = await openAt(servers[0])
    for (let n = 0; n < 10; n++) {
      clock.pass(400)
      expect((await ask(servers[1].url, { headers, body: ping })).status).toBe(200)
    }
    expect(servers[0].sessions().streamable).toBe(0)
    expect((await ask(servers[0].url, { headers, body: ping })).status).toBe(200)
    clock.pass(3_000)
    expect(await store.table('session').count()).toBe(0)
    expect((await ask(servers[1].url, { headers, body: ping })).status).toBe(404)
  })

  it('continues locally while the store is unavailable, and is shared afterwards', async () => {
    const clock = createManualClock()
    const { servers, cut } = await fleet(2, { clock, idleMs: 1_000 })
    const early = await openAt(servers[0])
    cut(true)
    const late = await openAt(servers[0])
    for (const headers of [early, late]) expect((await ask(servers[0].url, { headers, body: ping })).status).toBe(200)
    const refused = await ask(servers[1].url, { headers: late, body: ping })
    expect([refused.status, refused.headers['retry-after'], refused.json.error?.message]).toEqual([
      503,
      '2',
      'E_STATE_UNAVAILABLE: Sessions cannot be looked up now. Try again shortly.',
    ])
    cut(false)
    clock.pass(300)
    for (const headers of [early, late]) expect((await ask(servers[0].url, { headers, body: ping })).status).toBe(200)
    for (const headers of [early, late]) expect((await ask(servers[1].url, { headers, body: ping })).status).toBe(200)
  })
})
