import { hash } from 'node:crypto'

/** Cursor allows 60 characters for server and tool together, VS Code 64 with its prefix; 46 fits both. */
export const WIRE_NAME_MAX = 46

/** Prefix of the id of a bundled module whose own name belongs to a configured server. */
export const OWN_PREFIX = 'pegboard_'

const MODULE_ID = /^[a-z][a-z0-9_-]*$/
const LEGAL_WIRE = /^[A-Za-z0-9_-]+$/
const TOOL_NAME = /^[A-Za-z0-9_.-]{1,64}$/

export const isModuleId = (id: string): boolean => id.length <= 64 && MODULE_ID.test(id)
export const isToolName = (name: string): boolean => TOOL_NAME.test(name)

/**
 * The name that clients see for an id: dots become `__`, other illegal characters `_`, and a long name is cut and
 * extended by eight characters of its hash, so the same id always gets the same name. Matches
 * `^[A-Za-z0-9_-]{1,46}$`.
 */
export function wireName(id: string, max: number = WIRE_NAME_MAX): string {
  if (id.length <= max && LEGAL_WIRE.test(id)) return id
  const legal = id.replaceAll('.', '__').replaceAll(/[^A-Za-z0-9_-]/g, '_')
  if (legal.length <= max && legal.length > 0) return legal
  return distinctName(legal, id, max)
}

/** `name` with eight characters of a hash of `id`; the same in every run. */
export function distinctName(name: string, id: string, max: number = WIRE_NAME_MAX): string {
  return `${name.slice(0, max - 9)}_${hash('sha256', id).slice(0, 8)}`
}

/** Like `distinctName`, with another hash if the name is taken. A hash instead of a counter: a name seldom depends on other names. */
export function findFreeName(name: string, id: string, isTaken: (name: string) => boolean, max?: number): string {
  for (let seed = id; ; seed += '#') {
    const free = distinctName(name, seed, max)
    if (!isTaken(free)) return free
  }
}

/** The part of a tool's id after that of its module or server: `fs.read` → read. */
export const actionOf = ({ id, module }: { readonly id: string; readonly module: string }): string =>
  id.slice(module.length + 1)

/** An id of a server's or API's owner or tool without its prefix: `mcp_github.search` → github.search. */
export const removeOwnerPrefix = (id: string): string => id.replace(/^(?:mcp|api)_/, '')

/** Matches nearly every name; Unicode classes cost several times as much. */
export const ASCII = /^[\x00-\x7f]*$/

/** The words of a tool's name in lower case: `getFile_contents` → get, file, contents. */
export const wordsOf = (name: string): string[] =>
  (ASCII.test(name)
    ? name
        .replaceAll(/([a-z\d])([A-Z])/g, '$1 $2')
        .toLowerCase()
        .split(/[^a-z\d]+/)
    : name
        .replaceAll(/([\p{Ll}\d])(\p{Lu})/gu, '$1 $2')
        .toLowerCase()
        .split(/[^\p{L}\p{N}]+/u)
  ).filter(Boolean)

/** Damerau-Levenshtein distance (adjacent swaps count one); stops at `max + 1`. */
export function editDistance(a: string, b: string, max: number): number {
  if (Math.abs(a.length - b.length) > max) return max + 1
  let older: number[] = []
  let previous = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1
      let best = Math.min((previous[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (previous[j - 1] ?? 0) + cost)
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        best = Math.min(best, (older[j - 2] ?? 0) + 1)
      row.push(best)
    }
    older = previous
    previous = row
  }
  return previous[b.length] ?? max + 1
}

/** `; did you mean "x"?`, or `otherwise` if no candidate is near. */
export function didYouMean(name: string, candidates: Iterable<string>, otherwise = '', most?: number): string {
  const [near] = findNearest(name, candidates, most)
  return near === undefined ? otherwise : `; did you mean "${near}"?`
}

/** The `limit` nearest candidates, nearest first. Each differs by at most `most` edits, and by half of the name's length. */
export function findNearest(name: string, candidates: Iterable<string>, most = 3, limit = 3): string[] {
  const lowerName = name.toLowerCase()
  const max = Math.min(most, Math.floor(lowerName.length / 2))
  const scored: Array<readonly [number, string]> = []
  for (const candidate of candidates) {
    const distance = editDistance(lowerName, candidate.toLowerCase(), max)
    if (distance <= max) scored.push([distance, candidate])
  }
  return scored
    .sort((a, b) => a[0] - b[0] || (a[1] < b[1] ? -1 : 1))
    .slice(0, limit)
    .map(([, candidate]) => candidate)
}

/** Returns a function that makes names unique: a repeated name gets `_2`, then `_3`. */
export function createUniqueNames(): (name: string) => string {
  const used = new Set<string>()
  return (name) => {
    let free = name
    for (let n = 2; used.has(free); n++) free = `${name}_${n}`
    used.add(free)
    return free
  }
}
