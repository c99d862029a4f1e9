import { isDeepStrictEqual } from 'node:util'
import type { Caller } from '../core/caller.ts'
import { PegboardError } from '../core/errors.ts'
import { grantsOf, rightsOfScopes } from './bearer-tokens.ts'
import { isLoopback } from './origin-check.ts'
import type { HttpSettings } from './server-options.ts'
import type { TokenStore } from './token-store.ts'

type WorkOwner = Pick<Caller, 'principal' | 'profile' | 'roles' | 'grants' | 'byToken' | 'credential'>
type Rights = Pick<Caller, 'roles' | 'grants'>

/**
 * The rights that the owner of planned work has now. Without a token, they are those of the time of planning. Access tokens
 * of an issuer are not stored: their scopes are looked up in the current configuration, until `plannedForMs` after they
 * expired.
 * @throws PegboardError E_OWNER_GONE if the owner has no access any more
 */
export function createRightsLookup(
  settings: HttpSettings,
  hasProfile: (name: string) => boolean,
  storedTokens: Pick<TokenStore, 'valid'>,
  now: () => number,
): (who: WorkOwner) => Rights {
  const { auth, token, tokens, host, oauth } = settings
  // On a loopback address, Pegboard creates a token if none is set.
  const unnamed: readonly ConfiguredToken[] =
    token !== undefined || isLoopback(host) ? [{ principal: 'local', roles: [] }] : []
  const acceptedTokens: readonly ConfiguredToken[] = auth === 'none' ? [] : [...unnamed, ...tokens]

  function byCredential(who: WorkOwner, credential: NonNullable<Caller['credential']>): Rights {
    const { principal, profile } = who
    const bearer =
      auth === 'none'
        ? undefined
        : 'token' in credential
          ? storedTokens.valid(true).find((one) => one.id === credential.token && one.principal === principal)
          : oauth && rightsOfScopes(oauth, credential.oauth)
    if ('oauth' in credential && oauth && !(now() <= credential.until + oauth.plannedForMs))
      throw createGoneError(principal, 'its login ended longer ago than server.http.oauth.plannedForMs')
    if (!bearer)
      throw createGoneError(principal, 'token' in credential ? 'its token was revoked or has expired' : NO_SCOPE)
    if ((bearer.profile ?? profile) !== profile) throw createGoneError(principal, `its token is not for "${profile}"`)
    return pickRights(bearer)
  }

  return (who) => {
    const { principal, profile, roles, grants, byToken, credential } = who
    if (!hasProfile(profile)) throw createGoneError(principal, `there is no profile "${profile}" any more`)
    if (!byToken) return { roles }
    if (credential) return byCredential(who, credential)
    const possibleRights = acceptedTokens
      .filter((one) => one.principal === principal && (one.profile ?? profile) === profile)
      .map(({ roles: configuredRoles, tools, effect }) =>
        pickRights({ roles: configuredRoles, ...grantsOf({ tools, effect }) }),
      )
    const [first, ...others] = possibleRights
    if (!first) throw createGoneError(principal, 'it has no token any more')
    // Pegboard does not store which of several tokens was used, and the owner must not get the rights of another token.
    if (others.every((one) => isDeepStrictEqual(one, first))) return first
    const unchanged = possibleRights.find((one) =>
      isDeepStrictEqual(one, pickRights({ roles, ...(grants ? { grants } : {}) })),
    )
    if (!unchanged) throw createGoneError(principal, 'none of its tokens has the rights that it had then')
    return unchanged
  }
}

type ConfiguredToken = Pick<HttpSettings['tokens'][number], 'principal' | 'roles'> &
  Partial<Pick<HttpSettings['tokens'][number], 'profile' | 'tools' | 'effect'>>

const NO_SCOPE = 'server.http.oauth no longer gives its scopes any rights'

const pickRights = ({ roles, grants }: Rights): Rights => ({
  roles: [...new Set(roles)].sort(),
  ...(grants ? { grants } : {}),
})

const createGoneError = (principal: string, why: string): PegboardError =>
  new PegboardError('E_OWNER_GONE', `Pegboard does nothing for "${principal}" now: ${why}.`, {
    hint: 'The operator controls access with server.http.tokens, pegboard token, server.http.oauth and profiles. Scheduled work stays stored.',
  })
