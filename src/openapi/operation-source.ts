import { asRecord, isRecord, type Json } from '../core/is-record.ts'
import { resolvePointer } from '../core/json-pointer.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import { createUniqueNames } from '../core/tool-names.ts'
import { lookUp } from './api-document.ts'
import { findOperation, listParameters, type OperationRecord, removeTags } from './operations.ts'

/** An operation with more referenced parts, or deeper ones, is not used. */
const MAX_PARTS = 20_000
const MAX_DEPTH = 100

/**
 * Everything the document says about an operation that a model may read or that shapes a request. This is what a
 * person approves; it is not made of the converted schemas, because a later version may convert the same document
 * better.
 */
export function sourceOf(
  document: Json,
  { name, method, path }: Pick<OperationRecord, 'name' | 'method' | 'path'>,
): Json {
  const { item, operation } = findOperation(document, { method, path })
  const { summary, description, tags, deprecated } = operation
  const nameAndDescription = { name, description: removeTags(summary, description) }
  const copier = createCopier(document)
  try {
    const server = firstServer(operation, item, document)
    const security = operation['security'] ?? document['security']
    return {
      ...nameAndDescription,
      annotations: { method, path, ...omitUndefined({ tags: copier.copy(tags), deprecated: copier.copy(deprecated) }) },
      inputSchema: {
        parameters: parametersOf(document, item, operation, copier.copy),
        ...omitUndefined({ body: copier.copy(lookUp(document, operation['requestBody'])) }),
        ...copier.definitions(),
      },
      outputSchema: outlineResponses(document, operation, copier),
      ...(server ? { server: copier.copy(omitUndefined({ url: server['url'], variables: server['variables'] })) } : {}),
      ...omitUndefined({ security: copier.copy(security), schemes: schemesOf(document, security) }),
    }
  } catch (error) {
    if (error !== tooLargeError) throw error
    return { ...nameAndDescription, annotations: { method, path }, tooLarge: true }
  }
}

export const isTooLarge = (source: Json): boolean => source['tooLarge'] === true

const tooLargeError = new Error('the operation is too large')

interface Copier {
  /** The same with names instead of references, counting the parts. */
  copy(value: unknown, depth?: number): unknown
  /** Everything referenced so far, by name. */
  definitions(): Json
}

function createCopier(document: Json): Copier {
  const names = new Map<string, string>()
  const uniqueName = createUniqueNames()
  const pendingRefs: string[] = []
  let parts = 0

  /** The last part of the reference; its file may change. */
  function nameOf(ref: string): string {
    const cached = names.get(ref)
    if (cached !== undefined) return cached
    const name = uniqueName(ref.split('/').pop() || 'it')
    names.set(ref, name)
    pendingRefs.push(ref)
    return name
  }

  function copy(value: unknown, depth = 0): unknown {
    if (++parts > MAX_PARTS || depth > MAX_DEPTH) throw tooLargeError
    if (Array.isArray(value)) return value.map((item) => copy(item, depth + 1))
    if (!isRecord(value)) return value
    return Object.fromEntries(
      Object.entries(value).map(([key, member]) => [
        key,
        key === '$ref' && typeof member === 'string' ? nameOf(member) : copy(member, depth + 1),
      ]),
    )
  }

  return {
    copy,
    definitions() {
      const entries: [string, unknown][] = []
      for (let ref = pendingRefs.shift(); ref !== undefined; ref = pendingRefs.shift())
        entries.push([nameOf(ref), copy(resolvePointer(document, ref) ?? null)])
      return entries.length > 0 ? { definitions: Object.fromEntries(entries) } : {}
    },
  }
}

/** By place and name. Parameters of the operation override those of the path. */
function parametersOf(document: Json, item: Json, operation: Json, copy: Copier['copy']): Json {
  return Object.fromEntries(
    listParameters(document, item, operation).map((parameter) => [
      `${parameter['in']}:${parameter['name']}`,
      copy(parameter),
    ]),
  )
}

/** Only the outline of responses is shown: their fields with types and descriptions. */
function outlineResponses(document: Json, { responses }: Json, copier: Copier): Json {
  const successes = Object.entries(asRecord(responses)).filter(([status]) => /^2/.test(status))
  return Object.fromEntries(
    successes.map(([status, raw]) => {
      const content = lookUp(document, raw)?.['content']
      const types = Object.entries(asRecord(content)).map(([type, media]) => [
        type,
        outline(document, lookUp(document, media)?.['schema'], copier, 0),
      ])
      return [status, Object.fromEntries(types)]
    }),
  )
}

/** Follows references through merged schemas and list items. */
function outline(document: Json, schema: unknown, copier: Copier, depth: number): unknown {
  if (depth > MAX_DEPTH) throw tooLargeError
  const resolved = lookUp(document, schema)
  if (!resolved) return null
  const siblings = isRecord(schema) && resolved !== schema ? schema : {}
  const { properties, allOf, items } = { ...resolved, ...siblings }
  const fields = Object.entries(asRecord(properties)).map(([name, field]) => [
    name,
    isRecord(field) ? copier.copy(omitUndefined({ type: field['type'], description: field['description'] })) : null,
  ])
  return {
    ...(fields.length > 0 ? { properties: Object.fromEntries(fields) } : {}),
    ...(Array.isArray(allOf) ? { allOf: allOf.map((part) => outline(document, part, copier, depth + 1)) } : {}),
    ...(items === undefined ? {} : { items: outline(document, items, copier, depth + 1) }),
  }
}

const firstServer = (...places: readonly Json[]): Json | undefined =>
  places
    .map(({ servers }) => servers)
    .find((list): list is unknown[] => Array.isArray(list) && list.length > 0)
    ?.find(isRecord)

/** Addresses and places for credentials, of the named schemes; of all schemes if none is named. */
function schemesOf(document: Json, security: unknown): Json | undefined {
  const allSchemes = asRecord(asRecord(document['components'])['securitySchemes'])
  const schemeNames = Array.isArray(security)
    ? security.flatMap((requirement) => (isRecord(requirement) ? Object.keys(requirement) : []))
    : undefined
  const schemes = Object.entries(allSchemes).filter(([name]) => schemeNames?.includes(name) ?? true)
  if (schemes.length === 0) return undefined
  return Object.fromEntries(
    schemes.map(([name, scheme]) => {
      const { type, in: place, name: key, scheme: kind, flows } = lookUp(document, scheme) ?? {}
      const { tokenUrl } = asRecord(asRecord(flows)['clientCredentials'])
      return [name, omitUndefined({ type, in: place, name: key, scheme: kind, tokenUrl })]
    }),
  )
}
