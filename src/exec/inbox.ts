import { randomUUID } from 'node:crypto'
import type { Caller } from '../core/caller.ts'
import type { Clock } from '../core/clock.ts'
import { messageOf } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import type { SharedState } from '../state/shared-state.ts'
import type { Table } from '../state/store.ts'
import { lastingOwner, sessionOwner } from './task-owner.ts'

/** Notices for callers that are not connected. Each is delivered once, with the owner's next result, in any process. */
export interface Inbox {
  /** Reads stored notices. */
  start(): Promise<void>
  /** Adds a notice, cut at 2,000 characters. Keeps the latest 1,000. */
  add(owner: string, line: string): void
  /** True if the caller may have notices. Does not read the store. */
  has(caller: Caller): boolean
  /**
   * Removes and returns the notices for a caller's session and principal.
   * @param most returns the oldest ones, and a line with the number left (default all)
   */
  take(caller: Caller, most?: number): Promise<readonly string[]>
}

const MAX_LINES = 1_000
const MAX_CHARS = 2_000
/** Counting all notices for each new one would be slow. */
const TRIM_EVERY = 50
const KEPT_MS = 7 * 24 * 60 * 60_000
const TOPIC = 'notice'

export function createInbox(
  shared: Pick<SharedState, 'store' | 'publish' | 'subscribe' | 'onReconnect'>,
  clock: Clock,
  log: Log,
): Inbox {
  const waiting = new Set<string>()
  const added = new Map<string, number>()
  const table = (): Table<string> => shared.store().table('notice', (value) => typeof value === 'string')
  shared.subscribe(TOPIC, (owner) => waiting.add(owner))

  async function keep(owner: string, line: string): Promise<void> {
    const value = line.length > MAX_CHARS ? `${line.slice(0, MAX_CHARS - 1)}…` : line
    await table().put({ id: randomUUID(), owner, value, expiresAt: clock.now() + KEPT_MS })
    shared.publish(TOPIC, owner)
    const since = (added.get(owner) ?? 0) + 1
    added.set(owner, since % TRIM_EVERY)
    if (since < TRIM_EVERY) return
    const all = await table().list(owner)
    await Promise.all(all.slice(0, Math.max(0, all.length - MAX_LINES)).map(({ id }) => table().delete(id)))
  }

  async function drain(owner: string, most: number): Promise<readonly string[]> {
    if (!waiting.delete(owner)) return []
    const all = await table()
      .list(owner)
      .catch((error: unknown) => {
        // They stay for the next result, so that this one is not delayed.
        waiting.add(owner)
        unread(error)
        return []
      })
    const takeOut = (id: string): Promise<unknown> => table().delete(id).catch(unread)
    const old = all.slice(0, Math.max(0, all.length - MAX_LINES))
    await Promise.all(old.map(({ id }) => takeOut(id)))
    const recentRows = all.slice(old.length)
    const rows = recentRows.slice(0, most)
    if (rows.length < recentRows.length) waiting.add(owner)
    else added.delete(owner)
    // Another process may deliver them at the same time: the one that deletes a notice delivers it.
    const ours = await Promise.all(rows.map(async ({ id, value }) => ((await takeOut(id)) ? [value] : [])))
    const left = recentRows.length - rows.length
    return left === 0 ? ours.flat() : [...ours.flat(), `${left} more: read notifications://inbox.`]
  }

  async function start(): Promise<void> {
    for (const { owner } of await table().list()) waiting.add(owner)
  }
  const unread = (error: unknown): void => log.warn('cannot read notices', { error: messageOf(error) })
  // Notices added during the outage were missed.
  shared.onReconnect(() => void start().catch(unread))

  return {
    start,
    add(owner, line) {
      keep(owner, line)
        .then(() => waiting.add(owner))
        .catch((error: unknown) => log.error('cannot store a notice', { error: messageOf(error) }))
    },
    has: (caller) => waiting.size > 0 && (waiting.has(sessionOwner(caller)) || waiting.has(lastingOwner(caller))),
    take: async (caller, most = MAX_LINES) => [
      ...(await drain(sessionOwner(caller), most)),
      ...(await drain(lastingOwner(caller), most)),
    ],
  }
}
