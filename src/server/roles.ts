import { isDeepStrictEqual } from 'node:util'
import type { Caller } from '../core/context.ts'
import { PegboardError } from '../core/errors.ts'
import { isLoopback } from './door.ts'
import type { HttpSettings } from './options.ts'

type Who = Pick<Caller, 'principal' | 'profile' | 'roles' | 'byToken'>

/**
 * The roles that somebody has now who came in before and is not here: work that was planned is done with those. Who came without a
 * token has what it had.
 * @throws PegboardError E_OWNER_GONE for whom no token of the configuration lets in any more
 */
export function rolesNow(
  settings: HttpSettings,
  hasProfile: (name: string) => boolean,
): (who: Who) => readonly string[] {
  const { auth, token, tokens, host } = settings
  // Where none is set one is made, except beyond this machine.
  const unnamed = token !== undefined || isLoopback(host) ? [{ principal: 'local', profile: undefined, roles: [] }] : []
  const all = auth === 'none' ? [] : [...unnamed, ...tokens]
  return ({ principal, profile, roles, byToken }) => {
    if (!hasProfile(profile)) throw gone(principal, `there is no profile "${profile}" any more`)
    if (!byToken) return roles
    const own = all.filter((one) => one.principal === principal && (one.profile ?? profile) === profile)
    const [first, ...others] = own
    if (!first) throw gone(principal, 'it has no token any more')
    // Which of several it came with is not kept: it must not get what another of them may.
    if (others.every((one) => sameRoles(one.roles, first.roles))) return first.roles
    const same = own.find((one) => sameRoles(one.roles, roles))
    if (!same) throw gone(principal, 'it has several tokens, and none with the roles of then')
    return same.roles
  }
}

const sameRoles = (a: readonly string[], b: readonly string[]): boolean =>
  isDeepStrictEqual([...new Set(a)].sort(), [...new Set(b)].sort())

const gone = (principal: string, why: string): PegboardError =>
  new PegboardError('E_OWNER_GONE', `Nothing is done for "${principal}" now: ${why}.`, {
    hint: 'The operator decides in server.http.tokens and profiles; what was planned stays.',
  })
