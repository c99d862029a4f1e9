import { beforeAll, describe, expect, it } from 'vitest'
import { embeddedTable, includedAtlas, includedEncoderFiles, includedTranslator } from '../../src/app/package-info.ts'
import { silentLog } from '../../src/core/log.ts'
import { createIncludedEncoder } from '../../src/search/embedders/included-encoder.ts'
import { type EvalQuery, type EvalReport, evaluate } from '../../src/search/evaluate.ts'
import { createSemanticRetriever } from '../../src/search/semantic-retriever.ts'
import { createToolSearch } from '../../src/search/tool-search.ts'
import { isForLearning, readEveryday } from '../../training/everyday.ts'

/** What search reached when the models were made, in percent, on the half of the requests that nothing was learned from. */
const REACHED = { first: 72.3, inFive: 90.9, foreignFirst: 71, foreignInFive: 90.9, noMatchSure: 11, refused: 5 }
const POINT = 1

/** Share of the queries with a right tool among the first `k`, in percent. */
function foundIn(k: number, { rows }: EvalReport, isAsked: (query: EvalQuery) => boolean): number {
  const asked = rows.filter((row) => row.relevant.length > 0 && isAsked(row))
  const found = asked.filter(({ answers, relevant }) => answers.slice(0, k).some((id) => relevant.includes(id)))
  return (100 * found.length) / asked.length
}

describe('requests in everyday words over the tools of 54 real servers', () => {
  const { tools, queries } = readEveryday()
  const measured = queries.filter((query) => !isForLearning(query))
  let report: EvalReport
  /** The number of tools in each answer with `brief`, and whether it has lost the only right tool. */
  const brief: { readonly all: number; readonly kept: number; readonly lost: boolean }[] = []
  /** The highest relevance of each answer that says that no tool is likely to be right. */
  const unlikely: number[] = []

  beforeAll(async () => {
    const semantic = createSemanticRetriever({
      source: createIncludedEncoder(includedEncoderFiles()),
      queryTimeoutMs: 60_000,
      log: silentLog,
    })
    const search = createToolSearch({
      table: embeddedTable,
      atlas: includedAtlas,
      translate: includedTranslator(),
      semantic,
    })
    report = await evaluate(tools, measured, {
      async load(sources) {
        search.sync(sources, 1)
        await search.warm()
        await semantic.settled()
      },
      async query(query, limit) {
        const { hits, unanswered } = await search.query(query, { limit, visible: () => true })
        return { ids: hits.map(({ id }) => id), unlikely: unanswered !== undefined }
      },
    })
    for (const { query, relevant, answers } of report.rows) {
      const { hits, unanswered } = await search.query(query, { limit: 5, visible: () => true, brief: true })
      if (unanswered) unlikely.push(hits[0]?.score ?? 0)
      const [all, kept] = [answers.slice(0, 5), hits.map(({ id }) => id)]
      const isRight = (id: string): boolean => relevant.includes(id)
      brief.push({ all: all.length, kept: kept.length, lost: all.some(isRight) && !kept.some(isRight) })
    }
    await search.close()
  }, 120_000)

  it('finds the right tool in English as well as when the models were made, within a point', () => {
    const isEnglish = ({ lang }: EvalQuery): boolean => lang === 'en'
    expect(foundIn(1, report, isEnglish)).toBeGreaterThanOrEqual(REACHED.first - POINT)
    expect(foundIn(5, report, isEnglish)).toBeGreaterThanOrEqual(REACHED.inFive - POINT)
  })

  it('finds the right tool in thirteen other languages as well as when the models were made, within a point', () => {
    const isForeign = ({ lang }: EvalQuery): boolean => lang !== 'en'
    expect(foundIn(1, report, isForeign)).toBeGreaterThanOrEqual(REACHED.foreignFirst - POINT)
    expect(foundIn(5, report, isForeign)).toBeGreaterThanOrEqual(REACHED.foreignInFive - POINT)
  })

  it('says that nothing is likely when no tool answers, and seldom when one does', () => {
    expect(100 * report.noMatch.answered).toBeLessThanOrEqual(REACHED.noMatchSure + POINT)
    const right = report.rows.filter(
      ({ lang, answers, relevant }) => lang === 'en' && answers[0] !== undefined && relevant.includes(answers[0]),
    )
    const refused = right.filter(({ unlikely }) => unlikely).length
    expect((100 * refused) / right.length).toBeLessThanOrEqual(REACHED.refused + POINT)
  })

  it('shows a low relevance when it says that nothing is likely', () => {
    expect(unlikely.length).toBeGreaterThan(90)
    expect(Math.max(...unlikely)).toBeLessThan(0.16)
  })

  it('lists few other tools when the first is very likely right, and never loses the only right one', () => {
    const shorter = brief.filter(({ all, kept }) => kept < all)
    expect(shorter.length).toBeGreaterThanOrEqual(10)
    expect(shorter.reduce((sum, { kept }) => sum + kept, 0) / shorter.length).toBeLessThan(2)
    expect(brief.filter(({ lost }) => lost)).toEqual([])
  })
})
