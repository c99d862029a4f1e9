import type { Caller, Turn } from '../core/context.ts'

/** What sessions said of their turn by `set_turn`, for clients that say it with no request. */
export interface Turns {
  /** The caller with what its session said; itself where that is nothing, or the request says it. */
  as(caller: Caller): Caller
  /** An empty turn takes it back. */
  set(caller: Caller, turn: Turn): void
  forget(session: string): void
}

const MAX_KEPT = 1_000

export function createTurns(): Turns {
  const kept = new Map<string, Turn>()
  let known = new WeakMap<Caller, Caller>()
  const keyOf = ({ session, principal, profile }: Caller): string => session ?? JSON.stringify([principal, profile])
  return {
    as(caller) {
      if (kept.size === 0 || caller.turn) return caller
      const turn = kept.get(keyOf(caller))
      if (!turn) return caller
      let made = known.get(caller)
      if (!made) {
        made = { ...caller, turn }
        known.set(caller, made)
      }
      return made
    },
    set(caller, turn) {
      known = new WeakMap()
      const key = keyOf(caller)
      if (Object.keys(turn).length === 0) kept.delete(key)
      else kept.set(key, turn)
      if (kept.size > MAX_KEPT) kept.delete(kept.keys().next().value as string)
    },
    forget: (session) => kept.delete(session),
  }
}
