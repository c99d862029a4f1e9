import type { Caller } from '../core/context.ts'
import { isRecord } from '../core/record.ts'
import { unattended } from './owner.ts'

/** Who work is done for, as it is kept: what decides what may be done, and nothing of a connection. */
export type StoredCaller = Pick<
  Caller,
  'principal' | 'profile' | 'roles' | 'byToken' | 'grants' | 'credential' | 'provider' | 'era' | 'origin' | 'client'
>

/** What somebody may do beside what its profile says. */
export type Rights = Pick<Caller, 'roles' | 'grants'>

/**
 * The rights that somebody has at this moment who is not here to show a token.
 * @throws PegboardError E_OWNER_GONE when it could not come in any more
 */
export type RightsNow = (who: StoredCaller) => Rights

/** Whether something that was kept is that. */
export const isStoredCaller = (value: unknown): boolean =>
  isRecord(value) &&
  typeof value['principal'] === 'string' &&
  typeof value['profile'] === 'string' &&
  Array.isArray(value['roles'])

export function storedCaller(caller: Caller): StoredCaller {
  const { principal, profile, roles, byToken, grants, credential, provider, era, origin, client } = caller
  return {
    principal,
    profile,
    roles,
    ...(byToken ? { byToken } : {}),
    ...(grants ? { grants } : {}),
    ...(credential ? { credential } : {}),
    ...(provider === undefined ? {} : { provider }),
    era,
    ...(origin ? { origin } : {}),
    ...(client ? { client } : {}),
  }
}

/** As it was then: to tell whose something is. */
export const callerAgain = (kept: StoredCaller): Caller =>
  unattended({ ...kept, supports: { elicitation: false, sampling: false, roots: false } })

/** With the rights of this moment: to do something for it. @throws PegboardError as `rightsNow` */
export function callerNow(kept: StoredCaller, rightsNow: RightsNow): Caller {
  const { grants: _then, ...who } = kept
  return callerAgain({ ...who, ...rightsNow(kept) })
}
