import { describe, expect, it } from 'vitest'
import { localCaller } from '../../src/core/caller.ts'
import { piecesOf } from '../../src/server/json-pieces.ts'
import { createListCache, listBytes } from '../../src/server/list-cache.ts'
import type { ListedTool } from '../../src/view/listed-tools.ts'
import { heldMiB } from '../memory.ts'

const exposure = () => ({ mode: 'direct', why: '', tools: 0, tokens: 0, budgetTokens: 0, estimator: 'flat' }) as const
const listOf = (text: string, tools = 50): ListedTool[] =>
  Array.from({ length: tools }, (_, n) => ({ name: `t${n}`, description: text, inputSchema: { type: 'object' } }))
const rig = (lists: Readonly<Record<string, readonly ListedTool[]>>, maxBytes?: number) =>
  createListCache({ list: ({ profile }) => lists[profile] ?? [] }, exposure, maxBytes)
const textOf = (message: object): string => piecesOf(message).map(String).join('')

describe('a list of tools', () => {
  it('is serialized once, and combined with the rest of the answer', () => {
    const a = listOf('Ünï')
    const of = (profile: string) => rig({ a }).of({ ...localCaller, profile })
    const list = of('a')
    expect(list).toBe(a)
    expect(listBytes(list)).toBe(listBytes(list))
    for (const result of [{ tools: list }, { tools: list, ttlMs: 5, _meta: { a: 1 } }])
      expect(JSON.parse(textOf({ jsonrpc: '2.0', id: 'x"', result }))).toEqual({ jsonrpc: '2.0', id: 'x"', result })
    expect(piecesOf({ jsonrpc: '2.0', id: 1, result: { tools: list } })[1]).toBe(listBytes(list))
  })

  it('is dropped when it was unused the longest', () => {
    const all = { a: listOf('a'.repeat(400)), b: listOf('b'.repeat(400)), c: listOf('c'.repeat(400)) }
    const lists = rig(all, 60_000)
    const bytes = (profile: string) => listBytes(lists.of({ ...localCaller, profile }))
    const [a, b] = [bytes('a'), bytes('b')]
    expect(bytes('a')).toBe(a)
    bytes('c')
    expect(bytes('a')).toBe(a)
    expect(bytes('b')).not.toBe(b)
    expect(bytes('b')?.equals(b as Buffer)).toBe(true)
  })

  it('is freed when no caller can request it any more', async () => {
    let now: ListedTool[] = []
    const lists = createListCache({ list: () => now }, exposure)
    const before = heldMiB()
    for (let change = 0; change < 50; change++) {
      now = listOf(`${change} `.repeat(2_000))
      expect(listBytes(lists.of(localCaller))?.length).toBeGreaterThan(200_000)
    }
    // Objects of a turn live until its end, and their memory until the next collection.
    await expect.poll(() => heldMiB() - before).toBeLessThan(5)
  })

  it('is not cached if short', () => {
    expect(listBytes(rig({ default: listOf('few', 49) }).of(localCaller))).toBeUndefined()
  })

  it('that cannot be serialized becomes an error, so that the client is not left waiting', () => {
    let deep: object = {}
    for (let n = 0; n < 20_000; n++) deep = { deep }
    const list = rig({ default: listOf('').map((tool) => ({ ...tool, inputSchema: deep as never })) }).of(localCaller)
    expect(JSON.parse(textOf({ jsonrpc: '2.0', id: 7, result: { tools: list } }))).toMatchObject({
      id: 7,
      error: { code: -32603 },
    })
  })
})
