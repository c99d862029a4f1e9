import type { Client, McpSubscription } from '@modelcontextprotocol/client'
import type { Clock } from '../core/clock.ts'
import { messageOf } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { isRecord } from '../core/record.ts'

type Json = Readonly<Record<string, unknown>>

export interface Listening {
  /** Follows these resources, and no others. Resolves when the server said that it tells of them, or cannot be asked now. */
  watch(uris: readonly string[]): Promise<void>
  stop(): void
}

interface Following {
  readonly begun: Promise<void>
  stop(): void
}

const LISTS = {
  tools: 'notifications/tools/list_changed',
  prompts: 'notifications/prompts/list_changed',
  resources: 'notifications/resources/list_changed',
} as const

/**
 * Keeps the change subscriptions of a 2026-era connection open, and opens them again when the server ends them.
 * A gap may have hidden a change, so after one every list counts as changed.
 */
export function keepListening(
  client: Client,
  capabilities: Json,
  clock: Clock,
  log: Log,
  alive: () => boolean,
  changed: (method: string, params: Json, attributed: boolean) => void,
): Listening {
  const kinds = (Object.keys(LISTS) as Array<keyof typeof LISTS>).filter((kind) => {
    const capability = capabilities[kind]
    return isRecord(capability) && capability['listChanged'] === true
  })
  const lists =
    kinds.length > 0 ? follow(Object.fromEntries(kinds.map((kind) => [`${kind}ListChanged`, true])), kinds) : undefined
  let resources: Following | undefined

  function follow(filter: object, after: readonly (keyof typeof LISTS)[]): Following {
    let stopped = false
    let begin = (): void => undefined
    const begun = new Promise<void>((resolve) => {
      begin = resolve
    })
    let subscription: McpSubscription | undefined
    let cancelRetry = (): void => undefined
    const retry = (waitMs: number): void => {
      if (stopped || !alive()) return
      cancelRetry = clock.after(waitMs, () => void open(waitMs, true))
    }
    const open = async (waitMs: number, again: boolean): Promise<void> => {
      try {
        subscription = await client.listen(filter, { timeout: 10_000 })
        begin()
        if (stopped) return await subscription.close()
        if (again) for (const kind of after) changed(LISTS[kind], {}, false)
        const cause = await subscription.closed
        if (cause !== 'local') retry(1_000)
      } catch (error) {
        begin()
        log.debug('subscription', { error: messageOf(error) })
        retry(Math.min(waitMs * 2, 60_000))
      }
    }
    void open(500, false)
    return {
      begun,
      stop() {
        stopped = true
        cancelRetry()
        void subscription?.close().catch((error: unknown) => log.debug('subscription', { error: messageOf(error) }))
      },
    }
  }

  return {
    async watch(uris) {
      const before = resources
      const next = uris.length > 0 ? follow({ resourceSubscriptions: [...uris] }, []) : undefined
      resources = next
      // A change between the two would be told by neither.
      await next?.begun
      before?.stop()
    },
    stop() {
      lists?.stop()
      resources?.stop()
    },
  }
}
