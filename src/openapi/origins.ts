import { type ApiSettings, isUrl } from './options.ts'

/** Which addresses may be gone to, and with what. A document names addresses too, and is not the operator. */
export interface Origins {
  /** Private addresses and plain http. */
  mayBePrivate(url: URL): boolean
  /**
   * Credentials and configured headers go only to the origin of `baseUrl`; without one, to that of a remote document. A file is
   * the operator's own, and may say where its API is.
   */
  mayHaveSecrets(url: URL): boolean
}

export function originsOf({ document, baseUrl, auth, allowPrivate }: ApiSettings): Origins {
  const tokenUrls = Object.values(auth).flatMap((one) => (one.type === 'oauth2' && one.tokenUrl ? [one.tokenUrl] : []))
  const written = [baseUrl, isUrl(document) ? document : undefined, ...tokenUrls].filter((one) => one !== undefined)
  const named = new Set(baseUrl === undefined ? [] : written.map(originOf))
  const home = baseUrl ?? (isUrl(document) ? document : undefined)
  return {
    mayBePrivate: (url) => allowPrivate ?? named.has(url.origin),
    mayHaveSecrets: (url) => home === undefined || url.origin === originOf(home),
  }
}

const originOf = (url: string): string => new URL(url).origin
