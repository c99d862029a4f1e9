import type { Caller } from '../core/caller.ts'
import { isRecord } from '../core/is-record.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import { withoutConnection } from './task-owner.ts'

/** What is stored of a caller: the facts that decide its rights, without its connection. */
export type StoredCaller = Pick<
  Caller,
  'principal' | 'profile' | 'roles' | 'byToken' | 'grants' | 'credential' | 'provider' | 'era' | 'origin' | 'client'
>

/** Rights besides those of the profile. */
export type AccessRights = Pick<Caller, 'roles' | 'grants'>

/**
 * The current rights of a caller who is not connected.
 * @throws PegboardError E_OWNER_GONE if it no longer has access
 */
export type RightsLookup = (who: StoredCaller) => AccessRights

export const isStoredCaller = (value: unknown): boolean =>
  isRecord(value) &&
  typeof value['principal'] === 'string' &&
  typeof value['profile'] === 'string' &&
  Array.isArray(value['roles'])

export function toStoredCaller(caller: Caller): StoredCaller {
  const { principal, profile, roles, byToken, grants, credential, provider, era, origin, client } = caller
  return { principal, profile, roles, era, ...omitUndefined({ byToken, grants, credential, provider, origin, client }) }
}

/** The caller as stored, to identify an owner. */
export const restoreCaller = (stored: StoredCaller): Caller =>
  withoutConnection({ ...stored, supports: { elicitation: false, sampling: false, roots: false } })

/** The caller with its current rights, to make calls. @throws PegboardError as `lookUpRights` */
export function refreshCaller(stored: StoredCaller, lookUpRights: RightsLookup): Caller {
  const { grants: _then, ...who } = stored
  return restoreCaller({ ...who, ...lookUpRights(stored) })
}
