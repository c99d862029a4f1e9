import { isRecord } from '../core/is-record.ts'
import { assertReachable, publicOnly } from '../policy/network-rules.ts'
import { baseOf } from './build-request.ts'
import { type ApiSettings, isUrl } from './openapi-options.ts'

/**
 * Which addresses requests may go to, and with which credentials. A document also names addresses, but it is not the
 * operator.
 */
export interface OriginRules {
  /** Allow private addresses and plain http. */
  mayBePrivate(url: URL): boolean
  /**
   * Credentials and configured headers go only to the origin of `baseUrl`, or without one to that of a remote
   * document. A local file belongs to the operator and may name its API.
   */
  mayHaveSecrets(url: URL): boolean
}

export function originsOf({ document, baseUrl, auth, allowPrivate }: ApiSettings): OriginRules {
  const tokenUrls = Object.values(auth).flatMap((one) => (one.type === 'oauth2' && one.tokenUrl ? [one.tokenUrl] : []))
  const written = [baseUrl, isUrl(document) ? document : undefined, ...tokenUrls].filter((one) => one !== undefined)
  const named = new Set(baseUrl === undefined ? [] : written.map(originOf))
  const home = baseUrl ?? (isUrl(document) ? document : undefined)
  return {
    mayBePrivate: (url) => allowPrivate ?? named.has(url.origin),
    mayHaveSecrets: (url) => home === undefined || url.origin === originOf(home),
  }
}

/**
 * A warning for the operator if calls will be refused: the document names no server, or a private one that the settings
 * do not allow. Ignores servers of single paths.
 */
export function addressProblem(
  id: string,
  settings: ApiSettings,
  document: Readonly<Record<string, unknown>>,
): string[] {
  const where = `openapi.${id}`
  const servers = Array.isArray(document['servers']) ? document['servers'] : []
  if (servers.length === 0 && hasServers(document['paths'])) return []
  let base: URL
  try {
    base = baseOf(id, { servers }, settings.baseUrl, settings.document)
  } catch {
    return [`${where}: its document names no server, so calls fail. Set ${where}.baseUrl.`]
  }
  if (originsOf(settings).mayBePrivate(base)) return []
  try {
    assertReachable(base, publicOnly(`${where}.allowPrivate`))
    return []
  } catch {
    return [
      `${where}: its document names the server ${base.origin}, which is private or uses plain http, so calls are refused. Set ${where}.baseUrl to this address, or ${where}.allowPrivate to true.`,
    ]
  }
}

/** Whether any path or operation names servers of its own. */
const hasServers = (paths: unknown): boolean =>
  isRecord(paths) &&
  Object.values(paths).some(
    (item) =>
      isRecord(item) && [item, ...Object.values(item)].some((one) => isRecord(one) && Array.isArray(one['servers'])),
  )

const originOf = (url: string): string => new URL(url).origin
