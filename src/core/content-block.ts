import { isRecord } from './is-record.ts'
import type { ContentBlock } from './tool-result.ts'

export function textInBlock({ type, text, resource }: ContentBlock): string | undefined {
  if (type === 'text') return String(text)
  return type === 'resource' && isRecord(resource) && typeof resource['text'] === 'string'
    ? resource['text']
    : undefined
}

/** A picture, a sound or the bytes of a resource. */
export function mediaInBlock({
  type,
  data,
  mimeType,
  resource,
}: ContentBlock): { readonly data: Buffer; readonly mimeType: string } | undefined {
  if ((type === 'image' || type === 'audio') && typeof data === 'string')
    return { data: Buffer.from(data, 'base64'), mimeType: String(mimeType) }
  if (type !== 'resource' || !isRecord(resource) || typeof resource['blob'] !== 'string') return undefined
  return {
    data: Buffer.from(resource['blob'], 'base64'),
    mimeType: String(resource['mimeType'] ?? 'application/octet-stream'),
  }
}
