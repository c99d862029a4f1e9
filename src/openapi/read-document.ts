import { readFile, realpath } from 'node:fs/promises'
import { dirname, sep } from 'node:path'
import { assertRegularFile, FILE_FAULTS } from '../core/regular-file.ts'
import { createDocumentError } from './api-document.ts'
import type { Send } from './send-request.ts'

const MAX_BYTES = 64 * 1024 * 1024

/**
 * Reads a document on disk and files in or below its folder; nothing outside it and nothing from the network.
 * @throws PegboardError E_CONFIG_OPENAPI
 */
export function createFileReader(document: string): (location: string) => Promise<string> {
  return async (location) => {
    if (/^https?:/i.test(location)) throw createDocumentError('a file may not refer to the network')
    try {
      const [folder, realPath] = await Promise.all([realpath(dirname(document)), realpath(location)])
      if (location !== document && !realPath.startsWith(folder.endsWith(sep) ? folder : folder + sep))
        throw createDocumentError('it refers to a file outside its folder')
      assertRegularFile(realPath)
      const text = await readFile(realPath, 'utf8')
      if (text.length > MAX_BYTES) throw createDocumentError('it is larger than 64 MiB')
      return text
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (code === undefined || code.startsWith('E_')) throw error
      const problem = FILE_FAULTS[code] ?? `cannot be read (${code})`
      throw createDocumentError(location === document ? `the file ${problem}` : `a file it refers to ${problem}`, error)
    }
  }
}

/** A downloaded text and its ETag. */
export interface FetchedDocument {
  readonly text: string
  readonly etag?: string
}

/** @returns undefined if unchanged since the given ETag @throws PegboardError E_CONFIG_OPENAPI */
export async function fetchText(url: string, send: Send, etag?: string): Promise<FetchedDocument | undefined> {
  const response = await send({
    method: 'GET',
    url: new URL(url),
    headers: {
      accept: 'application/json, application/yaml, text/yaml, */*',
      ...(etag === undefined ? {} : { 'if-none-match': etag }),
    },
    timeoutMs: 30_000,
    maxBytes: MAX_BYTES,
  })
  if (response.status === 304) return undefined
  if (response.status !== 200) throw createDocumentError(`its server answers ${response.status}`)
  const newEtag = response.headers['etag']
  return { text: response.body.toString('utf8'), ...(typeof newEtag === 'string' ? { etag: newEtag } : {}) }
}

/** Reads a document from the network, and documents of the same origin that it refers to. */
export function createUrlReader(
  fetched: FetchedDocument,
  document: string,
  send: Send,
): (location: string) => Promise<string> {
  return async (location) => {
    if (location === document) return fetched.text
    if (new URL(location).origin !== new URL(document).origin)
      throw createDocumentError('it refers to a document of another server')
    return (await fetchText(location, send))?.text ?? ''
  }
}
