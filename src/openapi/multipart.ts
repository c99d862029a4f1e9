import { randomUUID } from 'node:crypto'
import { asRecord } from '../core/is-record.ts'
import { MULTIPART } from './media-types.ts'

/** How a field of a multipart body is sent, if the document says so. */
export interface Part {
  readonly contentType?: string
}

/** @param encoding what the document says about the field */
export function planPart(encoding: unknown): Part {
  const { contentType: types } = asRecord(encoding)
  const contentType = typeof types === 'string' ? types.split(',')[0]?.trim() : undefined
  return contentType === undefined || !isConcreteType(contentType) ? {} : { contentType }
}

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
      chunks.push(Buffer.from(`--${boundary}\r\n`), encodePart(name, item, parts.get(name) ?? {}), Buffer.from('\r\n'))
    }
  }
  chunks.push(Buffer.from(`--${boundary}--\r\n`))
  return { type: `${MULTIPART}; boundary=${boundary}`, data: Buffer.concat(chunks) }
}

function encodePart(name: string, item: unknown, part: Part): Uint8Array {
  const isFile = item instanceof Uint8Array
  const isObject = typeof item === 'object' && !isFile
  const contentType =
    part.contentType ?? (isFile ? 'application/octet-stream' : isObject ? 'application/json' : undefined)
  const parameters = [`name="${escapeName(name)}"`, ...(isFile ? [`filename="${escapeName(name)}"`] : [])]
  const headers = [
    `Content-Disposition: form-data; ${parameters.join('; ')}`,
    ...(contentType === undefined ? [] : [`Content-Type: ${contentType}`]),
  ]
  const content = isFile ? item : Buffer.from(isObject ? JSON.stringify(item) : String(item))
  return Buffer.concat([Buffer.from(`${headers.join('\r\n')}\r\n\r\n`), content])
}

/** As browsers do it. */
const escapeName = (name: string): string => name.replaceAll('\r', '%0D').replaceAll('\n', '%0A').replaceAll('"', '%22')
