import { expect, it } from 'vitest'
import { createCatalog } from '../../src/catalog/catalog.ts'
import { warnOfClashes } from '../../src/catalog/warn-of-clashes.ts'
import { createLog } from '../../src/core/log.ts'
import { createManualClock } from '../clock.ts'
import { makeTool } from '../tools.ts'

function setUp() {
  const clock = createManualClock()
  const catalog = createCatalog()
  const told: string[] = []
  const stop = warnOfClashes(
    catalog,
    createLog((line) => told.push(line)),
    clock,
  )
  const add = (id: string, tool: string): void =>
    catalog.set({ id, summary: id, origin: 'module', state: 'ready' }, { tools: [makeTool(tool)] })
  return { clock, told, stop, add }
}

it('a clash is logged once, a second after the last change, with one timer for any number of changes', () => {
  const { clock, told, add } = setUp()
  add('a', 'a.b__c')
  clock.pass(600)
  add('a__b', 'a__b.c')
  for (const id of ['x', 'y', 'z']) add(id, `${id}.one`)
  expect(clock.waiting).toBe(1)
  clock.pass(999)
  expect(told).toEqual([])
  clock.pass(1)
  expect(told).toHaveLength(1)
  expect(told[0]).toContain('E_NAME_TAKEN')
  add('w', 'w.one')
  clock.pass(2_000)
  expect(told).toHaveLength(1)
  expect(clock.waiting).toBe(0)
})

it('nothing is logged after stop', () => {
  const { clock, told, stop, add } = setUp()
  add('a', 'a.b__c')
  add('a__b', 'a__b.c')
  stop()
  clock.pass(2_000)
  expect(clock.waiting).toBe(0)
  expect(told).toEqual([])
})
