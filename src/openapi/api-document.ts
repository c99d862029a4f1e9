import { hash } from 'node:crypto'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { messageOf, PegboardError } from '../core/errors.ts'
import { isRecord, type Json } from '../core/is-record.ts'
import { resolvePointer } from '../core/json-pointer.ts'
import { createPause } from '../core/pause.ts'
import { parseDocument } from './parse-document.ts'

/** A document with all its references resolved into one object; copies of other files are under `x-files`. */
export interface LoadedDocument {
  readonly document: Json
  /** Hashes of the source texts by location. */
  readonly parts: Readonly<Record<string, string>>
}

const MAX_PARTS = 100
const FILES = 'x-files'

/**
 * Reads a document and everything it refers to.
 * @param read returns the text at a location, or rejects if the location is not allowed
 * @throws PegboardError E_CONFIG_OPENAPI if it is not OpenAPI 3.x; whatever `read` throws
 */
export async function loadDocument(
  location: string,
  read: (location: string) => Promise<string>,
): Promise<LoadedDocument> {
  const parts: Record<string, string> = {}
  const otherDocuments: Record<string, unknown> = {}
  const names = new Map<string, string>([[location, '']])

  async function load(partLocation: string): Promise<unknown> {
    const text = await read(partLocation)
    parts[partLocation] = hashOf(text)
    const value = await parseDocument(text).catch((error: unknown) => {
      throw createDocumentError(messageOf(error))
    })
    for (const node of await findReferences(value)) {
      const [file = '', pointer = ''] = splitReference(String(node['$ref']))
      const target = file === '' ? partLocation : resolveLocation(partLocation, file)
      if (!names.has(target)) {
        if (names.size > MAX_PARTS) throw createDocumentError(`it refers to more than ${MAX_PARTS} other documents`)
        names.set(target, `f${names.size}`)
        otherDocuments[names.get(target) as string] = await load(target)
      }
      const name = names.get(target) as string
      node['$ref'] = name === '' ? `#${pointer}` : `#/${FILES}/${name}${pointer}`
    }
    return value
  }

  const document = await load(location)
  if (!isRecord(document)) throw createDocumentError('it is not an object')
  if (typeof document['swagger'] === 'string')
    throw createDocumentError(`it is Swagger ${document['swagger']}; convert it to OpenAPI 3`)
  if (typeof document['openapi'] !== 'string' || !/^3\.\d/.test(document['openapi']))
    throw createDocumentError('it has no "openapi": "3.x"')
  return {
    document: Object.keys(otherDocuments).length > 0 ? { ...document, [FILES]: otherDocuments } : document,
    parts,
  }
}

export const hashOf = (text: string): string => hash('sha256', text)

async function findReferences(value: unknown): Promise<Array<Record<string, unknown>>> {
  const pause = createPause()
  const references: Array<Record<string, unknown>> = []
  const stack: unknown[] = [value]
  const seen = new Set<unknown>()
  while (stack.length > 0) {
    const node = stack.pop()
    if (typeof node !== 'object' || node === null || seen.has(node)) continue
    await pause()
    // A YAML alias is the same object again.
    seen.add(node)
    if (typeof (node as Json)['$ref'] === 'string') references.push(node as Record<string, unknown>)
    for (const child of Object.values(node)) stack.push(child)
  }
  return references
}

function splitReference(ref: string): [string, string] {
  const hashIndex = ref.indexOf('#')
  return hashIndex < 0 ? [ref, ''] : [ref.slice(0, hashIndex), ref.slice(hashIndex + 1)]
}

function resolveLocation(base: string, file: string): string {
  const baseUrl = /^https?:/i.test(base) ? new URL(base) : pathToFileURL(base)
  if (!URL.canParse(file, baseUrl.href)) throw createDocumentError(`it refers to ${JSON.stringify(file.slice(0, 80))}`)
  const url = new URL(file, baseUrl.href)
  return url.protocol === 'file:' && baseUrl.protocol === 'file:' ? fileURLToPath(url) : url.href
}

export const createDocumentError = (reason: string, cause?: unknown): PegboardError =>
  new PegboardError('E_CONFIG_OPENAPI', `The document cannot be used: ${reason}.`, { cause })

/** Follows a reference, and references it leads to. Undefined if it leads nowhere or in a circle. */
export function lookUp(document: Json, value: unknown): Json | undefined {
  let current = value
  for (let hops = 0; hops < 50; hops++) {
    if (!isRecord(current)) return undefined
    if (typeof current['$ref'] !== 'string') return current
    current = resolvePointer(document, current['$ref'])
  }
  return undefined
}
