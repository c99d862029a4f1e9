import { describe, expect, it } from 'vitest'
import { createCatalog } from '../../src/catalog/catalog.ts'
import type { OwnerInfo } from '../../src/catalog/owner.ts'
import { makeTool } from '../tools.ts'

const owner = (id: string): OwnerInfo => ({ id, summary: id, origin: 'module', state: 'ready' })

describe('the catalog', () => {
  it('replaces all tools of an owner atomically, and passes the old and new ones to listeners', () => {
    const catalog = createCatalog()
    catalog.set(owner('a'), { tools: [makeTool('a.one')] })
    const seen: string[][] = []
    catalog.onChange((now, before) => seen.push([...before.byId.keys(), '->', ...now.byId.keys()]))
    catalog.set(owner('a'), { tools: [makeTool('a.two'), makeTool('a.three')] })
    expect(seen).toEqual([['a.one', '->', 'a.two', 'a.three']])
  })

  it('is unchanged when a set is rejected', () => {
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

  it('keeps the position of an owner that changes', () => {
    const catalog = createCatalog()
    catalog.set(owner('a'), { tools: [makeTool('a.t')] })
    catalog.set(owner('b'), { tools: [makeTool('b.t')] })
    catalog.set(owner('a'), { tools: [makeTool('a.u')] })
    expect([...catalog.snapshot().byId.keys()]).toEqual(['a.u', 'b.t'])
    catalog.delete('a')
    expect([...catalog.snapshot().byId.keys()]).toEqual(['b.t'])
  })

  it('does not change old snapshots', () => {
    const catalog = createCatalog()
    catalog.set(owner('a'), { tools: [makeTool('a.t')] })
    const before = catalog.snapshot()
    catalog.describe('a', { state: 'failing', reason: 'gone' })
    expect(before.owners.get('a')?.state).toBe('ready')
    expect(catalog.snapshot().owners.get('a')).toMatchObject({ state: 'failing', reason: 'gone' })
  })
})
