import type { Wanted } from './store.ts'

/** What a 401 or 403 says about how to be let in. */
export async function wantedBy(response: Response): Promise<Wanted> {
  const { extractWWWAuthenticateParams } = await import('@modelcontextprotocol/client')
  const { resourceMetadataUrl, scope } = extractWWWAuthenticateParams(response)
  return {
    ...(scope === undefined ? {} : { scope }),
    ...(resourceMetadataUrl === undefined ? {} : { resourceMetadataUrl: resourceMetadataUrl.href }),
  }
}

/** All the scopes, each once; undefined for none. */
export function union(...scopes: ReadonlyArray<string | undefined>): string | undefined {
  const all = new Set(scopes.flatMap((scope) => scope?.split(/\s+/).filter(Boolean) ?? []))
  return all.size === 0 ? undefined : [...all].join(' ')
}
