import { describe, expect, it } from 'vitest'
import { createCatalog, type OwnerInfo } from '../../src/catalog/catalog.ts'
import { makeTool } from '../tools.ts'

const owner = (id: string): OwnerInfo => ({ id, summary: id, origin: 'module', state: 'ready' })

describe('the catalogue', () => {
  it('replaces all tools of an owner at once, and tells listeners what was and what is', () => {
    const catalog = createCatalog()
    catalog.set(owner('a'), { tools: [makeTool('a.one')] })
    const seen: string[][] = []
    catalog.onChange((now, before) => seen.push([...before.byId.keys(), '->', ...now.byId.keys()]))
    catalog.set(owner('a'), { tools: [makeTool('a.two'), makeTool('a.three')] })
    expect(seen).toEqual([['a.one', '->', 'a.two', 'a.three']])
  })

  it('changes nothing when a set is refused', () => {
    const catalog = createCatalog(new Set(['search_tools']))
    catalog.set(owner('a'), { tools: [makeTool('a.one')] })
    expect(() => catalog.set(owner('a'), { tools: [makeTool('a.x'), makeTool('a.x')] })).toThrow(
      '"a.x" is defined twice in a.',
    )
    expect(() => catalog.set(owner('b'), { tools: [makeTool('b.y', { name: 'search_tools' })] })).toThrow(
      '"search_tools" (b.y) is the name of a built-in tool.',
    )
    expect(() => catalog.set(owner('Bad Name'), { tools: [] })).toThrow('"Bad Name" is not a legal module name.')
    expect([...catalog.snapshot().byId.keys()]).toEqual(['a.one'])
    expect(catalog.snapshot().version).toBe(1)
  })

  it('keeps an owner in its place when it changes', () => {
    const catalog = createCatalog()
    catalog.set(owner('a'), { tools: [makeTool('a.t')] })
    catalog.set(owner('b'), { tools: [makeTool('b.t')] })
    catalog.set(owner('a'), { tools: [makeTool('a.u')] })
    expect([...catalog.snapshot().byId.keys()]).toEqual(['a.u', 'b.t'])
    catalog.delete('a')
    expect([...catalog.snapshot().byId.keys()]).toEqual(['b.t'])
  })

  it('keeps old snapshots as they were', () => {
    const catalog = createCatalog()
    catalog.set(owner('a'), { tools: [makeTool('a.t')] })
    const before = catalog.snapshot()
    catalog.describe('a', { state: 'failing', reason: 'gone' })
    expect(before.owners.get('a')?.state).toBe('ready')
    expect(catalog.snapshot().owners.get('a')).toMatchObject({ state: 'failing', reason: 'gone' })
  })

  it('tells a tool by its owner alone where nothing else could be meant', () => {
    const catalog = createCatalog(new Set(['search_tools']))
    catalog.set(owner('a'), { tools: [makeTool('a.one'), makeTool('a.both', { name: 'both' })] })
    catalog.set(owner('b'), { tools: [makeTool('b.both', { name: 'BOTH' }), makeTool('b.search_tools')] })
    const { quick, byId, byName } = catalog.snapshot()
    expect(quick('a.one')).toBe(byId.get('a.one'))
    expect(quick('a__one')).toBe(byName.get('a__one'))
    // Two want that name, so that neither has it, by its id neither.
    for (const name of ['both', 'BOTH', 'a.both', 'A__one', 'a.none', 'none']) expect(quick(name), name).toBeUndefined()
    catalog.set(owner('b'), { tools: [] })
    expect(catalog.snapshot().quick('both')?.id).toBe('a.both')
  })

  it('tells none so where one may stand in for another', () => {
    const catalog = createCatalog()
    catalog.set(owner('a'), { tools: [makeTool('a.one')] })
    catalog.set(owner('b'), { tools: [makeTool('b.two', { replaces: 'a.one' })] })
    expect(catalog.snapshot().quick('a.one')).toBeUndefined()
  })
})

describe('tools that nobody looked at yet', () => {
  const unread = () => {
    const tools = [makeTool('mcp_a.one', { origin: 'upstream' }), makeTool('mcp_a.two', { origin: 'upstream' })]
    const [one] = tools
    const asked: string[] = []
    let isRead = false
    const catalog = createCatalog()
    catalog.set(
      { id: 'mcp_a', summary: 'A', origin: 'upstream', state: 'ready' },
      {
        tools: {
          read() {
            isRead = true
            asked.push('all')
            return { tools, withheld: [], notice: 'something waits' }
          },
          get isRead() {
            return isRead
          },
          byId: (id) => (id === one?.id ? one : undefined),
          byName: (name) => (name === one?.name.toLowerCase() ? one : undefined),
          wants: (name) => tools.some((each) => each.name.toLowerCase() === name),
        },
      },
    )
    return { catalog, asked, one }
  }

  it('are called one by one, and looked at together for who wants more', () => {
    const { catalog, asked, one } = unread()
    catalog.describe('mcp_a', { state: 'connecting' })
    const snapshot = catalog.snapshot()
    expect(snapshot.quick('mcp_a.one')).toBe(one)
    expect(snapshot.quick('mcp_a.two')).toBeUndefined()
    expect(asked).toEqual([])
    expect(snapshot.owners.get('mcp_a')?.unread).toBeDefined()
    expect(snapshot.tools.map(({ id }) => id)).toEqual(['mcp_a.one', 'mcp_a.two'])
    const owner = snapshot.owners.get('mcp_a')
    expect([owner?.unread, owner?.notice, owner?.withheld, owner?.state]).toEqual([
      undefined,
      'something waits',
      [],
      'connecting',
    ])
    expect(snapshot.quick('mcp_a.two')?.id).toBe('mcp_a.two')
    expect(asked).toEqual(['all'])
  })
})
