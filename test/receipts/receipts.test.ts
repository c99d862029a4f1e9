import { describe, expect, it } from 'vitest'
import { localCaller } from '../../src/core/caller.ts'
import { createLog, silentLog } from '../../src/core/log.ts'
import { isDailyCounts } from '../../src/receipts/daily-counts.ts'
import { createReceipts, type Definitions, type Entry } from '../../src/receipts/receipts.ts'
import type { TokenCounter } from '../../src/receipts/token-counter.ts'
import { createMemoryStore } from '../../src/state/memory-store.ts'
import { createManualClock } from '../clock.ts'

const DAY = 24 * 60 * 60_000
const NOON = Date.parse('2026-11-28T12:00:00Z')
const ann = { ...localCaller, principal: 'ann', session: 's1', client: { name: 'cursor', version: '1' } }

/** Counts words; the estimate is one too high for each text. */
function wordCounter(): TokenCounter & { batches: number } {
  return {
    batches: 0,
    isRunning: true,
    async count(texts) {
      this.batches++
      return texts.map((text) => ({ exact: text.split(' ').length, estimate: text.split(' ').length + 1 }))
    },
    close: () => undefined,
  }
}

const words = (count: number): string => 'w '.repeat(count).trim()
const definitions = (count: number, scale = 1): Definitions => ({ key: {}, texts: () => [words(count)], scale })
const search: Entry = { kind: 'search', tool: 'search_tools', texts: [words(30)], isCall: true, isOwn: true }
const list = (shown: Definitions, all: Definitions): Entry => ({
  kind: 'menu',
  tool: '',
  texts: [words(10)],
  list: { shown, all: () => all },
})

function open(logged: string[] = [], counter: TokenCounter = wordCounter()) {
  const clock = createManualClock(NOON)
  return { clock, receipts: createReceipts({ clock, log: createLog((line) => logged.push(line), 'info'), counter }) }
}

describe('receipts', () => {
  it('compare what was spent with what direct exposure costs', async () => {
    const { receipts } = open()
    const read = definitions(50)
    receipts.list(ann, () => list(definitions(90), definitions(1_000)))
    receipts.call(ann, 0, () => search)
    const result: Entry = { kind: 'results', tool: 'files.read', texts: [words(20)], isCall: true, definition: read }
    receipts.call(ann, 0, () => ({ ...result, whole: 400 }))
    receipts.call(ann, 0, () => result)
    receipts.call(ann, 0, () => ({ ...result, kind: 'retries', texts: [words(5), words(7)], isFailure: true }))
    const { total, rows } = await receipts.report({ by: 'tool' })
    expect(total).toEqual({
      sessions: 1,
      calls: 4,
      failures: 1,
      tokens: 182,
      by: { menu: 100, search: 30, schemas: 0, results: 40, retries: 12 },
      direct: 1_432,
      saved: 0.873,
    })
    expect(rows.map(({ name, calls, tokens, direct }) => [name, calls, tokens, direct])).toEqual([
      ['(lists of tools)', 0, 100, 950],
      ['files.read', 3, 52, 482],
      ['search_tools', 1, 30, 0],
    ])
    expect((await receipts.session(ann))?.tokens).toBe(182)
  })

  it('count a list once for a session, and what a later list has more', async () => {
    const { receipts } = open()
    const all = definitions(1_000)
    for (const size of [90, 90, 120, 60]) {
      receipts.list(ann, () => list(definitions(size), all))
      receipts.call(ann, 0, () => search)
    }
    const { total } = await receipts.report({ by: 'day' })
    expect([total.sessions, total.by.menu, total.direct]).toEqual([1, 130, 1_000])
  })

  it('do not count sessions without a call', async () => {
    const logged: string[] = []
    const { receipts } = open(logged)
    receipts.list(ann, () => list(definitions(90), definitions(90)))
    expect((await receipts.report({ by: 'day' })).rows).toEqual([])
    await receipts.stop()
    expect(logged).toEqual([])
  })

  it('say what was counted and how far the estimate is off', async () => {
    const { receipts } = open()
    receipts.call(ann, 0, () => ({ kind: 'results', tool: 'a.b', texts: [words(10)], isCall: true }))
    receipts.call(ann, 0, () => ({ kind: 'results', tool: 'a.b', texts: [], more: 30, isCall: true }))
    expect(await receipts.report({ by: 'client' })).toMatchObject({
      tokenizer: 'o200k',
      counted: 0.25,
      estimate_error: 0.1,
      rows: [{ name: 'cursor', tokens: 40 }],
    })
  })

  it('extrapolate long lists', async () => {
    const { receipts } = open()
    receipts.list(ann, () => list(definitions(10), definitions(100, 20)))
    receipts.call(ann, 0, () => search)
    expect((await receipts.report({ by: 'day' })).total.direct).toBe(2_000)
  })

  it('count nothing while calls run: all of ten seconds together', async () => {
    const counter = wordCounter()
    const { receipts, clock } = open([], counter)
    for (let n = 0; n < 20; n++) receipts.call(ann, 0, () => search)
    clock.pass(9_999)
    expect(counter.batches).toBe(0)
    clock.pass(1)
    await receipts.session(ann)
    expect(counter.batches).toBe(1 + 1)
    expect((await receipts.report({ by: 'tool' })).total.calls).toBe(20)
  })

  it('estimate a flood of calls instead of keeping it', async () => {
    const { receipts } = open([], { ...wordCounter(), count: () => new Promise(() => undefined) })
    for (let n = 0; n < 500; n++) receipts.call(ann, 0, () => search)
    await Promise.resolve()
    await Promise.resolve()
    for (let n = 0; n < 500; n++) receipts.call(ann, 0, () => search)
    expect(receipts.sums.calls).toBe(500)
    expect(receipts.sums.estimated).toBeGreaterThan(0)
  })

  it('count the first calls of a flood, and estimate the others', async () => {
    const { receipts } = open()
    for (let n = 0; n < 800; n++) receipts.call(ann, 0, () => search)
    expect(receipts.sums.calls).toBe(300)
    await receipts.report({ by: 'day' })
    const { calls, exact, estimated } = receipts.sums
    expect([calls, exact]).toEqual([800, 500 * 30])
    expect(estimated).toBeGreaterThan(300 * 20)
  })

  it('estimate a long result, and count the short ones around it', async () => {
    const { receipts } = open()
    const long: Entry = { kind: 'results', tool: 'a.b', texts: ['word '.repeat(60_000)], isCall: true }
    receipts.call(ann, 100, () => search)
    receipts.call(ann, 300_000, () => long)
    receipts.call(ann, 100, () => search)
    await receipts.report({ by: 'day' })
    expect(receipts.sums.exact).toBe(60)
    expect(receipts.sums.estimated).toBeGreaterThan(30_000)
  })

  it('attribute the definition of a tool that is first called in a flood', async () => {
    const { receipts, clock } = open()
    receipts.list(ann, () => list(definitions(90), definitions(1_000)))
    for (let n = 0; n < 500; n++) receipts.call(ann, 0, () => search)
    const call: Entry = { kind: 'results', tool: 'files.read', texts: [], isCall: true, definition: definitions(50) }
    receipts.call(ann, 0, () => call)
    clock.pass(10_000)
    await receipts.session(ann)
    receipts.call(ann, 0, () => call)
    const { rows } = await receipts.report({ by: 'tool' })
    expect(rows.find(({ name }) => name === 'files.read')).toMatchObject({ calls: 2, direct: 50 })
  })

  it('log what a session cost when it ends', async () => {
    const logged: string[] = []
    const { receipts, clock } = open(logged)
    receipts.list(ann, () => list(definitions(90), definitions(1_000)))
    receipts.call(ann, 0, () => search)
    receipts.call({ ...ann, session: 's2' }, 0, () => search)
    clock.pass(61_000)
    receipts.end('s1')
    await receipts.report({ by: 'day' })
    expect(logged.map((line) => JSON.parse(line))).toMatchObject([
      {
        level: 'info',
        message: 'session ended',
        client: 'cursor',
        principal: 'ann',
        seconds: 61,
        calls: 1,
        tokens: 130,
        menu_tokens: 100,
        search_tokens: 30,
        direct_tokens: 1_000,
        saved_percent: 87,
      },
    ])
    await receipts.stop()
    expect(logged).toHaveLength(2)
  })

  it('log a client without sessions at debug only', async () => {
    const logged: string[] = []
    const clock = createManualClock(NOON)
    const receipts = createReceipts({
      clock,
      log: createLog((line) => logged.push(line), 'debug'),
      counter: wordCounter(),
    })
    receipts.call({ ...localCaller, era: 'modern', client: { name: 'goose', version: '1' } }, 0, () => search)
    await receipts.stop()
    expect(logged.map((line) => JSON.parse(line))).toMatchObject([{ level: 'debug', message: 'session ended' }])
  })

  it('take calls of a client without sessions together until it pauses for an hour', async () => {
    const { receipts, clock } = open()
    const modern = { ...localCaller, era: 'modern' as const, client: { name: 'goose', version: '1' } }
    const call = (): void => {
      receipts.list(modern, () => list(definitions(90), definitions(1_000)))
      receipts.call(modern, 0, () => search)
    }
    call()
    clock.pass(59 * 60_000)
    call()
    expect((await receipts.report({ by: 'day' })).total.sessions).toBe(1)
    clock.pass(61 * 60_000)
    call()
    expect((await receipts.report({ by: 'day' })).total.sessions).toBe(2)
  })

  it('are kept by day, for all processes, without content', async () => {
    const { receipts, clock } = open()
    const store = createMemoryStore(clock)
    const table = () => store.table<never>('tokens', isDailyCounts)
    const other = createReceipts({ clock, log: silentLog, counter: wordCounter() })
    for (const one of [receipts, other]) {
      one.start(table)
      one.call(ann, 0, () => ({ ...search, texts: ['secret query'] }))
    }
    await receipts.report({ by: 'day' })
    await other.report({ by: 'day' })
    clock.pass(30_000)
    await receipts.stop()
    await other.stop()
    expect(JSON.stringify(await table().list())).not.toMatch(/secret|query/)
    clock.pass(DAY)
    const later = createReceipts({ clock, log: silentLog, counter: wordCounter() })
    later.start(table)
    later.call({ ...ann, principal: 'bob' }, 0, () => search)
    const by = async (principal?: string) =>
      (await later.report({ by: 'day', ...(principal ? { principal } : {}) })).rows.map(({ name, calls }) => [
        name,
        calls,
      ])
    expect(await by()).toEqual([
      ['2026-11-28', 2],
      ['2026-11-29', 1],
    ])
    expect(await by('bob')).toEqual([['2026-11-29', 1]])
    expect((await later.report({ by: 'day', days: 1 })).rows).toHaveLength(1)
    await later.stop()
  })

  it('are counted even if they cannot be stored, and stored later', async () => {
    const { receipts, clock } = open()
    const store = createMemoryStore(clock)
    let isAway = true
    receipts.start(() => {
      if (isAway) throw new Error('away')
      return store.table<never>('tokens')
    })
    receipts.call(ann, 0, () => search)
    expect((await receipts.report({ by: 'day' })).total.calls).toBe(1)
    clock.pass(30_000)
    expect((await receipts.report({ by: 'day' })).total.calls).toBe(1)
    isAway = false
    await receipts.stop()
    expect(await store.table('tokens').count()).toBe(1)
  })

  it('bound the names that clients choose', async () => {
    const { receipts } = open()
    for (let n = 0; n < 1_500; n++)
      receipts.call(
        { ...ann, client: { name: `client ${n} ${'x'.repeat(200)}`, version: '1' }, session: `s${n}` },
        0,
        () => search,
      )
    const { rows } = await receipts.report({ by: 'client' })
    expect(rows.length).toBe(1_001)
    expect(rows[0]?.name).toBe('other')
    expect(Math.max(...rows.map(({ name }) => name.length))).toBe(60)
  })
})
