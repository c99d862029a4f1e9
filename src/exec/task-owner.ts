import type { Caller } from '../core/caller.ts'

/** Owner of running work: the session if the client has one, else the principal. Always within one profile. */
export const sessionOwner = ({
  principal,
  profile,
  session,
}: Pick<Caller, 'principal' | 'profile' | 'session'>): string => JSON.stringify([principal, profile, session ?? ''])

/** Owner of lasting work: the principal in this profile, in any session. */
export const lastingOwner = ({ principal, profile }: Pick<Caller, 'principal' | 'profile'>): string =>
  JSON.stringify([principal, profile])

/** The caller without session and message, so that it cannot be asked anything. */
export function withoutConnection({ session: _session, turn: _turn, ...caller }: Omit<Caller, 'supports'>): Caller {
  return { ...caller, supports: { elicitation: false, sampling: false, roots: false } }
}
