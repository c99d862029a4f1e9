import type { Grant } from '../core/context.ts'
import { grantsOf } from './auth.ts'
import type { OAuthSettings } from './options.ts'

/** What the scopes of an access token let its bearer do here. */
export interface ScopeRights {
  readonly roles: readonly string[]
  readonly profile?: string
  readonly grants?: readonly Grant[]
}

/** Undefined: scopes mean something here, and it has none of those. Of several profiles the first counts, in the order of the settings. */
export function rightsOfScopes({ scopes }: OAuthSettings, held: readonly string[]): ScopeRights | undefined {
  const meanings = Object.entries(scopes)
  if (meanings.length === 0) return { roles: [] }
  const own = meanings.filter(([scope]) => held.includes(scope)).map(([, meaning]) => meaning)
  if (own.length === 0) return undefined
  const profile = own.find((one) => one.profile !== undefined)?.profile
  const grants = own.map((one) => grantsOf(one).grants?.[0])
  // One that says nothing of tools is for all of them.
  const some = grants.filter((grant) => grant !== undefined)
  return {
    roles: [...new Set(own.flatMap(({ roles }) => roles))],
    ...(profile === undefined ? {} : { profile }),
    ...(some.length === grants.length ? { grants: some } : {}),
  }
}
