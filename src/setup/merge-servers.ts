import { isDeepStrictEqual } from 'node:util'
import { shapesOf } from '../config/server-names.ts'
import type { Json } from '../core/is-record.ts'
import { mapTexts } from '../core/map-texts.ts'
import type { FoundServer } from './find-clients.ts'

/** One server as it will be in the configuration of Pegboard. */
export interface MergedServer {
  readonly name: string
  readonly entry: Json
  /** Where it was found, in one or several clients. */
  readonly from: readonly FoundServer[]
  /** Pegboard's configuration has it already. */
  readonly isKnown: boolean
}

/**
 * Merges the servers of several clients: one server per command with the same arguments, variables and working
 * directory, and one per address with the same headers. An entry without headers is merged with the first one of its
 * address. A server whose name is taken by another one gets the name of its client as a suffix.
 * @param existing `mcpServers` of Pegboard's configuration
 * @param stored secrets that `existing` names; undefined: it cannot be read
 */
export function mergeServers(
  found: readonly FoundServer[],
  existing: Json,
  stored: ReadonlyMap<string, string | undefined>,
): readonly MergedServer[] {
  const merged: Array<{ name: string; entry: Json; from: FoundServer[]; isKnown: boolean }> = Object.entries(
    existing,
  ).map(([name, entry]) => ({ name, entry: entry as Json, from: [], isKnown: true }))
  const taken = new Set(merged.flatMap(({ name }) => shapesOf(name)))
  for (const server of found) {
    const same = merged.find(({ entry, isKnown }) =>
      isSameServer(isKnown ? withSecrets(entry, stored) : entry, server.entry),
    )
    if (same) {
      same.from.push(server)
      if (!same.isKnown) same.entry = mergeEntries(same.entry, server.entry)
      continue
    }
    const name = freeName(server, taken)
    for (const shape of shapesOf(name)) taken.add(shape)
    merged.push({ name, entry: server.entry, from: [server], isKnown: false })
  }
  return merged.filter(({ from }) => from.length > 0)
}

/** Returns the enabled one of two entries of the same server, the first one if both are. It gets the headers of either. */
function mergeEntries(first: Json, second: Json): Json {
  const isSecond = first['disabled'] === true && second['disabled'] !== true
  const [kept, other] = isSecond ? [second, first] : [first, second]
  return kept['headers'] === undefined && other['headers'] !== undefined ? { ...kept, headers: other['headers'] } : kept
}

/** An earlier import may have moved the secrets of a server out of its entry. */
const withSecrets = (entry: Json, stored: ReadonlyMap<string, string | undefined>): Json =>
  mapTexts(entry, (text) =>
    text.replaceAll(/\$\{keyring:([A-Za-z_][\w.-]*)\}/g, (reference, name: string) => stored.get(name) ?? reference),
  )

function freeName({ name, client }: FoundServer, taken: ReadonlySet<string>): string {
  const isFree = (one: string): boolean => shapesOf(one).every((shape) => !taken.has(shape))
  const candidates = [name, `${name}_${client.replaceAll('-', '_')}`]
  for (let at = 2; ; at++) {
    const free = candidates.find(isFree)
    if (free !== undefined) return free
    candidates.push(`${name}_${at}`)
  }
}

function isSameServer(a: Json, b: Json): boolean {
  if (typeof a['url'] === 'string' && typeof b['url'] === 'string')
    return (
      sameAddress(a['url'], b['url']) &&
      // Two logins at one address are two servers.
      (a['headers'] === undefined || b['headers'] === undefined || isDeepStrictEqual(a['headers'], b['headers']))
    )
  return (
    typeof a['command'] === 'string' &&
    a['command'] === b['command'] &&
    isDeepStrictEqual(a['args'] ?? [], b['args'] ?? []) &&
    isDeepStrictEqual(a['env'] ?? {}, b['env'] ?? {}) &&
    (a['cwd'] ?? '') === (b['cwd'] ?? '')
  )
}

const sameAddress = (a: string, b: string): boolean => {
  const plain = (url: string): string => (URL.canParse(url) ? new URL(url).href : url).replace(/\/$/, '')
  return plain(a) === plain(b)
}
