export const FORM = 'application/x-www-form-urlencoded'
export const MULTIPART = 'multipart/form-data'

export const isJson = (type: string): boolean => /^application\/(?:json|[^;]*\+json)\s*(?:;|$)/i.test(type)

/** Types whose content is text in UTF-8 or in their `charset`. */
export const isText = (type: string): boolean =>
  isJson(type) ||
  /^(?:text\/|application\/(?:xml|yaml|x-yaml|javascript|graphql|x-ndjson|[^;]*\+(?:xml|yaml)))/i.test(type)

/** Decodes a text with the `charset` of its type. Without a known one, it is UTF-8. */
export function decodeText(bytes: Uint8Array, type: string): string {
  const charset = /;\s*charset\s*=\s*"?([^\s";]+)/i.exec(type)?.[1]
  const decoder = createDecoder(charset)
  // Without `stream`, Node.js 20 decodes windows-1252 as Latin-1.
  return decoder.decode(bytes, { stream: true }) + decoder.decode()
}

function createDecoder(charset: string | undefined) {
  try {
    return new TextDecoder(charset)
  } catch {
    return new TextDecoder()
  }
}
