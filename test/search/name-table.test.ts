import { describe, expect, it } from 'vitest'
import { createNameTable, NAME_SECTIONS, type NameTable } from '../../src/search/name-table.ts'
import { packSections, unpackSections } from '../../src/search/packed-sections.ts'

const all = () => true
const reloaded = (table: NameTable) =>
  createNameTable(unpackSections(1, 1, packSections(1, 1, table.sections()), NAME_SECTIONS))

function tableOf(...names: string[]): NameTable {
  const table = createNameTable()
  names.forEach((name, slot) => {
    table.add(slot, { names: [name, name.replace('.', '__')], bareName: name.slice(name.indexOf('.') + 1) })
  })
  return table
}

describe('createNameTable', () => {
  const table = tableOf('github.list_issues', 'gitlab.list_issues', 'мир.читать', 'HTTP.getURL2')

  it.each([
    ['github.list_issues', [0]],
    ['GITHUB__LIST-ISSUES', [0]],
    ['gitlab.listIssues', [1]],
    ['use github.list_issues and gitlab.list_issues', [0, 1]],
    ['Мир.Читать', [2]],
    ['читать', [2]],
    ['http.get_url2', [3]],
    ['list_issues', []],
    ['github', []],
    ['._-', []],
    ['', []],
  ])('%s names %j', (query, slots) => {
    expect(table.match(query, all)).toEqual(slots)
    expect(reloaded(table).match(query, all)).toEqual(slots)
  })

  it('resolves a bare name of the one visible tool that has it', () => {
    expect(table.match('list_issues', (slot) => slot !== 0)).toEqual([1])
  })

  it('distinguishes names that differ in spelling only', () => {
    const twins = tableOf('a.list_x', 'a.list-x', 'a.listX')
    expect(twins.match('a.list-x', all)).toEqual([1])
    expect(twins.match('a.list x', all)).toEqual([])
  })

  it('forgets removed tools, before and after saving', () => {
    const changing = tableOf('a.one', 'a.two')
    changing.remove(0)
    changing.remove(0)
    changing.remove(99)
    expect(changing.match('a.one', all)).toEqual([])
    const loaded = reloaded(changing)
    expect(loaded.match('a.one', all)).toEqual([])
    loaded.add(0, { names: ['a.three'], bareName: 'three' })
    expect([loaded.match('a.three', all), loaded.match('two', all)]).toEqual([[0], [1]])
  })

  it('has a bounded size while tools keep changing their names', () => {
    const changing = createNameTable()
    for (let round = 0; round < 5000; round++) {
      changing.remove(0)
      changing.add(0, { names: [`a.n${round}`], bareName: `n${round}` })
    }
    expect(changing.match('a.n4999', all)).toEqual([0])
    expect(changing.match('a.n4998', all)).toEqual([])
    expect(changing.sections()[0]?.byteLength).toBeLessThan(100)
  })

  it('checks few of 10,000 tools with one bare name', () => {
    const same = createNameTable()
    for (let slot = 0; slot < 10_000; slot++) same.add(slot, { names: [`m${slot}.list_files`], bareName: 'list_files' })
    let asked = 0
    const counting = () => ++asked > 0
    expect(same.match('list_files', counting)).toEqual([])
    expect(same.match('list files', counting)).toEqual([])
    expect(asked).toBeLessThan(10)
  })
})
