import { isRecord } from '../core/is-record.ts'
import { hashOf, type LoadedDocument, loadDocument } from './api-document.ts'
import { type ApiSettings, isUrl } from './openapi-options.ts'
import { isOperation, type ListedOperation } from './operations.ts'
import { createFileReader, createUrlReader, fetchText } from './read-document.ts'
import type { Send } from './send-request.ts'

/** What is stored about a document between runs, besides the document itself. */
export interface StoredList {
  readonly format: 2
  readonly location: string
  /** Hashes of its source texts. */
  readonly parts: Readonly<Record<string, string>>
  readonly etag?: string
  /** When it was last checked, in milliseconds since 1970. */
  readonly checkedAt: number
  readonly title?: string
  readonly operations: readonly ListedOperation[]
  /** Seal of the approval of all its operations. */
  readonly seal?: string
}

/** Storage key of an API's list, and of its document. */
export const listKey = ({ document }: Pick<ApiSettings, 'document'>): string => hashOf(document).slice(0, 32)

/** Anything that does not have this shape is read from the document again. */
export const isStoredList = (list: unknown): list is StoredList =>
  isRecord(list) &&
  list['format'] === 2 &&
  isRecord(list['parts']) &&
  typeof list['checkedAt'] === 'number' &&
  (list['seal'] === undefined || typeof list['seal'] === 'string') &&
  Array.isArray(list['operations']) &&
  list['operations'].every(isOperation)

/**
 * Reads a document from disk or from the network, unless it is the same as before.
 * @param getList returns the list of the document that was read before, if that document is still stored
 * @throws PegboardError E_CONFIG_OPENAPI
 */
export async function readIfChanged(
  location: string,
  getList: () => StoredList | undefined,
  send: Send,
): Promise<{ readonly loaded: LoadedDocument; readonly etag?: string | undefined } | undefined> {
  if (!isUrl(location)) {
    const read = createFileReader(location)
    const list = getList()
    if (list && (await hasSameParts(list, read))) return undefined
    return { loaded: await loadDocument(location, read) }
  }
  const fetched = await fetchText(location, send, getList()?.etag)
  if (!fetched || getList()?.parts[location] === hashOf(fetched.text)) return undefined
  return { loaded: await loadDocument(location, createUrlReader(fetched, location, send)), etag: fetched.etag }
}

async function hasSameParts({ parts }: StoredList, read: (location: string) => Promise<string>): Promise<boolean> {
  for (const [location, hash] of Object.entries(parts)) {
    // A missing document is reported when it is read.
    const text = await read(location).catch(() => undefined)
    if (text === undefined || hashOf(text) !== hash) return false
  }
  return true
}
