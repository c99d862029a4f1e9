import type { Caller } from '../core/context.ts'
import { unattended } from './owner.ts'

/** Who work is done for, as it is kept: what decides what may be done, and nothing of a connection. */
export type StoredCaller = Pick<Caller, 'principal' | 'profile' | 'roles' | 'provider' | 'era' | 'origin' | 'client'>

export function storedCaller(caller: Caller): StoredCaller {
  const { principal, profile, roles, provider, era, origin, client } = caller
  return {
    principal,
    profile,
    roles,
    ...(provider === undefined ? {} : { provider }),
    era,
    ...(origin ? { origin } : {}),
    ...(client ? { client } : {}),
  }
}

export const callerAgain = (kept: StoredCaller): Caller =>
  unattended({ ...kept, supports: { elicitation: false, sampling: false, roots: false } })
