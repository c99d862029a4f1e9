import type { Json } from '../core/is-record.ts'
import { didYouMean } from '../core/tool-names.ts'
import { assertReachable, publicOnly } from '../policy/network-rules.ts'
import { authPath, matchesScheme, securitySchemesOf, serverOf, tokenUrlOf } from './api-auth.ts'
import { originsOf } from './api-origins.ts'
import type { ApiSettings } from './openapi-options.ts'

/** Warnings for the operator about credentials that Pegboard cannot use, so that calls fail. */
export function findCredentialProblems(id: string, settings: ApiSettings, document: Json): string[] {
  const { auth, headers } = settings
  const schemes = securitySchemesOf(document)
  const server = serverOf(id, settings, document)
  const problems = Object.keys(auth).flatMap((name) =>
    name === '*' || schemes[name] || Object.keys(schemes).length === 0
      ? []
      : [
          `openapi.${id}.auth names "${name}", which is no security scheme of its document${didYouMean(name, Object.keys(schemes), '.')}`,
        ],
  )
  const hasSecrets = Object.keys(auth).length > 0 || Object.keys(headers).length > 0
  if (server && hasSecrets && !originsOf(settings).mayHaveSecrets(server))
    return [
      ...problems,
      `openapi.${id}: its document names the server ${server.origin}, but is on another server. Pegboard does not send credentials there, so calls fail. Set openapi.${id}.baseUrl.`,
    ]
  for (const [name, profile] of Object.entries(auth)) {
    if (profile.type !== 'oauth2' || profile.tokenUrl !== undefined || (name !== '*' && !schemes[name])) continue
    const path = name === '*' ? authPath(id) : authPath(id, name)
    const usedSchemes = Object.entries(schemes).filter(([key, scheme]) =>
      name === '*' ? matchesScheme(profile, scheme) : key === name,
    )
    const tokenUrls = usedSchemes.length > 0 ? usedSchemes.map(([, scheme]) => tokenUrlOf(scheme, server)) : [undefined]
    const found = tokenUrls.map((url) => findTokenProblem(id, settings, path, url))
    // Calls that use another scheme may work.
    if (found[0] !== undefined && !found.includes(undefined)) problems.push(found[0])
  }
  return problems
}

function findTokenProblem(id: string, settings: ApiSettings, path: string, url: URL | undefined): string | undefined {
  if (!url) return `${path}: its document names no token URL, so calls fail. Set ${path}.tokenUrl.`
  const { mayHaveSecrets, mayBePrivate } = originsOf(settings)
  const place = `${path}: its document names the token URL ${url.origin}${url.pathname}, which is`
  if (!mayHaveSecrets(url))
    return `${place} on another server than the API, so calls fail. Set ${path}.tokenUrl to this address.`
  if (mayBePrivate(url)) return undefined
  try {
    assertReachable(url, publicOnly(`openapi.${id}.allowPrivate`))
    return undefined
  } catch {
    return `${place} private or uses plain http, so calls fail. Set openapi.${id}.allowPrivate to true.`
  }
}
