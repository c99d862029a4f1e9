import type { SearchDocument } from './document.ts'

/** Finds the tools a query names outright, in any usual spelling of the name. */
export interface NameTable {
  add(document: SearchDocument): void
  remove(document: SearchDocument): void
  /**
   * Ids named by the whole query, or by a word inside it that is written like a name (`use filesystem.read on …`).
   * A bare tool name counts only when one visible tool has it.
   */
  match(query: string, visible: (id: string) => boolean): string[]
}

const LONGEST_NAME = 256
/** A word written like a name: letters joined by dots, underscores, slashes, colons or dashes. */
const NAME_LIKE = /[\p{L}\p{N}]+(?:[._:/-]+[\p{L}\p{N}]+)+/gu
const NAME_LIKE_CAP = 16

export function createNameTable(): NameTable {
  const full = new Map<string, Map<string, readonly string[]>>()
  const bare = new Map<string, Map<string, readonly string[]>>()

  function lookUp(table: typeof full, written: string, visible: (id: string) => boolean): string | undefined {
    const owners = table.get(keyOf(written))
    if (!owners) return undefined
    const literally = written.toLowerCase()
    const seen: string[] = []
    const literal: string[] = []
    for (const [id, spellings] of owners) {
      if (!visible(id)) continue
      seen.push(id)
      if (spellings.includes(literally)) literal.push(id)
      if (literal.length > 1) return undefined
    }
    return seen.length === 1 ? seen[0] : literal[0]
  }

  return {
    add(document) {
      for (const name of document.names) put(full, keyOf(name), document.id, document.names)
      put(bare, keyOf(document.bareName), document.id, [document.bareName.toLowerCase()])
    },
    remove(document) {
      for (const name of document.names) drop(full, keyOf(name), document.id)
      drop(bare, keyOf(document.bareName), document.id)
    },
    match(query, visible) {
      const found = new Set<string>()
      const whole = query.trim()
      if (whole.length <= LONGEST_NAME) {
        const id = lookUp(full, whole, visible) ?? lookUp(bare, whole, visible)
        if (id !== undefined) found.add(id)
      }
      for (const word of query.slice(0, 2048).match(NAME_LIKE)?.slice(0, NAME_LIKE_CAP) ?? []) {
        const id = lookUp(full, word, visible) ?? lookUp(bare, word, visible)
        if (id !== undefined) found.add(id)
      }
      return [...found]
    },
  }
}

/** `GitHub.listIssues`, `github__list_issues` and `github list-issues` share one key. */
function keyOf(name: string): string {
  return name
    .replace(/(\p{Ll}|\p{N})(\p{Lu})/gu, '$1.$2')
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, '.')
    .replace(/^\.|\.$/g, '')
}

function put(
  table: Map<string, Map<string, readonly string[]>>,
  key: string,
  id: string,
  spellings: readonly string[],
): void {
  if (!key) return
  const owners = table.get(key)
  if (owners) owners.set(id, spellings)
  else table.set(key, new Map([[id, spellings]]))
}

function drop(table: Map<string, Map<string, readonly string[]>>, key: string, id: string): void {
  const owners = table.get(key)
  owners?.delete(id)
  if (owners?.size === 0) table.delete(key)
}
