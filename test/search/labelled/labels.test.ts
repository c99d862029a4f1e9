import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import type { EvalQuery, EvalTool } from '../../../src/search/evaluate.ts'

const LANGUAGES = ['de', 'en', 'es', 'fr', 'ru', 'zh']
const BUNDLED = [
  'filesystem.cp',
  'filesystem.edit',
  'filesystem.exists',
  'filesystem.find',
  'filesystem.grep',
  'filesystem.insert',
  'filesystem.ls',
  'filesystem.mkdir',
  'filesystem.mv',
  'filesystem.read',
  'filesystem.read_file',
  'filesystem.read_many',
  'filesystem.rm',
  'filesystem.stat',
  'filesystem.tree',
  'filesystem.undo',
  'filesystem.write',
  'filesystem.write_file',
  'hello.greet_many',
  'hello.say_hello',
  'hello.status',
]

function linesOf<T>(name: string): T[] {
  const text = readFileSync(new URL(name, import.meta.url), 'utf8')
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as T)
}

const noMatch = linesOf<EvalQuery>('no-match.jsonl')
const bundled = linesOf<EvalQuery>('bundled.queries.jsonl')
const pool = linesOf<EvalQuery>('pool.queries.jsonl')
const tools = linesOf<EvalTool>('pool.tools.jsonl')

const languagesOf = (queries: readonly EvalQuery[]) => [...new Set(queries.map((query) => query.lang))].sort()
const labelsOf = (queries: readonly EvalQuery[]) => [...new Set(queries.flatMap((query) => query.relevant))].sort()
const doubles = (values: readonly string[]) => values.filter((value, at) => values.indexOf(value) !== at)

describe('the labelled queries', () => {
  it('have unique ids and wordings', () => {
    const all = [...noMatch, ...bundled, ...pool]
    expect(doubles(all.map((query) => query.id))).toEqual([])
    expect(doubles(all.map((query) => query.query.toLowerCase()))).toEqual([])
  })

  it('name only existing tools, and every bundled tool at least once', () => {
    expect(labelsOf(bundled)).toEqual(BUNDLED)
    const ids = new Set(tools.map((tool) => tool.id))
    expect(labelsOf(pool).filter((id) => !ids.has(id))).toEqual([])
    expect(doubles(tools.map((tool) => tool.id))).toEqual([])
  })

  it('exist in six languages, at least twenty for the bundled modules and eighteen for the pool', () => {
    expect(languagesOf(bundled)).toEqual(LANGUAGES)
    expect(languagesOf(pool)).toEqual(LANGUAGES)
    for (const lang of LANGUAGES) {
      expect(bundled.filter((query) => query.lang === lang).length).toBeGreaterThanOrEqual(20)
      expect(pool.filter((query) => query.lang === lang).length).toBeGreaterThanOrEqual(18)
    }
  })

  it('include sixty without an answer, at least forty of them English', () => {
    expect(noMatch).toHaveLength(60)
    expect(labelsOf(noMatch)).toEqual([])
    expect(noMatch.filter((query) => query.lang === 'en').length).toBeGreaterThanOrEqual(40)
  })
})
