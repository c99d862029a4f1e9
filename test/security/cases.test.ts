import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const read = (name: string): string => readFileSync(join(import.meta.dirname, name), 'utf8')
const cases = JSON.parse(read('cases.json')) as ReadonlyArray<{
  id: string
  /** For cases beyond those of the requirements: what they are about. */
  words?: string
  requirements: readonly number[]
}>
const groupOf = (id: string): string => id.slice(0, id.indexOf('-'))

/** The case id at the start of a test title. */
const TITLE = /\(\s*['"`]([A-Z]{2,5}-\d+): /g

const named = readdirSync(import.meta.dirname)
  .filter((name) => name.endsWith('.test.ts'))
  .flatMap((name) => [...read(name).matchAll(TITLE)].map(([, id = '']) => ({ id, name })))

test('every case has a test with its id', () => {
  const missing = cases.filter(({ id }) => !named.some((one) => one.id === id)).map(({ id }) => id)
  expect(missing).toEqual([])
})

test('a test with a case id is in the file of its group, and the case exists', () => {
  const known = new Set(cases.map(({ id }) => id))
  for (const { id, name } of named) {
    expect(known.has(id), id).toBe(true)
    expect(name.startsWith(groupOf(id).toLowerCase()), `${id} in ${name}`).toBe(true)
  }
})

test('every case names an existing requirement', () => {
  const { length } = JSON.parse(read('requirements.json')) as readonly string[]
  expect(cases.filter(({ words }) => words === undefined)).toHaveLength(225)
  for (const { id, requirements } of cases)
    for (const one of requirements) expect(one >= 1 && one <= length, `${id} R${one}`).toBe(true)
})
