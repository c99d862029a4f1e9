import { isRecord } from '../core/is-record.ts'
import { assertReachable, publicOnly } from '../policy/network-rules.ts'
import { baseOf } from './build-request.ts'
import { type ApiSettings, isUrl } from './openapi-options.ts'

/**
 * Decides which addresses requests may go to, and with which credentials. A document also names addresses, but it is
 * not the operator.
 */
export function originsOf({ document, baseUrl, auth, allowPrivate }: ApiSettings) {
  const tokenUrls = Object.values(auth).flatMap((profile) =>
    profile.type === 'oauth2' && profile.tokenUrl ? [profile.tokenUrl] : [],
  )
  const configuredUrls = [baseUrl, isUrl(document) ? document : undefined, ...tokenUrls].filter(
    (url) => url !== undefined,
  )
  const configuredOrigins = new Set(baseUrl === undefined ? [] : configuredUrls.map(originOf))
  const apiUrl = baseUrl ?? (isUrl(document) ? document : undefined)
  return {
    /** Allow private addresses and plain http. */
    mayBePrivate: (url: URL): boolean => allowPrivate ?? configuredOrigins.has(url.origin),
    /**
     * Credentials and configured headers go only to the origin of `baseUrl`, or without one to that of a remote
     * document. A local file belongs to the operator and may name its API.
     */
    mayHaveSecrets: (url: URL): boolean => apiUrl === undefined || url.origin === originOf(apiUrl),
  }
}

/**
 * A warning for the operator if calls will be refused: the document names no server, or a private one that the settings
 * do not allow. Ignores servers of single paths.
 */
export function findAddressProblem(
  id: string,
  settings: ApiSettings,
  document: Readonly<Record<string, unknown>>,
): string[] {
  const path = `openapi.${id}`
  const servers = Array.isArray(document['servers']) ? document['servers'] : []
  if (servers.length === 0 && hasServers(document['paths'])) return []
  let base: URL
  try {
    base = baseOf(id, { servers }, settings.baseUrl, settings.document)
  } catch {
    return [`${path}: its document names no server, so calls fail. Set ${path}.baseUrl.`]
  }
  if (originsOf(settings).mayBePrivate(base)) return []
  try {
    assertReachable(base, publicOnly(`${path}.allowPrivate`))
    return []
  } catch {
    return [
      `${path}: its document names the server ${base.origin}, which is private or uses plain http, so calls are refused. Set ${path}.baseUrl to this address, or ${path}.allowPrivate to true.`,
    ]
  }
}

/** Whether any path or operation names servers of its own. */
const hasServers = (paths: unknown): boolean =>
  isRecord(paths) &&
  Object.values(paths).some(
    (item) =>
      isRecord(item) &&
      [item, ...Object.values(item)].some((value) => isRecord(value) && Array.isArray(value['servers'])),
  )

const originOf = (url: string): string => new URL(url).origin
