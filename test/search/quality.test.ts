import { existsSync, readFileSync } from 'node:fs'
import { beforeAll, describe, expect, it } from 'vitest'
import { embeddedTable } from '../../src/package.ts'
import { type EvalQuery, type EvalReport, type EvalTool, evaluate } from '../../src/search/evaluate.ts'
import { createToolSearch } from '../../src/search/index.ts'
import type { EmbeddingTable } from '../../src/search/table.ts'

/** What the model in models/ reached when it was made, in percent. Raise these when a new model is better. */
const REACHED = { pool: { recall5: 0, ndcg10: 0 }, foreign: { recall5: 0 } }
const POINT = 1

const linesOf = <T>(url: URL): T[] =>
  readFileSync(url, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as T)
const labelled = (name: string): URL => new URL(`labelled/${name}.jsonl`, import.meta.url)

async function reportOf(table: EmbeddingTable, tools: EvalTool[], queries: EvalQuery[]): Promise<EvalReport> {
  const search = createToolSearch({ table: () => table })
  return evaluate(tools, queries, {
    async load(sources) {
      search.sync(sources, 1)
      await search.warm()
    },
    async query(query, limit) {
      const { hits } = await search.query(query, { limit, visible: () => true })
      return hits.map(({ id }) => id)
    },
  })
}

describe('the search model that is shipped', () => {
  let table: EmbeddingTable
  const tools = linesOf<EvalTool>(labelled('pool.tools'))
  const queries = linesOf<EvalQuery>(labelled('pool.queries'))

  beforeAll(() => {
    table = embeddedTable()
  })

  it('finds tools by wishes in six languages as well as when it was made, within a point', async () => {
    const report = await reportOf(table, tools, queries)
    expect(100 * report.recall[5]).toBeGreaterThanOrEqual(REACHED.pool.recall5 - POINT)
    expect(100 * report.ndcg10).toBeGreaterThanOrEqual(REACHED.pool.ndcg10 - POINT)
    const foreign = await reportOf(
      table,
      tools,
      queries.filter(({ lang }) => lang !== 'en'),
    )
    expect(100 * foreign.recall[5]).toBeGreaterThanOrEqual(REACHED.foreign.recall5 - POINT)
  })

  it('answers at most one in ten of sixty queries that no tool answers', async () => {
    const { noMatch } = await reportOf(table, tools, linesOf<EvalQuery>(labelled('no-match')))
    expect(noMatch).toEqual({ queries: 60, answered: expect.any(Number) })
    expect(noMatch.answered).toBeLessThanOrEqual(0.1)
  })

  it('refuses at most one in a hundred of the queries of the development sets, where those are at hand', async ({
    skip,
  }) => {
    const dev = new URL('../../../shared/data/dev/vendor-evals-dev/', import.meta.url)
    skip(!existsSync(dev), 'the development sets are not beside the project')
    const asked = linesOf<EvalQuery>(new URL('queries.jsonl', dev))
    const report = await reportOf(table, linesOf<EvalTool>(new URL('tools.jsonl', dev)), asked)
    expect(report.refused).toBeLessThanOrEqual(0.01)
  })
})
