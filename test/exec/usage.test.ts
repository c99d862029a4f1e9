import { describe, expect, it } from 'vitest'
import { silentLog } from '../../src/core/log.ts'
import { createUsage } from '../../src/exec/usage.ts'
import { createMemoryStore } from '../../src/state/memory-store.ts'
import { createManualClock } from '../clock.ts'

describe('tool usage', () => {
  it('is counted by tool and principal', () => {
    const usage = createUsage()
    for (let n = 0; n < 2_000; n++) usage.add('m.a', 'ada', 4, undefined)
    usage.add('m.a', 'ada', 100, 'E_TOOL_FAILED')
    usage.add('m.a', 'local', 1, undefined)
    expect(usage.counts('ada')).toEqual([{ tool: 'm.a', calls: 2_001, failures: 1, ms: 4 }])
    expect(usage.counts('nobody')).toEqual([])
    expect(['ada', 'local', 'nobody'].map((who) => usage.of(who)('m.a'))).toEqual([2_000, 1, 0])
  })

  it('survives the process, and adds up concurrent counts', async () => {
    const clock = createManualClock(1_000_000)
    const store = createMemoryStore(clock)
    const kept = { hasStored: true, table: () => store.table<never>('usage'), clock, log: silentLog }
    const [one, other] = [createUsage(), createUsage()]
    await Promise.all([one.start(kept), other.start(kept)])
    for (let n = 0; n < 3; n++) one.add('m.a', 'ada', 10, undefined)
    for (let n = 0; n < 2; n++) other.add('m.a', 'ada', 20, undefined)
    other.add('m.a', 'ada', 5, 'E_TIMEOUT')
    other.add('m.b', 'bob', 1, undefined)
    await Promise.all([one.stop(), other.stop()])
    const later = createUsage()
    await later.start(kept)
    expect(later.counts('ada')).toEqual([{ tool: 'm.a', calls: 6, failures: 1, ms: 14 }])
    expect([later.of('ada')('m.a'), later.of('bob')('m.b'), later.of('ada')('m.b')]).toEqual([5, 1, 0])
    later.add('m.a', 'ada', 14, undefined)
    clock.pass(30_000)
    await later.stop()
    const last = createUsage()
    await last.start(kept)
    expect(last.of('ada')('m.a')).toBe(6)
  })

  it('is counted even if it cannot be stored', async () => {
    const clock = createManualClock()
    const usage = createUsage()
    const away = (): never => {
      throw new Error('away')
    }
    await usage.start({ hasStored: false, table: away, clock, log: silentLog })
    usage.add('m.a', 'ada', 1, undefined)
    clock.pass(30_000)
    await usage.stop()
    expect(usage.of('ada')('m.a')).toBe(1)
  })
})
