import { existsSync, readFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import { foldName } from '../../src/core/fold.ts'
import { META_NAMES } from '../../src/meta/surface.ts'
import { checkDefinition } from '../../src/trust/checks.ts'
import { strangersAmong, strangersOf } from '../../src/trust/strangers.ts'

interface Definition {
  readonly server: string
  readonly name: string
  readonly description?: string
}

const { PEGBOARD_DATA: given } = process.env
const data = given === undefined ? new URL('../../../shared/data/', import.meta.url) : pathToFileURL(`${given}/`)
/** Definitions of published servers, a JSON object a line. They are no part of this repository. */
const CORPUS = new URL('train/mcp-corpus/tools.jsonl', data)
export const hasCorpus = existsSync(CORPUS)

/** Without what was published more than once: the same name, and four of five words of the description. */
function distinct(all: readonly Definition[]): readonly Definition[] {
  const known = new Map<string, Array<ReadonlySet<string>>>()
  return all.filter(({ name, description = '' }) => {
    const words = new Set(description.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [])
    const same = known.get(foldName(name)) ?? []
    if (same.some((other) => isAlike(words, other))) return false
    known.set(foldName(name), [...same, words])
    return true
  })
}

function isAlike(one: ReadonlySet<string>, other: ReadonlySet<string>): boolean {
  const common = [...one].filter((word) => other.has(word)).length
  const all = one.size + other.size - common
  return all === 0 || common / all >= 0.8
}

/** A small generator of numbers from a seed. */
function randomOf(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

const TOGETHER = 10

/** Each server beside nine others, as somebody may configure them. */
function groups(all: readonly Definition[]): ReadonlyArray<ReadonlyMap<string, readonly Definition[]>> {
  const servers = new Map<string, Definition[]>()
  for (const one of all) servers.set(one.server, [...(servers.get(one.server) ?? []), one])
  const random = randomOf(17)
  const mixed = [...servers].map((entry) => ({ entry, at: random() })).sort((a, b) => a.at - b.at)
  return Array.from(
    { length: Math.ceil(mixed.length / TOGETHER) },
    (_, n) => new Map(mixed.slice(n * TOGETHER, (n + 1) * TOGETHER).map(({ entry }) => entry)),
  )
}

const strangers = (server: string, tools: readonly Definition[]) =>
  strangersOf(() =>
    tools.map(({ name, description = '' }) => ({
      name,
      description,
      spellings: () => [name, `${server}.${name}`, `mcp_${server}.${name}`],
    })),
  )

export interface Alarm {
  readonly code: string
  readonly server: string
  readonly name: string
  readonly evidence: string
}

/** What the checks would keep out of the definitions, which all are taken for harmless. */
export function measureAlarms(): { readonly tools: number; readonly alarms: readonly Alarm[] } {
  const lines = readFileSync(CORPUS, 'utf8').split('\n').filter(Boolean)
  const all = distinct(
    lines.map((line) => {
      const { id: _id, source: _source, ...definition } = JSON.parse(line)
      return definition as Definition
    }),
  )
  const alarms = groups(all).flatMap((group) =>
    [...group].flatMap(([server, tools]) => {
      const own = new Set(tools.map(({ name }) => name))
      const others = strangersAmong(() =>
        [...group].flatMap(([id, theirs]) => (id === server ? [] : [strangers(id.split('/').at(-1) ?? id, theirs)])),
      )
      return tools.flatMap(({ server: _server, ...definition }) => {
        const found = checkDefinition(definition, {
          own,
          reserved: new Set(META_NAMES),
          isOther: others.spelled,
          lookalikes: others.shaped,
          described: others.described,
        })
        const codes = new Map(found.filter(({ level }) => level !== 'note').map((one) => [one.code, one]))
        return [...codes].map(([code, { what, evidence }]) => ({
          code,
          server,
          name: definition.name,
          evidence: `${what}: ${evidence.slice(0, 200)}`,
        }))
      })
    }),
  )
  return { tools: all.length, alarms }
}
