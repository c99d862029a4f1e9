import type { Caller } from '../core/caller.ts'
import type { Clock } from '../core/clock.ts'
import { dropOldest, setNewest } from '../core/drop-oldest.ts'
import { getOrInsert } from '../core/get-or-insert.ts'
import { sessionOwner } from './task-owner.ts'

/** Calls that are further apart are not related. */
const WINDOW_MS = 10 * 60_000
/** Two calls may follow each other by chance. */
const MIN_TIMES = 2
const MAX_SESSIONS = 1_000
const MAX_PRINCIPALS = 200
const MAX_PAIRS = 2_000

interface Pair {
  readonly first: string
  readonly second: string
  times: number
}

/** Records which tools each principal calls one after the other in this process. */
export function createCallOrder(clock: Clock) {
  const lastCalls = new Map<string, { readonly tool: string; readonly at: number }>()
  const principals = new Map<string, Map<string, Pair>>()

  function count(principal: string, first: string, second: string): void {
    const pairs = getOrInsert(principals, principal, () => new Map())
    dropOldest(principals, MAX_PRINCIPALS)
    const key = `${first}\n${second}`
    const pair = pairs.get(key) ?? { first, second, times: 0 }
    pair.times++
    // The pairs that occurred least recently are dropped first.
    setNewest(pairs, key, pair, MAX_PAIRS)
  }

  return {
    add(caller: Caller, tool: string): void {
      const session = sessionOwner(caller)
      const at = clock.now()
      const before = lastCalls.get(session)
      if (before && before.tool !== tool && at - before.at <= WINDOW_MS) count(caller.principal, before.tool, tool)
      setNewest(lastCalls, session, { tool, at }, MAX_SESSIONS)
    },
    /** Ids of the tools that often come right before and after one, the most frequent first. */
    around(principal: string, tool: string): { readonly before: readonly string[]; readonly after: readonly string[] } {
      const pairs = [...(principals.get(principal)?.values() ?? [])]
        .filter(({ times }) => times >= MIN_TIMES)
        .sort((a, b) => b.times - a.times)
      return {
        before: pairs.flatMap(({ first, second }) => (second === tool ? [first] : [])),
        after: pairs.flatMap(({ first, second }) => (first === tool ? [second] : [])),
      }
    },
  }
}
