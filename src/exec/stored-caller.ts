import type { Caller } from '../core/caller.ts'
import { isRecord } from '../core/is-record.ts'
import { withoutConnection } from './task-owner.ts'

/** A caller without its connection, as it is stored. */
export type StoredCaller = Omit<Caller, 'session' | 'turn' | 'supports'>

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

export const toStoredCaller = ({
  session: _session,
  turn: _turn,
  supports: _supports,
  ...stored
}: Caller): StoredCaller => stored

/** The caller with its current rights, to make calls. @throws PegboardError as `lookUpRights` */
export function refreshCaller(stored: StoredCaller, lookUpRights: RightsLookup): Caller {
  const { grants: _then, ...who } = stored
  return withoutConnection({ ...who, ...lookUpRights(stored) })
}
