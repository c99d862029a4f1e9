import { omitUndefined } from '../../core/omit-undefined.ts'
import type { AuthRequirement } from './token-store.ts'

/** Reads what a 401 or 403 response says about the required authorization. */
export async function readChallenge(response: Response): Promise<AuthRequirement> {
  const { extractWWWAuthenticateParams } = await import('@modelcontextprotocol/client')
  const { resourceMetadataUrl, scope: namedScope } = extractWWWAuthenticateParams(response)
  return omitUndefined({ scope: scopesIn(namedScope), resourceMetadataUrl: resourceMetadataUrl?.href })
}

/** All scopes, each once; undefined if there are none. */
export function mergeScopes(...scopes: ReadonlyArray<string | undefined>): string | undefined {
  const all = new Set(scopes.flatMap((scope) => scope?.split(/\s+/).filter(Boolean) ?? []))
  return all.size === 0 ? undefined : [...all].join(' ')
}

/** Valid OAuth scopes in a text; undefined if there are none. Other characters could reach a terminal. */
export const scopesIn = (text: string | undefined): string | undefined =>
  mergeScopes(...(text ?? '').split(/\s+/).filter((scope) => /^[\x21\x23-\x5b\x5d-\x7e]+$/.test(scope)))

/** Scopes for people and models, sorted so that a server cannot form sentences. Undefined if there are too many. */
export function namedScopes(text: string | undefined): string | undefined {
  const scopes = scopesIn(text)?.split(' ').sort() ?? []
  const list = scopes.map((scope) => `"${scope}"`).join(', ')
  if (scopes.length === 0 || list.length > MAX_LIST) return undefined
  return `${scopes.length === 1 ? 'the scope' : 'the scopes'} ${list}`
}

const MAX_LIST = 300
