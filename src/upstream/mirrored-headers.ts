import { isRecord } from '../core/is-record.ts'
import { DATA_KEYWORDS, MAP_KEYWORDS } from '../core/schema-keywords.ts'

/** An argument that a server wants repeated in an `Mcp-Param-<header>` header (2026-07-28 over HTTP). */
export interface MirroredArgument {
  readonly path: readonly string[]
  readonly header: string
}

const KEY = 'x-mcp-header'
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
const TYPES = new Set(['string', 'integer', 'boolean'])

/**
 * Finds `x-mcp-header` marks. They are allowed only on string, integer and boolean properties reached through
 * `properties`, each header once.
 * @returns the marks, or why the schema must not be used
 */
export function mirroredArguments(schema: unknown): readonly MirroredArgument[] | string {
  const found: MirroredArgument[] = []
  const headers = new Set<string>()
  const faultIn = (
    node: unknown,
    path: readonly string[],
    reachable: boolean,
    isSchema: boolean,
  ): string | undefined => {
    if (Array.isArray(node)) return firstFault(node.map((one) => faultIn(one, path, false, true)))
    if (!isRecord(node)) return undefined
    if (isSchema && Object.hasOwn(node, KEY)) {
      const header = node[KEY]
      const where = path.join('.') || 'its root'
      if (!reachable || path.length === 0) return `${KEY} is not allowed at ${where}`
      if (typeof header !== 'string' || !TOKEN.test(header)) return `${KEY} at ${where} is not a header name`
      if (typeof node['type'] !== 'string' || !TYPES.has(node['type'])) return `${KEY} at ${where} is on a wrong type`
      if (headers.has(header.toLowerCase())) return `${KEY} "${header}" is used twice`
      headers.add(header.toLowerCase())
      found.push({ path, header })
    }
    return firstFault(
      Object.entries(node).map(([key, value]) => {
        // Keys inside `properties` are argument names, not keywords.
        if (!isSchema) return faultIn(value, [...path, key], reachable, true)
        if (key === 'properties') return faultIn(value, path, reachable, false)
        return DATA_KEYWORDS.has(key) ? undefined : faultIn(value, path, false, !MAP_KEYWORDS.has(key))
      }),
    )
  }
  return faultIn(schema, [], true, true) ?? found
}

const firstFault = (faults: readonly (string | undefined)[]): string | undefined =>
  faults.find((fault) => fault !== undefined)

/** The headers for one call; absent and null arguments get none. */
export function mirrorHeaders(mirrored: readonly MirroredArgument[], args: unknown): Record<string, string> {
  const headers: Record<string, string> = {}
  for (const { path, header } of mirrored) {
    let value = args
    for (const key of path) value = isRecord(value) && Object.hasOwn(value, key) ? value[key] : undefined
    if (typeof value === 'string' || typeof value === 'boolean' || Number.isSafeInteger(value))
      headers[`Mcp-Param-${header}`] = encode(String(value))
  }
  return headers
}

const encode = (value: string): string =>
  /^[\x21-\x7e]([\t\x20-\x7e]*[\x21-\x7e])?$/.test(value) && !/^=\?base64\?.*\?=$/.test(value)
    ? value
    : `=?base64?${Buffer.from(value, 'utf8').toString('base64')}?=`
