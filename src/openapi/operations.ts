import { asRecord, isRecord, type Json } from '../core/is-record.ts'
import { createPause } from '../core/pause.ts'
import { toPrintable } from '../core/printable.ts'
import type { Effect } from '../core/tool.ts'
import { createUniqueNames } from '../core/tool-names.ts'
import { truncate } from '../core/truncate.ts'
import { lookUp } from './api-document.ts'

/** What is known about an operation before its schema is needed. Plain JSON, stored between runs. */
export interface OperationRecord {
  /** Its operationId, or a name made from method and path. Unique in the document. */
  readonly name: string
  readonly method: Method
  readonly path: string
  readonly title: string
  /** The document gives no title; this one is made from the name. */
  readonly untitled?: boolean
  /** The first 1,024 characters. */
  readonly description: string
  readonly cut?: boolean
  readonly tags: readonly string[]
}

/** With a fingerprint of everything the document says about it. */
export interface ListedOperation extends OperationRecord {
  readonly hash: string
}

const METHODS = ['get', 'put', 'post', 'delete', 'head', 'patch'] as const
export type Method = (typeof METHODS)[number]

/** Checks the shape of a stored operation. */
export const isOperation = (value: unknown): boolean =>
  isRecord(value) &&
  [value['name'], value['path'], value['title'], value['description']].every((text) => typeof text === 'string') &&
  METHODS.includes(value['method'] as Method) &&
  Array.isArray(value['tags']) &&
  typeof value['hash'] === 'string' &&
  /^[0-9a-f]{64}$/.test(value['hash'])

const MAX_DESCRIPTION = 1_024
const MAX_NAME = 256
// `..` and its other spellings lead out of the operator's base URL.
const LEAVES_BASE_URL = /(?:^|[/\\])(?:\.|%2e){1,2}(?:[/\\?#]|$)|\\|^\/\//i

type UnnamedOperation = OperationRecord & { readonly generatedName: string }

/** All operations of a document, in order. */
export async function operationsOf(document: Json, pause = createPause()): Promise<OperationRecord[]> {
  const { paths } = document
  const operations: UnnamedOperation[] = []
  for (const [path, raw] of Object.entries(asRecord(paths))) {
    const item = lookUp(document, raw)
    if (!item || !path.startsWith('/') || LEAVES_BASE_URL.test(path)) continue
    for (const method of METHODS) {
      const operation = lookUp(document, item[method])
      if (operation) operations.push(recordOf(method, path, operation))
    }
    await pause()
  }
  return withUniqueNames(operations)
}

function withUniqueNames(operations: readonly UnnamedOperation[]): OperationRecord[] {
  const counts = new Map<string, number>()
  for (const { name } of operations) counts.set(name, (counts.get(name) ?? 0) + 1)
  const uniqueName = createUniqueNames()
  return operations.map(({ generatedName, ...record }) => {
    // A duplicate operationId is used for neither operation.
    const name = uniqueName((counts.get(record.name) ?? 0) > 1 ? generatedName : record.name)
    return name === record.name ? record : { ...record, name }
  })
}

function recordOf(method: Method, path: string, operation: Json): UnnamedOperation {
  const { operationId, summary, tags } = operation
  const generatedName = generateName(method, path)
  const name =
    typeof operationId === 'string' && operationId.trim() !== '' ? operationId.slice(0, MAX_NAME) : generatedName
  const title = toPrintable(plainText(summary)).slice(0, 100)
  const fullDescription = descriptionOf(method, path, operation)
  return {
    name,
    generatedName,
    method,
    path,
    title: title || titleOf(name),
    ...(title === '' ? { untitled: true } : {}),
    description: truncate(fullDescription, MAX_DESCRIPTION),
    ...(fullDescription.length > MAX_DESCRIPTION ? { cut: true } : {}),
    tags: Array.isArray(tags)
      ? tags
          .filter((tag) => typeof tag === 'string')
          .slice(0, 10)
          .map(toPrintable)
      : [],
  }
}

export function descriptionOf(method: Method, path: string, { summary, description, deprecated }: Json): string {
  const text = toPrintable(removeTags(summary, description)) || `${method.toUpperCase()} ${path}`
  return deprecated === true ? `Deprecated. ${text}` : text
}

/** `GET /users/{id}/posts` → `get_users_by_id_posts`. */
function generateName(method: string, path: string): string {
  const words = path.split('/').flatMap((part) => (/^\{.*\}$/.test(part) ? ['by', part.slice(1, -1)] : [part]))
  return [method, ...words]
    .join('_')
    .replaceAll(/[^A-Za-z0-9]+/g, '_')
    .replace(/_+$/, '')
    .slice(0, MAX_NAME)
}

const titleOf = (name: string): string => {
  const words = name
    .replaceAll(/([\p{Ll}\d])(\p{Lu})/gu, '$1 $2')
    .split(/[^\p{L}\p{N}]+/u)
    .join(' ')
    .toLowerCase()
    .trim()
  return words.charAt(0).toUpperCase() + words.slice(1)
}

/** Summary and description as one text without HTML tags. */
export function removeTags(summary: unknown, description: unknown): string {
  const [short, long] = [plainText(summary), plainText(description)]
  // Many documents repeat the summary in the description.
  return long.startsWith(short) ? long : [short.replace(/([^.!?])$/, '$1.'), long].filter(Boolean).join(' ')
}

const plainText = (value: unknown): string =>
  typeof value === 'string'
    ? value
        .replaceAll(/<\/?[a-z][^<>]*>/gi, ' ')
        .replaceAll(/[ \t]+/g, ' ')
        .trim()
    : ''

/** An operation of the document, with the path item that it belongs to. */
export function findOperation(document: Json, { method, path }: Pick<OperationRecord, 'method' | 'path'>) {
  const { paths } = document
  const item = lookUp(document, isRecord(paths) ? paths[path] : undefined) ?? {}
  return { item, operation: lookUp(document, item[method]) ?? {} }
}

/** The parameters of a path and of its operation, which come later and override those of the path. */
export const listParameters = (document: Json, ...places: readonly Json[]): readonly Json[] =>
  places
    .flatMap(({ parameters }) => (Array.isArray(parameters) ? parameters : []))
    .map((raw) => lookUp(document, raw))
    .filter((parameter) => typeof parameter?.['in'] === 'string' && typeof parameter['name'] === 'string') as Json[]

/** The names of the parameters in a path. */
export const placeholdersIn = (path: string): string[] =>
  [...path.matchAll(/\{([^{}]+)\}/g)].map(([, name]) => name as string)

export const effectOf = (method: Method): Effect =>
  method === 'get' || method === 'head' ? 'read' : method === 'delete' ? 'destructive' : 'write'

export const isIdempotent = (method: Method): boolean => method !== 'post' && method !== 'patch'
