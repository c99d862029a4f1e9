import type { Caller } from '../core/context.ts'

/** Whose running work is: of one session, where the client has one; else of the principal. Profiles never share. */
export const sessionOwner = ({
  principal,
  profile,
  session,
}: Pick<Caller, 'principal' | 'profile' | 'session'>): string => JSON.stringify([principal, profile, session ?? ''])

/** Whose lasting work is: of the principal in this profile, whatever session it came from. */
export const lastingOwner = ({ principal, profile }: Caller): string => JSON.stringify([principal, profile])

/** The caller as it is when nobody waits: it cannot be asked anything, and has no connection. */
export function unattended({ session: _gone, turn: _over, ...caller }: Caller): Caller {
  return { ...caller, supports: { elicitation: false, sampling: false, roots: false } }
}
