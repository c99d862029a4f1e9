import type { Clock } from '../core/clock.ts'
import { isPegboardError, messageOf } from '../core/errors.ts'
import type { Log } from '../core/log.ts'

/** What one principal's own `tools/list` said. */
export interface OwnList {
  readonly texts: ReadonlySet<string>
  /** How long the server lets it be used; absent or below 0: it is stale at once. */
  readonly ttlMs: number | undefined
}

/** The tools that each principal's own login lists. A list is read again when its time is over, so that a login the server revoked loses it. */
export interface PrivateLists {
  /** Whether the list of this principal has a tool with this definition. */
  has(principal: string, text: string): boolean
  /** A list that was read just now. @param told whether everybody knows of it already */
  set(principal: string, list: OwnList, told?: boolean): void
  /** Keeps the lists of these principals and of no others. */
  keep(principals: readonly string[]): void
  stop(): void
}

export interface PrivateListsOptions {
  readonly clock: Clock
  readonly log: Log
  /** `undefined` where a connection had to be opened for it: what that lists is `set`. */
  read(principal: string): Promise<OwnList | undefined>
  /** A list has changed. */
  changed(principal: string): void
  /** The server does not take the login of this principal. */
  refused(principal: string): void
}

/** Our own lists to clients hold for as long: to ask more often would tell nobody more. */
const LEAST_MS = 5_000
const MOST_MS = 5 * 60_000

export function createPrivateLists(options: PrivateListsOptions): PrivateLists {
  const { clock, log } = options
  const lists = new Map<string, { texts: ReadonlySet<string>; cancel: () => void }>()

  function entry(principal: string) {
    const known = lists.get(principal)
    if (known) return known
    const made = { texts: new Set<string>() as ReadonlySet<string>, cancel: (): void => undefined }
    lists.set(principal, made)
    return made
  }

  function read(principal: string): void {
    const own = lists.get(principal)
    if (!own) return
    options.read(principal).then(
      (list) => list && lists.get(principal) === own && set(principal, list),
      (error: unknown) => {
        if (lists.get(principal) !== own) return
        log.debug('an own list was not read', { error: messageOf(error) })
        if (isPegboardError(error) && error.code === 'E_AUTH_REQUIRED') {
          own.texts = new Set()
          options.refused(principal)
          return
        }
        // A server that cannot be reached has revoked nothing.
        own.cancel = clock.after(LEAST_MS, () => read(principal))
      },
    )
  }

  function set(principal: string, { texts, ttlMs = 0 }: OwnList, told = false): void {
    const own = entry(principal)
    own.cancel()
    const isSame = texts.size === own.texts.size && [...texts].every((text) => own.texts.has(text))
    own.texts = texts
    own.cancel = clock.after(Math.min(Math.max(ttlMs, LEAST_MS), MOST_MS), () => read(principal))
    if (!isSame && !told) options.changed(principal)
  }

  return {
    has: (principal, text) => lists.get(principal)?.texts.has(text) === true,
    set,
    keep(principals) {
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
    stop() {
      for (const { cancel } of lists.values()) cancel()
      lists.clear()
    },
  }
}
