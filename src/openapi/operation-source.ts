import { asRecord, isRecord, type Json } from '../core/is-record.ts'
import { resolvePointer } from '../core/json-pointer.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import { createUniqueNames } from '../core/tool-names.ts'
import { lookUp } from './api-document.ts'
import { findOperation, listParameters, type OperationRecord, removeTags } from './operations.ts'

/** An operation with more referenced parts, or deeper ones, is not used. */
const MOST_PARTS = 20_000
const DEEPEST = 100

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
  const copy = createCopy(document)
  try {
    const server = firstServer(operation, item, document)
    const security = operation['security'] ?? document['security']
    return {
      ...nameAndDescription,
      annotations: { method, path, ...omitUndefined({ tags: copy.of(tags), deprecated: copy.of(deprecated) }) },
      inputSchema: {
        parameters: parametersOf(document, item, operation, copy.of),
        ...omitUndefined({ body: copy.of(lookUp(document, operation['requestBody'])) }),
        ...copy.definitions(),
      },
      outputSchema: answersOf(document, operation, copy),
      ...(server ? { server: copy.of(omitUndefined({ url: server['url'], variables: server['variables'] })) } : {}),
      ...omitUndefined({ security: copy.of(security), schemes: schemesOf(document, security) }),
    }
  } catch (error) {
    if (error !== tooMuch) throw error
    return { ...nameAndDescription, annotations: { method, path }, tooLarge: true }
  }
}

export const isTooLarge = (source: Json): boolean => source['tooLarge'] === true

const tooMuch = new Error('the operation is too large')

interface Copy {
  /** The same with names instead of references, counting the parts. */
  of(value: unknown, depth?: number): unknown
  /** Everything referenced so far, by name. */
  definitions(): Json
}

function createCopy(document: Json): Copy {
  const names = new Map<string, string>()
  const uniqueName = createUniqueNames()
  const open: string[] = []
  let parts = 0

  /** The last part of the reference; its file may change. */
  function nameOf(ref: string): string {
    const cached = names.get(ref)
    if (cached !== undefined) return cached
    const name = uniqueName(ref.split('/').pop() || 'it')
    names.set(ref, name)
    open.push(ref)
    return name
  }

  function of(value: unknown, depth = 0): unknown {
    if (++parts > MOST_PARTS || depth > DEEPEST) throw tooMuch
    if (Array.isArray(value)) return value.map((one) => of(one, depth + 1))
    if (!isRecord(value)) return value
    return Object.fromEntries(
      Object.entries(value).map(([key, one]) => [
        key,
        key === '$ref' && typeof one === 'string' ? nameOf(one) : of(one, depth + 1),
      ]),
    )
  }

  return {
    of,
    definitions() {
      const entries: [string, unknown][] = []
      for (let ref = open.shift(); ref !== undefined; ref = open.shift())
        entries.push([nameOf(ref), of(resolvePointer(document, ref) ?? null)])
      return entries.length > 0 ? { definitions: Object.fromEntries(entries) } : {}
    },
  }
}

/** By place and name. Parameters of the operation override those of the path. */
function parametersOf(document: Json, item: Json, operation: Json, copy: Copy['of']): Json {
  return Object.fromEntries(
    listParameters(document, item, operation).map((one) => [`${one['in']}:${one['name']}`, copy(one)]),
  )
}

/** Only the outline of responses is shown: their fields with types and descriptions. */
function answersOf(document: Json, { responses }: Json, copy: Copy): Json {
  const good = Object.entries(asRecord(responses)).filter(([status]) => /^2/.test(status))
  return Object.fromEntries(
    good.map(([status, raw]) => {
      const content = lookUp(document, raw)?.['content']
      const types = Object.entries(asRecord(content)).map(([type, media]) => [
        type,
        outline(document, lookUp(document, media)?.['schema'], copy, 0),
      ])
      return [status, Object.fromEntries(types)]
    }),
  )
}

/** Follows references through merged schemas and list items. */
function outline(document: Json, schema: unknown, copy: Copy, depth: number): unknown {
  if (depth > DEEPEST) throw tooMuch
  const whole = lookUp(document, schema)
  if (!whole) return null
  const beside = isRecord(schema) && whole !== schema ? schema : {}
  const { properties, allOf, items } = { ...whole, ...beside }
  const fields = Object.entries(asRecord(properties)).map(([name, one]) => [
    name,
    isRecord(one) ? copy.of(omitUndefined({ type: one['type'], description: one['description'] })) : null,
  ])
  return {
    ...(fields.length > 0 ? { properties: Object.fromEntries(fields) } : {}),
    ...(Array.isArray(allOf) ? { allOf: allOf.map((one) => outline(document, one, copy, depth + 1)) } : {}),
    ...(items === undefined ? {} : { items: outline(document, items, copy, depth + 1) }),
  }
}

const firstServer = (...places: readonly Json[]): Json | undefined =>
  places
    .map(({ servers }) => servers)
    .find((list): list is unknown[] => Array.isArray(list) && list.length > 0)
    ?.find(isRecord)

/** Addresses and places for credentials, of the named schemes; of all schemes if none is named. */
function schemesOf(document: Json, security: unknown): Json | undefined {
  const all = asRecord(asRecord(document['components'])['securitySchemes'])
  const named = Array.isArray(security) ? security.flatMap((one) => (isRecord(one) ? Object.keys(one) : [])) : undefined
  const schemes = Object.entries(all).filter(([name]) => named?.includes(name) ?? true)
  if (schemes.length === 0) return undefined
  return Object.fromEntries(
    schemes.map(([name, scheme]) => {
      const { type, in: place, name: key, scheme: kind, flows } = lookUp(document, scheme) ?? {}
      const { tokenUrl } = asRecord(asRecord(flows)['clientCredentials'])
      return [name, omitUndefined({ type, in: place, name: key, scheme: kind, tokenUrl })]
    }),
  )
}
