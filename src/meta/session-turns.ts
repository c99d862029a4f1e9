import type { Caller, Turn } from '../core/caller.ts'
import { dropOldest } from '../core/drop-oldest.ts'

/** The turn context that sessions set with `set_turn`, for clients that do not send it with each request. */
export type SessionTurns = ReturnType<typeof createSessionTurns>

const MAX_KEPT = 1_000

export function createSessionTurns() {
  const turns = new Map<string, Turn>()
  const keyOf = ({ session, principal, profile }: Caller): string => session ?? JSON.stringify([principal, profile])
  return {
    /** Returns the caller with its session's turn context, or unchanged if there is none or the request has its own. */
    withTurn(caller: Caller): Caller {
      if (turns.size === 0 || caller.turn) return caller
      const turn = turns.get(keyOf(caller))
      return turn ? { ...caller, turn } : caller
    },
    /** An empty turn removes the stored one. */
    set(caller: Caller, turn: Turn): void {
      const key = keyOf(caller)
      if (Object.keys(turn).length === 0) turns.delete(key)
      else turns.set(key, turn)
      dropOldest(turns, MAX_KEPT)
    },
    forget: (session: string): boolean => turns.delete(session),
  }
}
