import { existsSync, readFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import { foldName } from '../../src/core/name-folding.ts'
import { META_NAMES } from '../../src/meta/surface.ts'
import { checkDefinition } from '../../src/trust/definition-checks.ts'
import { mergeOtherTools, otherToolsOf } from '../../src/trust/other-tools.ts'
import { randomFrom } from '../fuzz.ts'

interface Definition {
  readonly server: string
  readonly name: string
  readonly description?: string
}

const { PEGBOARD_DATA: given } = process.env
const data = given === undefined ? new URL('../../../shared/data/', import.meta.url) : pathToFileURL(`${given}/`)
/** Definitions of published servers, one JSON object per line. Not part of this repository. */
const CORPUS = new URL('train/mcp-corpus/tools.jsonl', data)
export const hasCorpus = existsSync(CORPUS)

/** Without duplicates: the same name, and four of five words of the description. */
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

const TOGETHER = 10

/** Each server beside nine others, as in a typical configuration. */
function groups(all: readonly Definition[]): ReadonlyArray<ReadonlyMap<string, readonly Definition[]>> {
  const servers = new Map<string, Definition[]>()
  for (const one of all) servers.set(one.server, [...(servers.get(one.server) ?? []), one])
  const random = randomFrom(17)
  const mixed = [...servers].map((entry) => ({ entry, at: random() })).sort((a, b) => a.at - b.at)
  return Array.from(
    { length: Math.ceil(mixed.length / TOGETHER) },
    (_, n) => new Map(mixed.slice(n * TOGETHER, (n + 1) * TOGETHER).map(({ entry }) => entry)),
  )
}

const strangers = (server: string, tools: readonly Definition[]) =>
  otherToolsOf(() =>
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

/** The definitions that the checks would quarantine; all of them count as harmless. */
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
      const others = mergeOtherTools(() =>
        [...group].flatMap(([id, theirs]) => (id === server ? [] : [strangers(id.split('/').at(-1) ?? id, theirs)])),
      )
      return tools.flatMap(({ server: _server, ...definition }) => {
        const found = checkDefinition(definition, {
          ownNames: own,
          reserved: new Set(META_NAMES),
          isOther: others.isSpelling,
          lookalikes: others.lookalikes,
          descriptionsOf: others.descriptionsOf,
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
