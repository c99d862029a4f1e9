import type { Caller } from '../core/caller.ts'
import type { Clock } from '../core/clock.ts'
import { createEmitter } from '../core/emitter.ts'

/** Tools that a caller wants listed for half an hour: in a session, or for a principal and profile without sessions. */
export interface InjectedTools {
  /** Ids, in the order in which they were added. */
  of(caller: Caller): readonly string[]
  /** Returns the ids that were new. */
  add(caller: Caller, ids: readonly string[]): readonly string[]
  /** Returns how many there were. */
  clear(caller: Caller): number
  /** Call it for every request: a new answer begins without the tools of the last one. */
  note(caller: Caller): void
  /** Call it when a session has ended. */
  forget(session: string): void
  onChange(listener: () => void): () => void
}

/** Other processes that serve the same clients. */
interface Others {
  publish(topic: string, text: string): void
  subscribe(topic: string, listener: (text: string) => void): void
}

interface Wish {
  readonly ids: Set<string>
  readonly generation: string | undefined
  readonly cancel: () => void
}

const KEPT_MS = 30 * 60_000
const MAX_TOOLS = 50
const MAX_WISHES = 1_000
const TOPIC = 'injected'

/** @param others receive each change, and send theirs; default none */
export function createInjectedTools(clock: Clock, others?: Others): InjectedTools {
  const wishes = new Map<string, Wish>()
  const changed = createEmitter<[]>()

  // A session may use several profiles.
  const keyOf = ({ session, principal, profile }: Caller): string =>
    session === undefined ? JSON.stringify([principal, profile]) : `${session}\n${profile}`

  function drop(key: string): number {
    const wish = wishes.get(key)
    if (!wish) return 0
    wishes.delete(key)
    wish.cancel()
    changed.emit()
    return wish.ids.size
  }

  function add(key: string, ids: readonly string[], generation: string | undefined): readonly string[] {
    const before = wishes.get(key)
    const fresh = ids.filter((id) => !before?.ids.has(id)).slice(0, MAX_TOOLS - (before?.ids.size ?? 0))
    if (fresh.length === 0) return []
    before?.cancel()
    if (!before && wishes.size >= MAX_WISHES) drop(wishes.keys().next().value as string)
    wishes.set(key, {
      ids: new Set([...(before?.ids ?? []), ...fresh]),
      generation,
      cancel: clock.after(KEPT_MS, () => drop(key)),
    })
    changed.emit()
    return fresh
  }

  const tell = (key: string, ids: readonly string[], generation?: string): void =>
    others?.publish(TOPIC, JSON.stringify([key, ids, generation ?? null]))
  others?.subscribe(TOPIC, (text) => {
    const [key, ids, generation] = JSON.parse(text) as [string, readonly string[], string | null]
    if (ids.length === 0) drop(key)
    else add(key, ids, generation ?? undefined)
  })

  return {
    of: (caller) => (wishes.size === 0 ? [] : [...(wishes.get(keyOf(caller))?.ids ?? [])]),
    add(caller, ids) {
      const key = keyOf(caller)
      const generation = caller.turn?.generation
      const fresh = add(key, ids, generation)
      if (fresh.length > 0) tell(key, fresh, generation)
      return fresh
    },
    clear(caller) {
      const key = keyOf(caller)
      tell(key, [])
      return drop(key)
    },
    note(caller) {
      if (wishes.size === 0 || caller.turn?.generation === undefined) return
      const key = keyOf(caller)
      const wish = wishes.get(key)
      if (wish && wish.generation !== caller.turn.generation) drop(key)
    },
    forget(session) {
      for (const key of [...wishes.keys()]) if (key.startsWith(`${session}\n`)) drop(key)
    },
    onChange: changed.listen,
  }
}
