import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type AtlasIndex, type AtlasServer, type KnownNeed, sketchOf } from '../src/search/atlas.ts'
import { openEncoder } from '../src/search/encoder/encoder.ts'
import { queryInput, toolInput, toolTextOf } from '../src/search/encoder/encoder-text.ts'
import { createWordPieceTokenizer } from '../src/search/encoder/word-piece-tokenizer.ts'
import { type EvalTool, sourceOfEvalTool } from '../src/search/evaluate.ts'
import { readJsonLines } from './corpus.ts'

/** What was written about a tool of a public server. */
export interface WrittenTool {
  readonly definition: EvalTool
  /** When to use it. */
  readonly use: string
  /** Requests in English. */
  readonly requests: readonly string[]
  /** Requests in other languages. */
  readonly foreign: readonly string[]
  /** Names of tools that are usually called after it. */
  readonly next: readonly string[]
}

export interface WrittenServer {
  readonly server: string
  /** What the server is for, in plain words. */
  readonly line: string
  readonly tools: readonly WrittenTool[]
}

const SOURCE = 'training/atlas'
const PEAK = 127

/** Everything in training/atlas/written, with the definitions it is about. */
export function readWrittenServers(): WrittenServer[] {
  return readdirSync(join(SOURCE, 'written'))
    .sort()
    .flatMap((name): WrittenServer[] => {
      const server = name.replace('.jsonl', '')
      const file = join(SOURCE, 'definitions', `${server}.json`)
      if (!existsSync(file)) return []
      const { tools } = JSON.parse(readFileSync(file, 'utf8')) as { tools: Omit<EvalTool, 'id' | 'server'>[] }
      const [head, ...lines] = readJsonLines<{
        line: string
        tool: string
        use: string
        requests: string[]
        languages: Record<string, string>
        next: string[]
      }>(join(SOURCE, 'written', name))
      return [
        {
          server,
          line: head?.line ?? '',
          tools: lines.map(({ tool, use, requests, languages, next }) => {
            const definition = tools.find((one) => one.name === tool)
            if (!definition) throw new Error(`${name}: ${server} has no tool ${tool}`)
            return {
              definition: { ...definition, id: `${server}/${tool}`, server },
              use,
              requests,
              foreign: Object.values(languages),
              next,
            }
          }),
        },
      ]
    })
}

/** What calls need, for each server of training/atlas/servers.json that says so. */
function readNeeds(): Record<string, KnownNeed> {
  const servers = JSON.parse(readFileSync(join(SOURCE, 'servers.json'), 'utf8')) as {
    readonly id: string
    readonly callsNeed?: KnownNeed
  }[]
  return Object.fromEntries(servers.flatMap(({ id, callsNeed }) => (callsNeed ? [[id, callsNeed]] : [])))
}

/** The atlas of these servers, as the files of models/atlas hold it. The index has no id yet. */
export function buildAtlas(servers: readonly WrittenServer[], encoderFile: string) {
  const encoder = openEncoder(readFileSync(encoderFile))
  const tokenizer = createWordPieceTokenizer(encoder.pieces)
  const requestVector = (text: string): Float32Array => encoder.encode(queryInput(text, tokenizer), 'query')
  const tools: Record<string, AtlasIndex['tools'][string]> = {}
  const files = new Map<string, AtlasServer>()
  for (const { server, line, tools: written } of servers) {
    files.set(server, {
      line,
      tools: written.map(({ definition, use, requests, foreign, next }, at) => {
        const name = definition.name.toLowerCase()
        tools[name] = [...(tools[name] ?? []), [server, at, sketchOf(definition.description ?? '')]]
        const own = encoder.encode(toolInput(toolTextOf(sourceOfEvalTool(definition)), tokenizer), 'tool')
        const english = requests.map(requestVector)
        const all = [...english, ...foreign.map(requestVector)]
        return {
          name: definition.name,
          requests: [use, ...requests, ...foreign],
          next,
          vector: packed(sumOf([own, unit(sumOf(english)), unit(sumOf(all))])),
        }
      }),
    })
  }
  const needs = Object.entries(readNeeds()).filter(([server]) => files.has(server))
  const index: AtlasIndex = { id: '', encoder: encoder.id, tools, needs: Object.fromEntries(needs) }
  return { index, files }
}

function sumOf(vectors: readonly Float32Array[]): Float32Array {
  const sum = new Float32Array(vectors[0]?.length ?? 0)
  for (const vector of vectors) for (let at = 0; at < sum.length; at++) sum[at]! += vector[at]!
  return sum
}

function unit(vector: Float32Array): Float32Array {
  const length = Math.hypot(...vector)
  return vector.map((value) => value / length)
}

function packed(vector: Float32Array): string {
  const peak = Math.max(...vector.map(Math.abs))
  return Buffer.from(Int8Array.from(vector, (value) => Math.round((value / peak) * PEAK)).buffer).toString('base64')
}
