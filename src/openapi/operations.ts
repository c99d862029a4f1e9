import { plain } from '../core/plain.ts'
import { isRecord } from '../core/record.ts'
import type { Effect } from '../core/tool.ts'
import { type Json, lookUp } from './document.ts'

/** What is needed of an operation before anybody asks for its schema. Plain JSON, kept between runs. */
export interface OperationRecord {
  /** Its operationId, or one made of method and path. Unique in its document. */
  readonly name: string
  readonly method: Method
  readonly path: string
  readonly title: string
  readonly description: string
  readonly tags: readonly string[]
}

/** With a fingerprint of all that its document says of it. */
export interface ListedOperation extends OperationRecord {
  readonly hash: string
}

const METHODS = ['get', 'put', 'post', 'delete', 'head', 'patch'] as const
export type Method = (typeof METHODS)[number]

/** Whether what was kept is one. */
export const isOperation = (value: unknown): boolean =>
  isRecord(value) &&
  [value['name'], value['path'], value['title'], value['description']].every((one) => typeof one === 'string') &&
  METHODS.includes(value['method'] as Method) &&
  Array.isArray(value['tags']) &&
  typeof value['hash'] === 'string' &&
  /^[0-9a-f]{64}$/.test(value['hash'])

const MAX_DESCRIPTION = 1_024
const MAX_NAME = 256
// `..` and its other spellings lead out of the address the operator gave.
const LEAVES = /(?:^|[/\\])(?:\.|%2e){1,2}(?:[/\\?#]|$)|\\|^\/\//i

/** All operations of a document, in its order. */
export function operationsOf(document: Json): OperationRecord[] {
  const { paths } = document
  const found: Array<OperationRecord & { readonly made: string }> = []
  for (const [path, raw] of Object.entries(isRecord(paths) ? paths : {})) {
    const item = lookUp(document, raw)
    if (!item || !path.startsWith('/') || LEAVES.test(path)) continue
    for (const method of METHODS) {
      const operation = lookUp(document, item[method])
      if (operation) found.push(recordOf(method, path, operation))
    }
  }
  const counts = new Map<string, number>()
  for (const { name } of found) counts.set(name, (counts.get(name) ?? 0) + 1)
  const taken = new Set<string>()
  return found.map(({ made, ...record }) => {
    // An id that is there twice names neither.
    const wanted = (counts.get(record.name) ?? 0) > 1 ? made : record.name
    let name = wanted
    for (let n = 2; taken.has(name); n++) name = `${wanted}_${n}`
    taken.add(name)
    return name === record.name ? record : { ...record, name }
  })
}

function recordOf(method: Method, path: string, operation: Json): OperationRecord & { readonly made: string } {
  const { operationId, summary, description, tags, deprecated } = operation
  const made = madeName(method, path)
  const name = typeof operationId === 'string' && operationId.trim() !== '' ? operationId.slice(0, MAX_NAME) : made
  const told = plain(untagged(summary, description)) || `${method.toUpperCase()} ${path}`
  const noted = deprecated === true ? `Deprecated. ${told}` : told
  return {
    name,
    made,
    method,
    path,
    title: plain(bare(summary)).slice(0, 100) || wordsOf(name),
    description: noted.length > MAX_DESCRIPTION ? `${noted.slice(0, MAX_DESCRIPTION - 1)}…` : noted,
    tags: Array.isArray(tags)
      ? tags
          .filter((tag) => typeof tag === 'string')
          .slice(0, 10)
          .map(plain)
      : [],
  }
}

/** `GET /users/{id}/posts` → `get_users_by_id_posts`. */
function madeName(method: string, path: string): string {
  const words = path.split('/').flatMap((part) => (/^\{.*\}$/.test(part) ? ['by', part.slice(1, -1)] : [part]))
  return [method, ...words]
    .join('_')
    .replaceAll(/[^A-Za-z0-9]+/g, '_')
    .replace(/_+$/, '')
    .slice(0, MAX_NAME)
}

const wordsOf = (name: string): string => {
  const words = name
    .replaceAll(/([\p{Ll}\d])(\p{Lu})/gu, '$1 $2')
    .split(/[^\p{L}\p{N}]+/u)
    .join(' ')
    .toLowerCase()
    .trim()
  return words.charAt(0).toUpperCase() + words.slice(1)
}

/** What is said of an operation as one text, every character of it but the marks of HTML. */
export function untagged(summary: unknown, description: unknown): string {
  const [short, long] = [bare(summary), bare(description)]
  // Many say the same twice.
  return long.startsWith(short) ? long : [short.replace(/([^.!?])$/, '$1.'), long].filter(Boolean).join(' ')
}

const bare = (value: unknown): string =>
  typeof value === 'string'
    ? value
        .replaceAll(/<\/?[a-z][^<>]*>/gi, ' ')
        .replaceAll(/[ \t]+/g, ' ')
        .trim()
    : ''

export const effectOf = (method: Method): Effect =>
  method === 'get' || method === 'head' ? 'read' : method === 'delete' ? 'destructive' : 'write'

export const isIdempotent = (method: Method): boolean => method !== 'post' && method !== 'patch'
