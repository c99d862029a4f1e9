import { describe, expect, it } from 'vitest'
import { readOnly } from '../../src/core/read-only.ts'

const refused = (attempt: () => unknown): unknown => {
  try {
    attempt()
  } catch (error) {
    return (error as { code?: unknown }).code
  }
  return 'done'
}

describe('a read-only view', () => {
  const make = () => {
    const kept = new Map([['a', { n: 1 }]])
    const host = {
      x: { list: [{ n: 1 }], when: new Date(0) },
      kept,
      kv: { get: async (key: string) => kept.get(key), set: async () => 'written', list: () => [...kept.keys()] },
      getAndWipe: () => 'wiped',
      settle: () => 'settled',
    }
    // biome-ignore lint/suspicious/noExplicitAny: what the types forbid is tried
    return { host, seen: readOnly(host) as any }
  }

  it('reads like the value itself, at any depth', async () => {
    const { host, seen } = make()
    expect(seen.x.list[0].n).toBe(1)
    expect(JSON.stringify(seen.x)).toBe(JSON.stringify(host.x))
    expect(seen.x.list.map(({ n }: { n: number }) => n + 1)).toEqual([2])
    expect([Array.isArray(seen.x.list), 'kv' in seen, Object.keys(seen.x), [...seen.x.list].length]).toEqual([
      true,
      true,
      ['list', 'when'],
      1,
    ])
    expect(seen.kept.get('a').n).toBe(1)
    expect((await seen.kv.get('a')).n).toBe(1)
    expect(seen.x.when.getTime()).toBe(0)
  })

  it('rejects changes at any depth', async () => {
    const { host, seen } = make()
    const attempts = [
      () => {
        seen.y = 1
      },
      () => {
        seen.x.list[0].n = 2
      },
      () => seen.x.list.push(1),
      () => delete seen.x.list,
      () => Object.defineProperty(seen.x, 'list', { value: 1 }),
      () => Object.setPrototypeOf(seen, null),
      () => Object.freeze(seen.x),
      () => Object.assign(seen.kv, { get: 1 }),
      () => seen.kv.set('a', 1),
      () => seen.kept.set('b', 1),
      () => seen.kept.clear(),
      () => seen.settle(),
    ]
    expect(attempts.map(refused)).toEqual(attempts.map(() => 'E_READ_ONLY_CONTRACT'))
    const kept = await seen.kv.get('a')
    expect(
      refused(() => {
        kept.n = 3
      }),
    ).toBe('E_READ_ONLY_CONTRACT')
    expect(host.x.list).toEqual([{ n: 1 }])
    expect(host.kept.get('a')).toEqual({ n: 1 })
  })

  it('allows all function calls if the author is trusted with them', () => {
    const tools = readOnly({ format: (text: string) => `<${text}>` }, 'all')
    expect(tools.format('x')).toBe('<x>')
  })
})
