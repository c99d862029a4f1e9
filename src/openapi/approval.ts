import type { Json } from './document.ts'
import type { ListedOperation } from './operations.ts'
import type { ApiSettings } from './options.ts'
import { sourceOf } from './source.ts'

/** An operation as it is looked at before it is let in. */
export interface Seen {
  readonly name: string
  readonly hash: string
  /** What the document says of it; undefined when the document at hand is not the one it was listed of. */
  readonly source: Json | undefined
  /** The same as JSON; empty then. */
  readonly text: string
}

/** Why an operation is no tool, or not yet. */
export interface KeptOut {
  readonly code: 'E_TOOL_CHANGED' | 'E_TOOL_QUARANTINED'
  /** As the end of "it …". */
  readonly reason: string
  readonly hint: string
  /** A person is to look at it. */
  readonly waits: boolean
}

/** Decides which operations of a document become tools. Given by whoever puts the parts together, as it decides for servers, too. */
export interface Approval {
  /** Stands for what a document says of one operation. */
  fingerprint(source: Json): string
  /** Which are kept out, by name. */
  look(id: string, settings: ApiSettings, operations: readonly Seen[]): ReadonlyMap<string, KeptOut>
  /** Stands for the approval of all of these as they are; undefined while one is not approved. */
  seal(id: string, operations: readonly ListedOperation[]): string | undefined
  /** Whether what was approved then is what is approved now. */
  holds(id: string, seal: string | undefined): boolean
  /** `2 tools wait for a review: …`. */
  notice(id: string, count: number): string
  /** Told when something else may be approved. */
  onChange(listener: () => void): () => void
}

/**
 * Each as it is looked at. Nobody asks what approved ones say, and of the others one after the other.
 * @param fingerprint where the document was kept: another process may have kept another one than that of the list
 */
export function seenIn(
  operations: readonly ListedOperation[],
  document: () => Json | undefined,
  fingerprint?: Approval['fingerprint'],
): Seen[] {
  let last: { readonly record: ListedOperation; readonly source: Json } | undefined
  function source(record: ListedOperation): Json | undefined {
    if (last?.record === record) return last.source
    const whole = document()
    if (!whole) return undefined
    const source = sourceOf(whole, record)
    if (fingerprint && fingerprint(source) !== record.hash) return undefined
    last = { record, source }
    return source
  }
  return operations.map((record) => ({
    name: record.name,
    hash: record.hash,
    get source() {
      return source(record)
    },
    get text() {
      return JSON.stringify(source(record)) ?? ''
    },
  }))
}
