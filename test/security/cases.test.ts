import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const read = (name: string): string => readFileSync(join(import.meta.dirname, name), 'utf8')
const cases = JSON.parse(read('cases.json')) as ReadonlyArray<{ id: string; requirements: readonly number[] }>
const groupOf = (id: string): string => id.slice(0, id.indexOf('-'))

/** The first words of a test's title. */
const TITLE = /\(\s*['"`]([A-Z]{2,5}-\d+): /g

const named = readdirSync(import.meta.dirname)
  .filter((name) => name.endsWith('.test.ts'))
  .flatMap((name) => [...read(name).matchAll(TITLE)].map(([, id = '']) => ({ id, name })))

test('every case has a test that is named after it', () => {
  const missing = cases.filter(({ id }) => !named.some((one) => one.id === id)).map(({ id }) => id)
  expect(missing).toEqual([])
})

test('a test that is named after a case is in the file of its group, and the case is known', () => {
  const known = new Set(cases.map(({ id }) => id))
  for (const { id, name } of named) {
    expect(known.has(id), id).toBe(true)
    expect(name.startsWith(groupOf(id).toLowerCase()), `${id} in ${name}`).toBe(true)
  }
})

test('cases are of requirements that there are', () => {
  const { length } = JSON.parse(read('requirements.json')) as readonly string[]
  expect(cases).toHaveLength(225)
  for (const { id, requirements } of cases)
    for (const one of requirements) expect(one >= 1 && one <= length, `${id} R${one}`).toBe(true)
})
