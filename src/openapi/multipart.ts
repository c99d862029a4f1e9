import { randomUUID } from 'node:crypto'
import { appendSentence } from '../core/append-sentence.ts'
import { asRecord } from '../core/is-record.ts'
import type { JsonSchema } from '../core/schema.ts'
import { isText, MULTIPART } from './media-types.ts'

/** How a field of a multipart body is sent. */
export interface Part {
  /** The argument has the content of a file as base64, or of several files. */
  readonly isFile: boolean
  readonly contentType?: string
  /** The document asks for text in this encoding, such as `base64`. The argument already has it. */
  readonly transferEncoding?: string
}

/**
 * @param schema of the field, already converted
 * @param encoding what the document says about the field besides its schema
 * @param resolve follows a reference
 * @returns how to send the field, and the schema of its argument
 */
export function planPart(
  schema: unknown,
  encoding: unknown,
  resolve: (schema: unknown) => JsonSchema,
): { readonly part: Part; readonly schema: unknown } {
  const encodingType = mediaTypeIn(asRecord(encoding)['contentType'])
  const leaves: JsonSchema[] = []
  const withBase64 = mapLeaves(schema, resolve, (leaf) => {
    leaves.push(leaf)
    return describeFile(leaf)
  })
  const isFile = leaves.length > 0 && leaves.every((leaf) => isFileSchema(leaf, encodingType))
  const contentType = encodingType ?? mediaTypeIn(leaves[0]?.['contentMediaType'])
  const transferEncoding = isFile ? undefined : leaves[0]?.['contentEncoding']
  return {
    part: {
      isFile,
      ...(contentType !== undefined && isConcreteType(contentType) ? { contentType } : {}),
      ...(typeof transferEncoding === 'string' && /^[\w-]+$/.test(transferEncoding) ? { transferEncoding } : {}),
    },
    schema: isFile ? withBase64 : schema,
  }
}

/** Deeper than any list of files. A schema may contain itself. */
const MAX_DEPTH = 5

/** Replaces the schemas of single values: entries of lists, and alternatives other than null. */
function mapLeaves(
  schema: unknown,
  resolve: (schema: unknown) => JsonSchema,
  change: (leaf: JsonSchema) => JsonSchema,
  depth = 0,
): JsonSchema {
  const resolved = resolve(schema)
  if (depth > MAX_DEPTH || resolved['type'] === 'null') return resolved
  const mapInner = (inner: unknown): JsonSchema => mapLeaves(inner, resolve, change, depth + 1)
  for (const key of ['anyOf', 'oneOf']) {
    const alternatives = resolved[key]
    if (Array.isArray(alternatives)) return { ...resolved, [key]: alternatives.map(mapInner) }
  }
  if ([resolved['type']].flat().includes('array')) return { ...resolved, items: mapInner(resolved['items']) }
  return change(resolved)
}

/**
 * OpenAPI 3.0 writes `format: binary`, 3.1 a media type in the schema or in `encoding`. A text of such a type can be
 * sent as it is.
 */
function isFileSchema(
  { type, format, properties, contentMediaType, contentEncoding }: JsonSchema,
  encodingType?: string,
) {
  if (format === 'binary') return true
  const mediaType = encodingType ?? mediaTypeIn(contentMediaType)
  const mayBeString = type === undefined ? properties === undefined : [type].flat().includes('string')
  return mayBeString && contentEncoding === undefined && mediaType !== undefined && !isText(mediaType)
}

function describeFile({ type, description }: JsonSchema): JsonSchema {
  return {
    type: [type].flat().includes('null') ? ['string', 'null'] : 'string',
    contentEncoding: 'base64',
    description: appendSentence(description, 'Content of the file, as base64.'),
  }
}

/** The first of several types. */
const mediaTypeIn = (types: unknown): string | undefined =>
  typeof types === 'string' ? types.split(',')[0]?.trim() : undefined

/** False for `image/*`, and for text that is not a media type. */
const isConcreteType = (type: string): boolean => /^[\w.+-]+\/[\w.+-]+(?:;[\x20-\x7e]*)?$/.test(type)

/** Encodes bytes as files, objects as JSON, and everything else as text. Each entry of a list is a part. */
export function encodeMultipart(
  fields: readonly (readonly [name: string, value: unknown])[],
  parts: ReadonlyMap<string, Part>,
): { readonly type: string; readonly data: Uint8Array } {
  const boundary = `pegboard-${randomUUID()}`
  // Building the whole body is simpler than a stream, and arguments are small.
  const chunks: Uint8Array[] = []
  for (const [name, value] of fields) {
    for (const item of Array.isArray(value) ? value : [value]) {
      if (item === undefined || item === null) continue
      chunks.push(Buffer.from(`--${boundary}\r\n`), encodePart(name, item, parts.get(name)), Buffer.from('\r\n'))
    }
  }
  chunks.push(Buffer.from(`--${boundary}--\r\n`))
  return { type: `${MULTIPART}; boundary=${boundary}`, data: Buffer.concat(chunks) }
}

function encodePart(name: string, item: unknown, part: Part | undefined): Uint8Array {
  const isFile = item instanceof Uint8Array
  const isObject = typeof item === 'object' && !isFile
  const { contentType = defaultType(item, part), transferEncoding } = part ?? {}
  const parameters = [`name="${escapeName(name)}"`, ...(isFile ? [`filename="${escapeName(name)}"`] : [])]
  const headers = [
    `Content-Disposition: form-data; ${parameters.join('; ')}`,
    ...(contentType === undefined ? [] : [`Content-Type: ${contentType}`]),
    ...(transferEncoding === undefined ? [] : [`Content-Transfer-Encoding: ${transferEncoding}`]),
  ]
  const content = isFile ? item : Buffer.from(isObject ? JSON.stringify(item) : String(item))
  return Buffer.concat([Buffer.from(`${headers.join('\r\n')}\r\n\r\n`), content])
}

function defaultType(item: unknown, part: Part | undefined): string | undefined {
  if (item instanceof Uint8Array || part?.transferEncoding !== undefined) return 'application/octet-stream'
  return typeof item === 'object' ? 'application/json' : undefined
}

/** As browsers do it. */
const escapeName = (name: string): string => name.replaceAll('\r', '%0D').replaceAll('\n', '%0A').replaceAll('"', '%22')
