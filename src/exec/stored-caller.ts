import type { Caller } from '../core/context.ts'
import { unattended } from './owner.ts'

/** Who work is done for, as it is kept: what decides what may be done, and nothing of a connection. */
export type StoredCaller = Pick<
  Caller,
  'principal' | 'profile' | 'roles' | 'byToken' | 'provider' | 'era' | 'origin' | 'client'
>

/**
 * The roles that somebody has at this moment who is not here to show a token.
 * @throws PegboardError E_OWNER_GONE when it could not come in any more
 */
export type RolesNow = (who: StoredCaller) => readonly string[]

export function storedCaller(caller: Caller): StoredCaller {
  const { principal, profile, roles, byToken, provider, era, origin, client } = caller
  return {
    principal,
    profile,
    roles,
    ...(byToken ? { byToken } : {}),
    ...(provider === undefined ? {} : { provider }),
    era,
    ...(origin ? { origin } : {}),
    ...(client ? { client } : {}),
  }
}

/** As it was then: to tell whose something is. */
export const callerAgain = (kept: StoredCaller): Caller =>
  unattended({ ...kept, supports: { elicitation: false, sampling: false, roots: false } })

/** With the rights of this moment: to do something for it. @throws PegboardError as `rolesNow` */
export const callerNow = (kept: StoredCaller, rolesNow: RolesNow): Caller =>
  callerAgain({ ...kept, roles: rolesNow(kept) })
