import { describe, expect, it } from 'vitest'
import { localCaller } from '../../src/core/context.ts'
import { createLists, listBytes } from '../../src/server/lists.ts'
import { piecesOf } from '../../src/server/pieces.ts'
import type { ListedTool } from '../../src/view/listing.ts'
import { heldMiB } from '../memory.ts'

const exposure = () => ({ mode: 'direct', why: '', tools: 0, tokens: 0, budgetTokens: 0, estimator: 'flat' }) as const
const listOf = (text: string, tools = 50): ListedTool[] =>
  Array.from({ length: tools }, (_, n) => ({ name: `t${n}`, description: text, inputSchema: { type: 'object' } }))
const rig = (lists: Readonly<Record<string, readonly ListedTool[]>>, maxBytes?: number) =>
  createLists({ list: ({ profile }) => lists[profile] ?? [] }, exposure, maxBytes)
const textOf = (message: object): string => piecesOf(message).map(String).join('')

describe('a list of tools', () => {
  it('is written as bytes that are made once, with whatever else the answer says', () => {
    const a = listOf('Ünï')
    const of = (profile: string) => rig({ a }).of({ ...localCaller, profile })
    const list = of('a')
    expect(list).toBe(a)
    expect(listBytes(list)).toBe(listBytes(list))
    for (const result of [{ tools: list }, { tools: list, ttlMs: 5, _meta: { a: 1 } }])
      expect(JSON.parse(textOf({ jsonrpc: '2.0', id: 'x"', result }))).toEqual({ jsonrpc: '2.0', id: 'x"', result })
    expect(piecesOf({ jsonrpc: '2.0', id: 1, result: { tools: list } })[1]).toBe(listBytes(list))
  })

  it('is forgotten first where it was not asked for the longest', () => {
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

  it('that nobody can ask for any more takes no memory', async () => {
    let now: ListedTool[] = []
    const lists = createLists({ list: () => now }, exposure)
    const before = heldMiB()
    for (let change = 0; change < 50; change++) {
      now = listOf(`${change} `.repeat(2_000))
      expect(listBytes(lists.of(localCaller))?.length).toBeGreaterThan(200_000)
    }
    // What was made in a turn lives to its end, and what it held to the next collection.
    await expect.poll(() => heldMiB() - before, { timeout: 5_000 }).toBeLessThan(5)
  })

  it('is not kept where it is short', () => {
    expect(listBytes(rig({ default: listOf('few', 49) }).of(localCaller))).toBeUndefined()
  })

  it('that cannot be written is an error, and the client is not left waiting', () => {
    let deep: object = {}
    for (let n = 0; n < 20_000; n++) deep = { deep }
    const list = rig({ default: listOf('').map((tool) => ({ ...tool, inputSchema: deep as never })) }).of(localCaller)
    expect(JSON.parse(textOf({ jsonrpc: '2.0', id: 7, result: { tools: list } }))).toMatchObject({
      id: 7,
      error: { code: -32603 },
    })
  })
})
