import { afterEach, describe, expect, it, vi } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { silentLog } from '../../src/core/log.ts'
import { createRoaming } from '../../src/server/roaming.ts'
import { createMemoryStore } from '../../src/state/memory.ts'
import { ask, call, manualClock, open, readUntil, type Started, start, until } from './echo.ts'

const running: Started[] = []
afterEach(async () => {
  await Promise.all(running.splice(0).map((server) => server.close()))
})

/** Servers that share a store and hear each other, as over Redis. */
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
        tell: (topic: string, text: string) => {
          for (const ear of ears) if (ear.who !== who && ear.topic === topic) setImmediate(() => ear.hear(text))
        },
        hear: (topic: string, hear: (text: string) => void) => void ears.push({ who, topic, hear }),
      }
      const roaming = createRoaming({ shared, clock, log: silentLog, idleMs })
      return start(clock, { roaming, set: { sessionIdleMs: idleMs } })
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
  it('is carried on by one that did not open it, as the client it was opened for', async () => {
    const { servers } = await fleet(3)
    const headers = await openAt(servers[0])
    for (const { url } of servers)
      expect((await ask(url, { headers, body: call(5, 'echo', { text: 'hi' }) })).json.result).toEqual({
        content: [{ type: 'text', text: 'hi' }],
      })
    expect(servers.map(({ echo }) => echo.servers[0]?.getClientVersion()?.name)).toEqual(['roamer', 'roamer', 'roamer'])
    expect(servers.map((server) => server.sessions().streamable)).toEqual([1, 1, 1])
  })

  it('is taken up once, however many requests come at the same time', async () => {
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

  it('is nobody else’s, and an unknown one stays unknown', async () => {
    const { servers, store } = await fleet(2)
    const headers = await openAt(servers[0])
    const [row] = await store.table('session').list()
    await store.table('session').put({ id: String(row?.id), owner: 'eve', value: row?.value })
    expect((await ask(servers[1].url, { headers, body: ping })).status).toBe(404)
    expect((await ask(servers[1].url, { headers: { 'mcp-session-id': 'none' }, body: ping })).status).toBe(404)
  })

  it('ends everywhere when its client ends it at any', async () => {
    const { servers, store } = await fleet(3)
    const headers = await openAt(servers[0])
    await ask(servers[1].url, { headers, body: ping })
    expect((await ask(servers[2].url, { method: 'DELETE', headers })).status).toBe(200)
    await until(() => servers.every((server) => server.sessions().streamable === 0))
    expect(await store.table('session').count()).toBe(0)
    for (const { url } of servers) expect((await ask(url, { headers, body: ping })).status).toBe(404)
  })

  it('has nothing kept of it that is longer than a setting is, whatever its client sends', async () => {
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

  it('hears an answer that is sent to another server than the one that asked', async () => {
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

  it('says so at once when its client has no stream where something is to be asked', async () => {
    const { servers } = await fleet(2)
    const headers = await openAt(servers[0])
    const stream = await open(servers[0].url, { method: 'GET', headers })
    const refused = await ask(servers[1].url, { headers, body: call(3, 'ask') })
    expect(refused.json.error?.message).toBe('The client has no stream open to be asked on')
    stream.destroy()
  })

  it('cancels a call that runs at another server', async () => {
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

  it('tells on its one stream what any of them has to tell', async () => {
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

  it('lasts as long as any of them is asked, and not much longer', async () => {
    const clock = manualClock()
    const { servers, store } = await fleet(2, { clock, idleMs: 1_000 })
    const headers = await openAt(servers[0])
    for (let n = 0; n < 10; n++) {
      clock.advance(400)
      expect((await ask(servers[1].url, { headers, body: ping })).status).toBe(200)
    }
    expect(servers[0].sessions().streamable).toBe(0)
    expect((await ask(servers[0].url, { headers, body: ping })).status).toBe(200)
    clock.advance(3_000)
    expect(await store.table('session').count()).toBe(0)
    expect((await ask(servers[1].url, { headers, body: ping })).status).toBe(404)
  })

  it('goes on where it is while nothing can be looked up, and is shared afterwards', async () => {
    const clock = manualClock()
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
    clock.advance(300)
    for (const headers of [early, late]) expect((await ask(servers[0].url, { headers, body: ping })).status).toBe(200)
    for (const headers of [early, late]) expect((await ask(servers[1].url, { headers, body: ping })).status).toBe(200)
  })
})
