import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { bareNameOf, type SearchSource } from './search-document.ts'
import { hashOf } from './word-pieces.ts'

/**
 * How people ask for the tools of well-known public servers. A tool is recognized by its name and the words of its
 * description, so that other versions and other server names are recognized too. Made by `npm run train:atlas`.
 */
export interface Atlas {
  /** Changes with every build. */
  readonly id: string
  /** Requests in everyday words and several languages; undefined for an unknown tool. */
  requestsOf(source: SearchSource): readonly string[] | undefined
  /** The vector of the tool and its requests by this encoder; undefined for an unknown tool or another encoder. */
  vectorOf(source: SearchSource, encoderId: string): Float32Array | undefined
  /** Names of tools of the same server that usually come before and after it, the most usual first. */
  neighboursOf(
    source: ToolIdentity,
  ): { readonly before: readonly string[]; readonly after: readonly string[] } | undefined
  /** What the server with these tools is for, in plain words; undefined if half of them or fewer are known. */
  lineOf(sources: readonly ToolIdentity[]): string | undefined
  /** What calls of the server's tools need on the machine or in the network; undefined if nothing is known. */
  needOf(source: ToolIdentity): KnownNeed | undefined
}

export const KNOWN_NEEDS = ['app', 'browser', 'cluster', 'device'] as const
export type KnownNeed = (typeof KNOWN_NEEDS)[number]

/** The properties by which the atlas recognizes a tool. */
export type ToolIdentity = Pick<SearchSource, 'id' | 'module' | 'name' | 'description'>

/** models/atlas/index.json */
export interface AtlasIndex {
  readonly id: string
  /** Id of the encoder that made the vectors. */
  readonly encoder: string
  /** For each tool name: server, position in the server's file, sketch of the description. */
  readonly tools: Readonly<Record<string, readonly (readonly [server: string, at: number, sketch: string])[]>>
  /** For each server whose calls need something: `callsNeed` in training/atlas/servers.json. */
  readonly needs?: Readonly<Record<string, KnownNeed>>
}

/** models/atlas/<server>.json: the tools in order. */
export interface AtlasServer {
  /** What the server is for, in plain words. */
  readonly line: string
  readonly tools: readonly {
    readonly name: string
    readonly requests: readonly string[]
    /** Names of tools that are usually called after it. */
    readonly next: readonly string[]
    /** One byte per number, base64. */
    readonly vector: string
  }[]
}

const SKETCH_HASHES = 16
/** Minimum share of equal words. Versions of one tool share most of them; tools that share only a name do not. */
const MIN_LIKENESS = 0.5
/** Number of tools that are looked up to recognize a server. */
const LINE_TOOLS = 12

/**
 * A bottom-k sketch (Broder 1997) of the words of a text: the smallest hashes, from which the share of common words of
 * two texts can be estimated without the texts.
 */
export function sketchOf(text: string): string {
  const words = new Set(text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [])
  const hashes = [...words].map((word) => hashOf(word)).sort((a, b) => a - b)
  return Buffer.from(Uint32Array.from(hashes.slice(0, SKETCH_HASHES)).buffer).toString('base64')
}

/** The estimated share of words that two texts have in common, 0 to 1. */
export function likenessOf(sketch: string, other: string): number {
  const [a, b] = [sketch, other].map((text) => {
    const bytes = Buffer.from(text, 'base64')
    return Array.from({ length: bytes.length / 4 }, (_, at) => bytes.readUInt32LE(at * 4))
  }) as [number[], number[]]
  const smallest = [...new Set([...a, ...b])].sort((x, y) => x - y).slice(0, SKETCH_HASHES)
  if (smallest.length === 0) return 1
  return smallest.filter((hash) => a.includes(hash) && b.includes(hash)).length / smallest.length
}

/**
 * Reads the index at once and the file of a server when one of its tools is asked for. A server whose file cannot be
 * read is unknown.
 * @throws Error if the index cannot be read
 */
export function openAtlas(dir: string): Atlas {
  const readJson = (name: string): unknown => JSON.parse(readFileSync(join(dir, `${name}.json`), 'utf8'))
  return createAtlas(readJson('index') as AtlasIndex, (server) => {
    try {
      return readJson(server) as AtlasServer
    } catch {
      return undefined
    }
  })
}

/** @param readServer called once per server */
export function createAtlas(index: AtlasIndex, readServer: (server: string) => AtlasServer | undefined): Atlas {
  const names = new Map(Object.entries(index.tools))
  const servers = new Map<string, AtlasServer | undefined>()

  function findEntry(source: ToolIdentity) {
    const candidates = names.get(bareNameOf(source).toLowerCase())
    if (!candidates) return undefined
    const sketch = sketchOf(source.description)
    const [best] = candidates
      .map(([server, at, other]) => ({ server, at, likeness: likenessOf(sketch, other) }))
      .sort((a, b) => b.likeness - a.likeness)
    if (!best || best.likeness < MIN_LIKENESS) return undefined
    if (!servers.has(best.server)) servers.set(best.server, readServer(best.server))
    const server = servers.get(best.server)
    const entry = server?.tools[best.at]
    return server && entry && { id: best.server, server, entry }
  }

  return {
    id: index.id,
    requestsOf: (source) => findEntry(source)?.entry.requests,
    vectorOf(source, encoderId) {
      const match = encoderId === index.encoder ? findEntry(source) : undefined
      return match && Float32Array.from(new Int8Array(Buffer.from(match.entry.vector, 'base64')))
    },
    neighboursOf(source) {
      const match = findEntry(source)
      if (!match) return undefined
      const { name, next } = match.entry
      const leading = match.server.tools.filter((tool) => tool.next.includes(name))
      leading.sort((a, b) => a.next.indexOf(name) - b.next.indexOf(name))
      const before = leading.map((tool) => tool.name)
      // Two tools that follow each other in both directions have no order.
      return {
        before: before.filter((other) => !next.includes(other)),
        after: next.filter((other) => !before.includes(other)),
      }
    },
    needOf(source) {
      const match = findEntry(source)
      return match && index.needs?.[match.id]
    },
    lineOf(sources) {
      const sampled = sources.slice(0, LINE_TOOLS)
      const counts = new Map<string, number>()
      for (const source of sampled) {
        const line = findEntry(source)?.server.line
        if (line) counts.set(line, (counts.get(line) ?? 0) + 1)
      }
      const [best] = [...counts].sort((a, b) => b[1] - a[1])
      return best && best[1] * 2 > sampled.length ? best[0] : undefined
    },
  }
}
