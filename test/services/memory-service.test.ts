import { describe, expect, it } from 'vitest'
import { localCaller, noOrigin } from '../../src/core/caller.ts'
import { defaultProfile } from '../../src/core/profile.ts'
import { createKv, isKvDocument, type KvDocument } from '../../src/services/kv.ts'
import { createMemory } from '../../src/services/memory-service.ts'
import { createDocuments } from '../../src/state/document-store.ts'
import { temporaryFolder } from '../app.ts'
import { createManualClock } from '../clock.ts'

const noFacts = {
  add: async () => ({ id: '', content: '', since: 0 }),
  list: async () => [],
  forget: async () => false,
}

function memories(dir = temporaryFolder()) {
  const clock = createManualClock(1_000)
  const documents = createDocuments<KvDocument>({ dir, isValue: isKvDocument, onBroken: () => undefined })
  const memoryOf = createMemory({
    facts: () => noFacts,
    storeOf: createKv({ documents, clock, maxBytes: 4 * 1024 * 1024 }),
    isAdmin: ({ roles }) => roles.includes('admin'),
    clock,
  })
  const of = (principal: string, roles: readonly string[] = [], profile = 'default') =>
    memoryOf({
      module: 'test',
      caller: { ...localCaller, principal, profile, roles, origin: { ...noOrigin, userId: principal } },
      profile: defaultProfile,
    })
  return { of, dir }
}

describe('the knowledge graph', () => {
  it('stores entities with their facts, under case-insensitive names [CTX-12]', async () => {
    const { of, dir } = memories()
    const { graph } = of('ada')
    await graph.addEntity({ name: 'Pegboard', type: 'project', observations: ['Is written in TypeScript.'] })
    expect(
      await graph.addEntity({ name: 'pegboard ', observations: ['Is a gateway.', 'Is written in TypeScript.'] }),
    ).toEqual({ name: 'Pegboard', type: 'project', observations: ['Is written in TypeScript.', 'Is a gateway.'] })
    expect(await graph.addRelation({ from: 'Bob', relation: 'works_on', to: 'PEGBOARD' })).toBe(true)
    expect(await graph.addRelation({ from: 'bob', relation: 'Works_on', to: 'pegboard' })).toBe(false)
    const again = memories(dir).of('ada').graph
    expect(await again.query('typescript')).toEqual({
      entities: [{ name: 'Pegboard', type: 'project', observations: ['Is written in TypeScript.', 'Is a gateway.'] }],
      relations: [{ from: 'Bob', relation: 'works_on', to: 'Pegboard' }],
    })
    // Another principal or profile has its own graph.
    expect(await of('bob').graph.query()).toEqual({ entities: [], relations: [] })
    expect(await of('ada', [], 'work').graph.query()).toEqual({ entities: [], relations: [] })
  })

  it('ranks names before facts, and returns the newest without a query [CTX-12]', async () => {
    const { graph } = memories().of('ada')
    await graph.addEntity({ name: 'A', observations: ['Likes red wine.'] })
    await graph.addEntity({ name: 'Red Lion', type: 'pub' })
    await graph.addEntity({ name: 'C' })
    const names = async (query?: string, limit?: number) =>
      (await graph.query(query, limit)).entities.map(({ name }) => name)
    expect(await names('red')).toEqual(['Red Lion', 'A'])
    expect(await names('pub')).toEqual(['Red Lion'])
    expect(await names('blue')).toEqual([])
    expect(await names()).toEqual(['C', 'Red Lion', 'A'])
    expect(await names('', 1)).toEqual(['C'])
  })

  it('finds neighbours, near and far, and removes an entity with its relations [CTX-12]', async () => {
    const { graph } = memories().of('ada')
    for (const [from, to] of [
      ['a', 'b'],
      ['b', 'c'],
      ['c', 'd'],
      ['x', 'y'],
    ] as const)
      await graph.addRelation({ from, relation: 'knows', to })
    const near = async (name: string, depth?: number) =>
      (await graph.neighbors(name, depth)).entities.map((entity) => entity.name)
    expect(await near('b')).toEqual(['a', 'b', 'c'])
    expect(await near('a', 2)).toEqual(['a', 'b', 'c'])
    expect(await near('nobody')).toEqual([])
    expect((await graph.neighbors('a')).relations).toEqual([{ from: 'a', relation: 'knows', to: 'b' }])
    expect(await graph.removeEntity('B')).toBe(true)
    expect(await graph.removeEntity('b')).toBe(false)
    expect((await graph.query()).relations).toHaveLength(2)
  })

  it('loses nothing with concurrent additions, and is limited in size', async () => {
    const { graph } = memories().of('ada')
    await Promise.all(Array.from({ length: 20 }, (_, index) => graph.addEntity({ name: `e${index}` })))
    expect((await graph.query('', 50)).entities).toHaveLength(20)
    for (const name of ['', ' '])
      await expect(graph.addEntity({ name })).rejects.toMatchObject({ code: 'E_VALIDATION' })
    const many = Array.from({ length: 150 }, (_, index) => `o${index}`)
    const { observations } = await graph.addEntity({ name: 'full', observations: many })
    expect([observations.length, observations.at(-1)]).toEqual([100, 'o149'])
  })
})

describe('threadweave', () => {
  const guild = { scope: 'guild', id: 'g1' } as const

  it('makes a text visible where it is attached, until it is detached [CTX-14]', async () => {
    const { of } = memories()
    const admin = of('root', ['admin']).threadweave
    const reader = of('ada').threadweave
    const { id } = await admin.vaultDna('House rules', 'Be kind.')
    expect(await reader.readDna([guild])).toEqual([])
    expect(await admin.weave('house RULES', guild)).toBe(true)
    expect(await admin.weave(id, guild)).toBe(false)
    const seen = [{ id, title: 'House rules', content: 'Be kind.', at: 1_000 }]
    expect(await reader.readDna([{ scope: 'channel', id: 'c1' }, guild])).toEqual(seen)
    expect(await reader.readDna([guild], 'House rules')).toEqual(seen)
    expect(await reader.readDna([{ scope: 'guild', id: 'g2' }], id)).toEqual([])
    // A channel with the name of the guild is a different place.
    expect(await reader.readDna([{ scope: 'channel', id: 'g1' }])).toEqual([])
    expect(await admin.vaultDna('HOUSE rules', 'Be very kind.')).toMatchObject({ id, content: 'Be very kind.' })
    expect(await admin.readDna([])).toEqual([])
    expect(await admin.unweave(id, guild)).toBe(true)
    expect(await admin.unweave(id, guild)).toBe(false)
    expect(await reader.readDna([guild])).toEqual([])
    await expect(admin.weave('nothing', guild)).rejects.toMatchObject({
      code: 'E_NOT_FOUND',
      hint: 'The vault has: HOUSE rules.',
    })
  })

  it('can be changed by admins only; notes about a user are for admins and that user [CTX-14]', async () => {
    const { of } = memories()
    const admin = of('root', ['admin']).threadweave
    const { threadweave } = of('ada')
    await admin.vaultDna('a', 'b')
    const denied = { code: 'E_DENIED_BY_POLICY' }
    await expect(threadweave.vaultDna('a', 'c')).rejects.toMatchObject(denied)
    await expect(threadweave.weave('a', guild)).rejects.toMatchObject(denied)
    await expect(threadweave.unweave('a', guild)).rejects.toMatchObject(denied)
    await expect(threadweave.shadowSet('ada', 'x')).rejects.toMatchObject(denied)
    await expect(threadweave.shadowGet('bob')).rejects.toMatchObject(denied)
    await admin.shadowSet('ada', 'Prefers short answers.')
    expect(await threadweave.shadowGet('ada')).toBe('Prefers short answers.')
    expect(await admin.shadowGet('bob')).toBeNull()
    await admin.shadowSet('ada', '')
    expect(await threadweave.shadowGet('ada')).toBeNull()
  })
})
