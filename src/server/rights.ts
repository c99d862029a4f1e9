import { isDeepStrictEqual } from 'node:util'
import type { Caller } from '../core/context.ts'
import { PegboardError } from '../core/errors.ts'
import { grantsOf } from './auth.ts'
import { isLoopback } from './door.ts'
import type { HttpSettings } from './options.ts'
import { rightsOfScopes } from './scopes.ts'
import type { Tokens } from './tokens.ts'

type Who = Pick<Caller, 'principal' | 'profile' | 'roles' | 'grants' | 'byToken' | 'credential'>
type Rights = Pick<Caller, 'roles' | 'grants'>

/**
 * What somebody may now who came in before and is not here: work that was planned is done with those rights. Who came without a
 * token has what it had. An access token of an issuer is over soon and is not kept, so its issuer cannot
 * be asked: what its scopes mean here is asked again, and only for so long.
 * @throws PegboardError E_OWNER_GONE for whom nothing lets in any more
 */
export function rightsNow(
  settings: HttpSettings,
  hasProfile: (name: string) => boolean,
  kept: Pick<Tokens, 'valid'>,
  now: () => number,
): (who: Who) => Rights {
  const { auth, token, tokens, host, oauth } = settings
  // Where none is set one is made, except beyond this machine.
  const unnamed: readonly Known[] = token !== undefined || isLoopback(host) ? [{ principal: 'local', roles: [] }] : []
  const all: readonly Known[] = auth === 'none' ? [] : [...unnamed, ...tokens]

  function byCredential(who: Who, credential: NonNullable<Caller['credential']>): Rights {
    const { principal, profile } = who
    const known =
      auth === 'none'
        ? undefined
        : 'token' in credential
          ? kept.valid(true).find((one) => one.id === credential.token && one.principal === principal)
          : oauth && rightsOfScopes(oauth, credential.oauth)
    if ('oauth' in credential && oauth && !(now() <= credential.until + oauth.plannedForMs))
      throw gone(principal, 'its login ended longer ago than server.http.oauth.plannedForMs')
    if (!known) throw gone(principal, 'token' in credential ? 'its token was revoked or has expired' : NO_SCOPE)
    if ((known.profile ?? profile) !== profile) throw gone(principal, `its token is not for "${profile}"`)
    return rights(known)
  }

  return (who) => {
    const { principal, profile, roles, grants, byToken, credential } = who
    if (!hasProfile(profile)) throw gone(principal, `there is no profile "${profile}" any more`)
    if (!byToken) return { roles }
    if (credential) return byCredential(who, credential)
    const own = all
      .filter((one) => one.principal === principal && (one.profile ?? profile) === profile)
      .map(({ roles: its, tools, effect }) => rights({ roles: its, ...grantsOf({ tools, effect }) }))
    const [first, ...others] = own
    if (!first) throw gone(principal, 'it has no token any more')
    // Which of several it came with is not kept: it must not get what another of them may.
    if (others.every((one) => isDeepStrictEqual(one, first))) return first
    const same = own.find((one) => isDeepStrictEqual(one, rights({ roles, ...(grants ? { grants } : {}) })))
    if (!same) throw gone(principal, 'it has several tokens, and none with the rights of then')
    return same
  }
}

type Known = Pick<HttpSettings['tokens'][number], 'principal' | 'roles'> &
  Partial<Pick<HttpSettings['tokens'][number], 'profile' | 'tools' | 'effect'>>

const NO_SCOPE = 'server.http.oauth gives the scopes it had no rights any more'

const rights = ({ roles, grants }: Rights): Rights => ({
  roles: [...new Set(roles)].sort(),
  ...(grants ? { grants } : {}),
})

const gone = (principal: string, why: string): PegboardError =>
  new PegboardError('E_OWNER_GONE', `Nothing is done for "${principal}" now: ${why}.`, {
    hint: 'The operator decides in server.http.tokens, pegboard token, server.http.oauth and profiles; what was planned stays.',
  })
