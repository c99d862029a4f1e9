import type { EvalQuery, EvalTool } from '../src/search/evaluate.ts'
import type { ToolSet } from './corpus.ts'
import type { Written } from './sources.ts'

/** Queries to ask about some tools. */
export interface Questions {
  readonly set: string
  readonly tools: readonly EvalTool[]
  readonly queries: readonly EvalQuery[]
}

const POOL = 13_000
const POOL_QUERIES = 250
const USERS = 12
const SERVERS_AT_ONCE = 40
const TOOLS_AT_ONCE = 400

/** The requests written for tools that training left out, asked about these tools and about the whole corpus. */
export function keptQuestions(kept: readonly Written[], corpus: readonly EvalTool[]): Questions[] {
  const queries = kept.flatMap(({ tool, queries }) =>
    queries.map(({ text, language }) => ({ id: '', query: text, relevant: [tool.line.id], lang: language })),
  )
  const everyThird = queries.filter((_, index) => index % 3 === Math.floor(index / 3) % 3)
  return [
    { set: 'kept, few', tools: kept.map(({ tool }) => tool.line), queries },
    { set: 'kept, all', tools: corpus, queries: everyThird },
  ]
}

/** The labelled queries of development sets, asked about the tools of the set, and about these among 13,000 others. */
export function developmentQuestions(sets: readonly ToolSet[], corpus: readonly EvalTool[]): Questions[] {
  return sets.flatMap(({ name, tools: all, queries }) => {
    const tools = all.map(({ line }) => line)
    const labelled = queries.filter(({ relevant }) => relevant.length > 0)
    if (labelled.length === 0) return []
    const wanted = new Set(labelled.flatMap(({ relevant }) => relevant))
    const names = new Set(tools.filter(({ id }) => wanted.has(id)).map((tool) => tool.name.toLowerCase()))
    const others = corpus.filter((tool) => !names.has(tool.name.toLowerCase())).slice(0, POOL)
    const some = labelled.filter((_, index) => index % Math.ceil(queries.length / POOL_QUERIES) === 0)
    return [
      { set: name, tools, queries: labelled },
      { set: `${name}, among 13,000`, tools: [...tools, ...others], queries: some },
    ]
  })
}

/** Users with some servers, who ask for what only another server has. */
export function missingQuestions(kept: readonly Written[], corpus: readonly EvalTool[]): Questions[] {
  const servers = [...new Set(corpus.map(({ server }) => server))]
  return Array.from({ length: USERS }, (_, user) => {
    const own = new Set(
      servers.filter((_, index) => (index * 7919 + user * 104_729) % servers.length < SERVERS_AT_ONCE),
    )
    return {
      set: 'missing',
      tools: corpus.filter(({ server }) => own.has(server)).slice(0, TOOLS_AT_ONCE),
      queries: kept
        .filter(({ tool }, index) => index % USERS === user && !own.has(tool.line.server))
        .flatMap(({ queries }) =>
          queries.map(({ text, language }) => ({ id: '', query: text, relevant: [], lang: language })),
        ),
    }
  })
}
