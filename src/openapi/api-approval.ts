import type { Json } from '../core/is-record.ts'
import type { ApiSettings } from './openapi-options.ts'
import { sourceOf } from './operation-source.ts'
import type { ListedOperation } from './operations.ts'

export interface AssessedOperation {
  readonly name: string
  readonly hash: string
  /** The operation's part of the document; undefined if the document is not the one it was listed from. */
  readonly source: Json | undefined
  /** The same as JSON; empty if undefined. */
  readonly text: string
}

export interface OperationRejection {
  readonly code: 'E_TOOL_CHANGED' | 'E_TOOL_QUARANTINED'
  /** Completes the sentence "it …". */
  readonly reason: string
  readonly hint: string
  /** True if it waits for a review. */
  readonly needsReview: boolean
}

/**
 * Decides which operations of a document become tools. Implemented by the app with the same trust rules as for
 * servers.
 */
export interface Approval {
  /** Identifies what a document says about an operation. */
  fingerprint(source: Json): string
  /** The rejected operations, by name. */
  assess(
    id: string,
    settings: ApiSettings,
    operations: readonly AssessedOperation[],
  ): ReadonlyMap<string, OperationRejection>
  /** Represents the approval of all these operations; undefined while one is not approved. */
  seal(id: string, operations: readonly ListedOperation[]): string | undefined
  /** True if the approvals are unchanged since the seal was made. */
  isSealValid(id: string, seal: string | undefined): boolean
  /** `2 tools wait for a review: …`. */
  notice(id: string, count: number): string
  onChange(listener: () => void): () => void
}

/**
 * The operations as they are assessed, read one by one; approved ones are not read.
 * @param fingerprint of the operation, because another process may have stored another document
 */
export function listForAssessment(
  operations: readonly ListedOperation[],
  document: () => Json | undefined,
  fingerprint?: Approval['fingerprint'],
): AssessedOperation[] {
  let last: { readonly record: ListedOperation; readonly source: Json } | undefined
  function readSource(record: ListedOperation): Json | undefined {
    if (last?.record === record) return last.source
    const loadedDocument = document()
    if (!loadedDocument) return undefined
    const source = sourceOf(loadedDocument, record)
    if (fingerprint && fingerprint(source) !== record.hash) return undefined
    last = { record, source }
    return source
  }
  return operations.map((record) => ({
    name: record.name,
    hash: record.hash,
    get source() {
      return readSource(record)
    },
    get text() {
      return JSON.stringify(readSource(record)) ?? ''
    },
  }))
}
