import type { Caller } from '../core/caller.ts'
import type { Clock } from '../core/clock.ts'
import { createEmitter } from '../core/emitter.ts'

/** Tools that Pegboard lists for a caller for half an hour: in a session, or for a principal and profile without sessions. */
export type InjectedTools = ReturnType<typeof createInjectedTools>

/** Other processes that serve the same clients. */
interface Others {
  publish(topic: string, text: string): void
  subscribe(topic: string, listener: (text: string) => void): void
}

interface Injection {
  readonly ids: Set<string>
  readonly generation: string | undefined
  readonly cancel: () => void
}

const LISTED_MS = 30 * 60_000
const MAX_TOOLS = 50
const MAX_INJECTIONS = 1_000
const TOPIC = 'injected'

/** @param others other processes, which exchange changes with this one; default none */
export function createInjectedTools(clock: Clock, others?: Others) {
  const injections = new Map<string, Injection>()
  const changed = createEmitter<[]>()

  // A session may use several profiles.
  const keyOf = ({ session, principal, profile }: Caller): string =>
    session === undefined ? JSON.stringify([principal, profile]) : `${session}\n${profile}`

  function drop(key: string): number {
    const injection = injections.get(key)
    if (!injection) return 0
    injections.delete(key)
    injection.cancel()
    changed.emit()
    return injection.ids.size
  }

  function add(key: string, ids: readonly string[], generation: string | undefined): readonly string[] {
    const existing = injections.get(key)
    const fresh = ids.filter((id) => !existing?.ids.has(id)).slice(0, MAX_TOOLS - (existing?.ids.size ?? 0))
    if (fresh.length === 0) return []
    existing?.cancel()
    if (!existing && injections.size >= MAX_INJECTIONS) drop(injections.keys().next().value as string)
    injections.set(key, {
      ids: new Set([...(existing?.ids ?? []), ...fresh]),
      generation,
      cancel: clock.after(LISTED_MS, () => drop(key)),
    })
    changed.emit()
    return fresh
  }

  const publish = (key: string, ids: readonly string[], generation?: string): void =>
    others?.publish(TOPIC, JSON.stringify([key, ids, generation ?? null]))
  others?.subscribe(TOPIC, (text) => {
    const [key, ids, generation] = JSON.parse(text) as [string, readonly string[], string | null]
    if (ids.length === 0) drop(key)
    else add(key, ids, generation ?? undefined)
  })

  return {
    /** Ids, in the order in which they were added. */
    of: (caller: Caller): readonly string[] =>
      injections.size === 0 ? [] : [...(injections.get(keyOf(caller))?.ids ?? [])],
    /** Returns the ids that were new. */
    add(caller: Caller, ids: readonly string[]): readonly string[] {
      const key = keyOf(caller)
      const generation = caller.turn?.generation
      const fresh = add(key, ids, generation)
      if (fresh.length > 0) publish(key, fresh, generation)
      return fresh
    },
    /** Returns how many there were. */
    clear(caller: Caller): number {
      const key = keyOf(caller)
      publish(key, [])
      return drop(key)
    },
    /** Removes the caller's tools if the request belongs to another answer than the previous one. Each request calls this. */
    clearIfNewAnswer(caller: Caller): void {
      if (injections.size === 0 || caller.turn?.generation === undefined) return
      const key = keyOf(caller)
      const injection = injections.get(key)
      if (injection && injection.generation !== caller.turn.generation) drop(key)
    },
    /** Call it when a session has ended. */
    forget(session: string): void {
      for (const key of [...injections.keys()]) if (key.startsWith(`${session}\n`)) drop(key)
    },
    onChange: changed.listen,
  }
}
