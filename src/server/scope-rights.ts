import type { Grant } from '../core/caller.ts'
import { grantsOf } from './bearer-tokens.ts'
import type { OAuthSettings } from './server-options.ts'

/** The rights that scopes of an access token give. */
export interface ScopeRights {
  readonly roles: readonly string[]
  readonly profile?: string
  readonly grants?: readonly Grant[]
}

/** Undefined if scopes are configured and the token has none of them. Of several profiles, the first of the settings counts. */
export function rightsOfScopes({ scopes }: OAuthSettings, held: readonly string[]): ScopeRights | undefined {
  const meanings = Object.entries(scopes)
  if (meanings.length === 0) return { roles: [] }
  const own = meanings.filter(([scope]) => held.includes(scope)).map(([, meaning]) => meaning)
  if (own.length === 0) return undefined
  const profile = own.find((one) => one.profile !== undefined)?.profile
  const grants = own.map((one) => grantsOf(one).grants?.[0])
  // A scope without tools or effect allows all tools.
  const some = grants.filter((grant) => grant !== undefined)
  return {
    roles: [...new Set(own.flatMap(({ roles }) => roles))],
    ...(profile === undefined ? {} : { profile }),
    ...(some.length === grants.length ? { grants: some } : {}),
  }
}
