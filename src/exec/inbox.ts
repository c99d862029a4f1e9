import { randomUUID } from 'node:crypto'
import type { Caller } from '../core/caller.ts'
import type { Clock } from '../core/clock.ts'
import { messageOf } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import type { SharedState } from '../state/shared-state.ts'
import type { Table } from '../state/store.ts'
import { lastingOwner, sessionOwner } from './task-owner.ts'

/** Notices for callers that are not connected. Each is delivered once, with the owner's next result, in any process. */
export type Inbox = ReturnType<typeof createInbox>

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
) {
  const ownersWithNotices = new Set<string>()
  const addedSinceTrim = new Map<string, number>()
  const table = (): Table<string> => shared.store().table('notice', (value) => typeof value === 'string')
  shared.subscribe(TOPIC, (owner) => ownersWithNotices.add(owner))

  async function storeNotice(owner: string, line: string): Promise<void> {
    const value = line.length > MAX_CHARS ? `${line.slice(0, MAX_CHARS - 1)}…` : line
    await table().put({ id: randomUUID(), owner, value, expiresAt: clock.now() + KEPT_MS })
    shared.publish(TOPIC, owner)
    const count = (addedSinceTrim.get(owner) ?? 0) + 1
    addedSinceTrim.set(owner, count % TRIM_EVERY)
    if (count < TRIM_EVERY) return
    const all = await table().list(owner)
    await Promise.all(all.slice(0, Math.max(0, all.length - MAX_LINES)).map(({ id }) => table().delete(id)))
  }

  async function drain(owner: string, max: number): Promise<readonly string[]> {
    if (!ownersWithNotices.delete(owner)) return []
    const all = await table()
      .list(owner)
      .catch((error: unknown) => {
        // The notices stay for the next result, so that this result is not delayed.
        ownersWithNotices.add(owner)
        logReadFailure(error)
        return []
      })
    const deleteNotice = (id: string): Promise<unknown> => table().delete(id).catch(logReadFailure)
    const old = all.slice(0, Math.max(0, all.length - MAX_LINES))
    await Promise.all(old.map(({ id }) => deleteNotice(id)))
    const recentRows = all.slice(old.length)
    const rows = recentRows.slice(0, max)
    if (rows.length < recentRows.length) ownersWithNotices.add(owner)
    else addedSinceTrim.delete(owner)
    // Another process may deliver them at the same time: the one that deletes a notice delivers it.
    const deletedHere = await Promise.all(rows.map(async ({ id, value }) => ((await deleteNotice(id)) ? [value] : [])))
    const left = recentRows.length - rows.length
    return left === 0 ? deletedHere.flat() : [...deletedHere.flat(), `${left} more: read notifications://inbox.`]
  }

  /** Reads stored notices. */
  async function start(): Promise<void> {
    for (const { owner } of await table().list()) ownersWithNotices.add(owner)
  }
  const logReadFailure = (error: unknown): void => log.warn('cannot read notices', { error: messageOf(error) })
  // Notices added during the outage were missed.
  shared.onReconnect(() => void start().catch(logReadFailure))

  return {
    start,
    /** Adds a notice, cut at 2,000 characters. Keeps the latest 1,000. */
    add(owner: string, line: string): void {
      storeNotice(owner, line)
        .then(() => ownersWithNotices.add(owner))
        .catch((error: unknown) => log.error('cannot store a notice', { error: messageOf(error) }))
    },
    /** True if the caller may have notices. Does not read the store. */
    has: (caller: Caller): boolean =>
      ownersWithNotices.size > 0 &&
      (ownersWithNotices.has(sessionOwner(caller)) || ownersWithNotices.has(lastingOwner(caller))),
    /**
     * Removes and returns the notices for a caller's session and principal.
     * @param most returns the oldest ones, and a line with the number left (default all)
     */
    take: async (caller: Caller, most = MAX_LINES): Promise<readonly string[]> => [
      ...(await drain(sessionOwner(caller), most)),
      ...(await drain(lastingOwner(caller), most)),
    ],
  }
}
