import type { Caller, Profile } from 'pegboard'

/** True if a caller may administer: by role, permission, or a flag of the profile. */
export const isAdmin = ({ caller, profile }: { readonly caller: Caller; readonly profile: Profile }): boolean =>
  caller.roles.includes('admin') || profile.permissions.includes('admin') || profile.flags['admin'] === true

/** True if a caller may act for all users: the owner of the machine, who uses stdio, or an admin. */
export const canActForOthers = (view: { readonly caller: Caller; readonly profile: Profile }): boolean =>
  view.caller.principal === 'local' || isAdmin(view)
