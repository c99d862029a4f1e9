import { readFileSync } from 'node:fs'
import { type EvalQuery, type EvalTool, fnv1a } from '../src/search/evaluate.ts'
import { readJsonLines } from './corpus.ts'

const FOLDER = 'test/search/labelled/everyday'

/** The requests in everyday words, and all tools of the servers that they are asked of. */
export function readEveryday(): { readonly tools: readonly EvalTool[]; readonly queries: readonly EvalQuery[] } {
  const servers = JSON.parse(readFileSync(`${FOLDER}/servers.json`, 'utf8')) as string[]
  const tools = servers.flatMap((server) => {
    const file = `training/atlas/definitions/${server}.json`
    const { tools: own } = JSON.parse(readFileSync(file, 'utf8')) as { tools: Omit<EvalTool, 'id' | 'server'>[] }
    return own.map((tool) => ({ ...tool, id: `${server}/${tool.name}`, server }))
  })
  return { tools, queries: readJsonLines<EvalQuery>(`${FOLDER}/queries.jsonl`) }
}

/** Half of the requests is for learning, the other half for measuring. */
export const isForLearning = ({ id }: EvalQuery): boolean => fnv1a(id) % 2 === 0
