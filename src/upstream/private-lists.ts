import type { Clock } from '../core/clock.ts'
import { isPegboardError, messageOf } from '../core/errors.ts'
import { getOrInsert } from '../core/get-or-insert.ts'
import type { Log } from '../core/log.ts'

/** One principal's own `tools/list`. */
export interface PrivateList {
  readonly texts: ReadonlySet<string>
  /** How long the server allows it to be used, in milliseconds; absent or negative: stale at once. */
  readonly ttlMs: number | undefined
}

export interface PrivateListsOptions {
  readonly clock: Clock
  readonly log: Log
  /** `undefined` if a connection was opened for it; its list is then stored with `set`. */
  read(principal: string): Promise<PrivateList | undefined>
  changed(principal: string): void
  refused(principal: string): void
}

/** Pegboard's own lists are cached by clients for this long, so reading more often has no effect. */
const MIN_MS = 5_000
const MAX_MS = 5 * 60_000

/**
 * The tools that each principal's login lists. A list is read again when it expires, so that a revoked login loses
 * its tools.
 */
export function createPrivateLists(options: PrivateListsOptions) {
  const { clock, log } = options
  const lists = new Map<string, { texts: ReadonlySet<string>; cancel: () => void }>()

  const entry = (principal: string) =>
    getOrInsert(lists, principal, () => ({ texts: new Set<string>(), cancel: () => undefined }))

  function read(principal: string): void {
    const stored = lists.get(principal)
    if (!stored) return
    options.read(principal).then(
      (list) => list && lists.get(principal) === stored && set(principal, list),
      (error: unknown) => {
        if (lists.get(principal) !== stored) return
        log.debug('cannot read the list of a principal', { error: messageOf(error) })
        if (isPegboardError(error) && error.code === 'E_AUTH_REQUIRED') {
          stored.texts = new Set()
          options.refused(principal)
          return
        }
        // A server that cannot be reached has not revoked anything.
        stored.cancel = clock.after(MIN_MS, () => read(principal))
      },
    )
  }

  function set(principal: string, { texts, ttlMs = 0 }: PrivateList, listenersKnow = false): void {
    const stored = entry(principal)
    stored.cancel()
    const isSame = texts.size === stored.texts.size && [...texts].every((text) => stored.texts.has(text))
    stored.texts = texts
    stored.cancel = clock.after(Math.min(Math.max(ttlMs, MIN_MS), MAX_MS), () => read(principal))
    if (!isSame && !listenersKnow) options.changed(principal)
  }

  return {
    /** True if this principal's list contains a tool with this definition. */
    has: (principal: string, text: string): boolean => lists.get(principal)?.texts.has(text) === true,
    /** Stores a list that was just read. @param listenersKnow true: does not call `changed` */
    set,
    /** Keeps the lists of these principals only. */
    keep(principals: readonly string[]): void {
      for (const [principal, { cancel }] of lists) {
        if (principals.includes(principal)) continue
        cancel()
        lists.delete(principal)
      }
      for (const principal of principals) {
        if (lists.has(principal)) continue
        entry(principal)
        read(principal)
      }
    },
    stop(): void {
      for (const { cancel } of lists.values()) cancel()
      lists.clear()
    },
  }
}
