import type { Client, McpSubscription } from '@modelcontextprotocol/client'
import type { Clock } from '../core/clock.ts'
import { createDeferred } from '../core/deferred.ts'
import { messageOf } from '../core/errors.ts'
import { isRecord, type Json } from '../core/is-record.ts'
import { LIST_KINDS, listChanged } from '../core/list-kinds.ts'
import type { Log } from '../core/log.ts'

interface OpenSubscription {
  readonly begun: Promise<void>
  stop(): void
}

/**
 * Keeps the change subscriptions of a 2026-era connection open and reopens them when the server closes them. Changes
 * may be missed in between, so afterwards every list and every subscribed resource counts as changed.
 */
export function createChangeSubscriptions(
  client: Client,
  capabilities: Json,
  clock: Clock,
  log: Log,
  alive: () => boolean,
  changed: (method: string, params: Json, attributed: boolean) => void,
) {
  const kinds = LIST_KINDS.filter((kind) => {
    const capability = capabilities[kind]
    return isRecord(capability) && capability['listChanged'] === true
  })
  const lists =
    kinds.length > 0
      ? subscribe(Object.fromEntries(kinds.map((kind) => [`${kind}ListChanged`, true])), () => {
          for (const kind of kinds) changed(listChanged(kind), {}, false)
        })
      : undefined
  let resources: OpenSubscription | undefined

  /** @param reopened called if there was a gap */
  function subscribe(filter: object, reopened: () => void): OpenSubscription {
    let stopped = false
    const begun = createDeferred<void>()
    let subscription: McpSubscription | undefined
    let cancelRetry = (): void => undefined
    const retry = (waitMs: number): void => {
      if (stopped || !alive()) return
      cancelRetry = clock.after(waitMs, () => void open(waitMs, true))
    }
    const open = async (waitMs: number, isReopened: boolean): Promise<void> => {
      try {
        subscription = await client.listen(filter, { timeout: 10_000 })
        begun.resolve()
        if (stopped) return await subscription.close()
        if (isReopened) reopened()
        const cause = await subscription.closed
        if (cause !== 'local') retry(1_000)
      } catch (error) {
        begun.resolve()
        log.debug('subscription', { error: messageOf(error) })
        retry(Math.min(waitMs * 2, 60_000))
      }
    }
    void open(500, false)
    return {
      begun: begun.promise,
      stop() {
        stopped = true
        cancelRetry()
        void subscription?.close().catch((error: unknown) => log.debug('subscription', { error: messageOf(error) }))
      },
    }
  }

  return {
    /** Subscribes to exactly these resources. Resolves when the server has acknowledged them, or cannot be asked now. */
    async watch(uris: readonly string[]): Promise<void> {
      const previous = resources
      const resourceSubscriptions = [...uris]
      const reopened = (): void => {
        for (const uri of resourceSubscriptions) changed('notifications/resources/updated', { uri }, false)
      }
      const next = uris.length > 0 ? subscribe({ resourceSubscriptions }, reopened) : undefined
      resources = next
      // The new subscription must begin before the old one ends, or a change in between would be lost.
      await next?.begun
      previous?.stop()
    },
    stop(): void {
      lists?.stop()
      resources?.stop()
    },
  }
}
