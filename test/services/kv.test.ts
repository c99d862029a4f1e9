import { describe, expect, it } from 'vitest'
import { createKv, isKvDocument, type KvDocument } from '../../src/services/kv.ts'
import { createDocuments } from '../../src/state/document-store.ts'
import { temporaryFolder } from '../app.ts'
import { createManualClock } from '../clock.ts'

function stores({ dir = temporaryFolder(), maxBytes = 100_000 } = {}) {
  const clock = createManualClock(1_000_000)
  const documents = createDocuments<KvDocument>({ dir, isValue: isKvDocument, onBroken: () => undefined })
  const storeOf = createKv({ documents, clock, maxBytes })
  return { clock, dir, storeOf, kv: storeOf('default', 'notes') }
}

describe('the key-value store', () => {
  it('stores any JSON, also over a restart', async () => {
    const { kv, dir } = stores()
    await kv.set('a', { deep: [1, null, 'x'] })
    await kv.set('__proto__', 'a key like any other')
    expect(await kv.get('a')).toEqual({ deep: [1, null, 'x'] })
    expect(await kv.get('nothing')).toBeNull()
    const later = stores({ dir }).kv
    expect(await later.get('a')).toEqual({ deep: [1, null, 'x'] })
    expect(await later.get('__proto__')).toBe('a key like any other')
    expect(await later.keys('_')).toEqual(['__proto__'])
    expect(await later.del('a', 'nothing')).toBe(1)
    expect(await kv.get('a')).toBeNull()
  })

  it('counts without losing concurrent increments', async () => {
    const { kv } = stores()
    await Promise.all(Array.from({ length: 20 }, () => kv.incr('n')))
    expect(await kv.incr('n', -5)).toBe(15)
    await kv.set('word', 'x')
    await expect(kv.incr('word')).rejects.toMatchObject({
      code: 'E_VALIDATION',
      message: "The value of 'word' is no number.",
    })
  })

  it('stores without expiry, also over a restart', async () => {
    const { kv, clock, dir } = stores()
    await kv.set('ever', 1, { ttl: Number.POSITIVE_INFINITY })
    await kv.set('soon', 2, { ttl: 5 })
    expect(await kv.expire('soon', Number.POSITIVE_INFINITY)).toBe(true)
    clock.pass(1_000_000)
    const later = stores({ dir }).kv
    expect([await kv.get('ever'), await later.get('ever'), await later.get('soon')]).toEqual([1, 1, 2])
    await expect(kv.set('x', 1, { ttl: Number.NaN })).rejects.toMatchObject({ code: 'E_VALIDATION' })
  })

  it('updates values atomically, without losing concurrent changes', async () => {
    const { kv, clock } = stores()
    const add = (name: string) =>
      kv.update('names', (names) => {
        const longer = [...((names as string[] | null) ?? []), name]
        return { value: longer, result: longer.length }
      })
    const lengths = await Promise.all(['a', 'b', 'c'].map(add))
    expect(lengths.sort()).toEqual([1, 2, 3])
    expect(((await kv.get('names')) as string[]).toSorted()).toEqual(['a', 'b', 'c'])
    expect(await kv.update('names', () => ({ result: 'unchanged' }))).toBe('unchanged')
    expect(await kv.llen('names')).toBe(3)
    await expect(
      kv.update('names', () => {
        throw new Error('no')
      }),
    ).rejects.toThrow('no')
    await expect(kv.update('names', () => ({ value: () => 1, result: 0 }))).rejects.toMatchObject({
      code: 'E_VALIDATION',
    })
    expect(await kv.llen('names')).toBe(3)
    await kv.expire('names', 10)
    await add('d')
    clock.pass(11_000)
    expect(await kv.update('names', (names) => ({ result: names }))).toBeNull()
    await kv.set('gone', 1)
    await kv.update('gone', () => ({ value: null, result: undefined }))
    expect(await kv.keys()).toEqual([])
  })

  it('has lists with two ends', async () => {
    const { kv } = stores()
    expect(await kv.rpush('l', 'c', 'd')).toBe(2)
    expect(await kv.lpush('l', 'b', 'a')).toBe(4)
    expect(await kv.lrange('l', 0, -1)).toEqual(['a', 'b', 'c', 'd'])
    expect(await kv.lrange('l', 1, 2)).toEqual(['b', 'c'])
    expect([await kv.lpop('l'), await kv.rpop('l'), await kv.llen('l')]).toEqual(['a', 'd', 2])
    expect(await kv.lpop('none')).toBeNull()
  })

  it('removes expired values', async () => {
    const { kv, clock } = stores()
    await kv.set('short', 1, { ttl: 10 })
    await kv.set('long', 1)
    expect(await kv.expire('long', 20)).toBe(true)
    expect(await kv.expire('nothing', 20)).toBe(false)
    clock.pass(9_999)
    expect(await kv.get('short')).toBe(1)
    clock.pass(1)
    expect([await kv.get('short'), await kv.get('long')]).toEqual([null, 1])
    await kv.incr('long')
    clock.pass(10_000)
    expect(await kv.keys()).toEqual([])
  })

  it('is separate for each module and profile, except for shared data', async () => {
    const { storeOf, kv } = stores()
    await kv.set('a', 'own')
    await kv.shared.set('a', 'for all')
    const other = storeOf('default', 'other')
    expect([await other.get('a'), await other.shared.get('a')]).toEqual([null, 'for all'])
    const elsewhere = storeOf('guild', 'notes')
    expect([await elsewhere.get('a'), await elsewhere.shared.get('a')]).toEqual([null, null])
  })

  it('rejects what does not fit, and keeps what it has', async () => {
    const { kv } = stores({ maxBytes: 1_000 })
    await kv.set('a', 'x'.repeat(800))
    await expect(kv.set('b', 'x'.repeat(800))).rejects.toMatchObject({
      code: 'E_TOO_LARGE',
      hint: 'Delete keys that you no longer need, or raise services.maxBytes.',
    })
    expect(await kv.keys()).toEqual(['a'])
    await expect(kv.set('f', () => 1)).rejects.toMatchObject({ code: 'E_VALIDATION' })
    await expect(kv.set('', 1)).rejects.toMatchObject({ code: 'E_VALIDATION' })
  })
})
