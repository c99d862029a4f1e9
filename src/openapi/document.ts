import { hash } from 'node:crypto'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { PegboardError } from '../core/errors.ts'
import { isRecord } from '../core/record.ts'

export type Json = Readonly<Record<string, unknown>>

/** A document in one piece: references into other files lead to copies under `x-files`. */
export interface Loaded {
  readonly document: Json
  /** Of the texts it was made of, by location: changes when any of them does. */
  readonly parts: Readonly<Record<string, string>>
}

const MAX_PARTS = 100
const FILES = 'x-files'

/**
 * Reads a document and whatever it refers to.
 * @param read gives the text at a location, and refuses those it should not go to
 * @throws PegboardError E_CONFIG_OPENAPI when it is not OpenAPI 3.x; whatever `read` throws
 */
export async function loadDocument(location: string, read: (location: string) => Promise<string>): Promise<Loaded> {
  const parts: Record<string, string> = {}
  const others: Record<string, unknown> = {}
  const names = new Map<string, string>([[location, '']])

  async function load(at: string): Promise<unknown> {
    const text = await read(at)
    parts[at] = hashOf(text)
    const value = await parseText(text)
    for (const node of refsIn(value)) {
      const [file = '', pointer = ''] = split(String(node['$ref']))
      const target = file === '' ? at : resolved(at, file)
      if (!names.has(target)) {
        if (names.size > MAX_PARTS) throw unusable(`it refers to more than ${MAX_PARTS} other documents`)
        names.set(target, `f${names.size}`)
        others[names.get(target) as string] = await load(target)
      }
      const name = names.get(target) as string
      node['$ref'] = name === '' ? `#${pointer}` : `#/${FILES}/${name}${pointer}`
    }
    return value
  }

  const document = await load(location)
  if (!isRecord(document)) throw unusable('it is not an object')
  if (typeof document['swagger'] === 'string')
    throw unusable(`it is Swagger ${document['swagger']}; convert it to OpenAPI 3`)
  if (typeof document['openapi'] !== 'string' || !/^3\.\d/.test(document['openapi']))
    throw unusable('it has no "openapi": "3.x"')
  return { document: Object.keys(others).length > 0 ? { ...document, [FILES]: others } : document, parts }
}

export const hashOf = (text: string): string => hash('sha256', text)

/** JSON or YAML. */
export async function parseText(text: string): Promise<unknown> {
  const clean = text.replace(/^\uFEFF/, '')
  if (/^\s*[{[]/.test(clean)) {
    try {
      return JSON.parse(clean)
    } catch {
      // YAML is wider, and says where it is wrong.
    }
  }
  const yaml = await import('yaml')
  try {
    return yaml.parse(clean, { merge: true, maxAliasCount: 1_000, logLevel: 'error' })
  } catch (error) {
    throw unusable(`it is neither JSON nor YAML: ${(error as Error).message.split('\n')[0]}`)
  }
}

function refsIn(value: unknown): Array<Record<string, unknown>> {
  const found: Array<Record<string, unknown>> = []
  const open: unknown[] = [value]
  const seen = new Set<unknown>()
  while (open.length > 0) {
    const node = open.pop()
    if (typeof node !== 'object' || node === null || seen.has(node)) continue
    // An alias of YAML is the same object again.
    seen.add(node)
    if (typeof (node as Json)['$ref'] === 'string') found.push(node as Record<string, unknown>)
    for (const child of Object.values(node)) open.push(child)
  }
  return found
}

function split(ref: string): [string, string] {
  const at = ref.indexOf('#')
  return at < 0 ? [ref, ''] : [ref.slice(0, at), ref.slice(at + 1)]
}

function resolved(base: string, file: string): string {
  const root = /^https?:/i.test(base) ? new URL(base) : pathToFileURL(base)
  if (!URL.canParse(file, root.href)) throw unusable(`it refers to ${JSON.stringify(file.slice(0, 80))}`)
  const url = new URL(file, root.href)
  return url.protocol === 'file:' && root.protocol === 'file:' ? fileURLToPath(url) : url.href
}

export const unusable = (why: string, cause?: unknown): PegboardError =>
  new PegboardError('E_CONFIG_OPENAPI', `The document cannot be used: ${why}.`, cause === undefined ? {} : { cause })

/** What a reference means; references to references are followed. Undefined where it leads nowhere or in a circle. */
export function lookUp(document: Json, value: unknown): Json | undefined {
  let at = value
  for (let hops = 0; hops < 50; hops++) {
    if (!isRecord(at)) return undefined
    if (typeof at['$ref'] !== 'string') return at
    at = pointed(document, at['$ref'])
  }
  return undefined
}

/** What a pointer such as `#/components/schemas/Pet` leads to. */
export function pointed(document: Json, ref: string): unknown {
  if (!ref.startsWith('#/')) return ref === '#' ? document : undefined
  let at: unknown = document
  for (const part of ref.slice(2).split('/')) {
    const key = decoded(part).replaceAll('~1', '/').replaceAll('~0', '~')
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, key)) return undefined
    at = (at as Record<string, unknown>)[key]
  }
  return at
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    // A lone % is a name like any other.
    return part
  }
}
