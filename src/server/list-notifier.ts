import { hash } from 'node:crypto'
import type { Caller } from '../core/caller.ts'
import type { Clock } from '../core/clock.ts'
import { getOrInsert } from '../core/get-or-insert.ts'
import type { Json } from '../core/is-record.ts'
import { LIST_KINDS, type ListKind } from '../core/list-kinds.ts'
import type { ExposureMode } from '../view/exposure.ts'
import type { View } from '../view/view.ts'
import { listBytes } from './list-cache.ts'
import { toolResourcesOf } from './own-resources.ts'
import type { NotificationHost } from './server-host.ts'

/** A client that wants to know when its lists change. */
export interface Listener {
  /** One caller for each profile that it uses. */
  callers(): readonly Caller[]
  listChanged(kind: ListKind): void
  /** Sends any notification; absent where several clients share the listener. */
  notify?(method: string, params: Json): void
}

export type ListNotifier = ReturnType<typeof createListNotifier>

const COALESCE_MS = 100

/**
 * Notifies clients of changed lists, but only if the list of that client has changed: in discovery mode, servers come and go
 * without a notification. Joins changes within 100 ms.
 */
export function createListNotifier(host: NotificationHost, clock: Clock) {
  const lastSent = new Map<Listener, Digests>()
  let cancel: (() => void) | undefined
  const promptsOf = ({ owners }: View): readonly unknown[] =>
    owners.flatMap(({ prompts }) => prompts.map((one) => [one.entry, host.catalog.snapshot().promptNames.get(one)]))
  // Callers that see the same share a view.
  const digestsByView = new WeakMap<View, Map<ExposureMode, Digests & { readonly list: unknown }>>()

  function digestsOf(caller: Caller): Digests {
    const view = host.view(caller)
    const { mode } = host.exposure(caller)
    const modes = getOrInsert(digestsByView, view, () => new Map())
    let digests = modes.get(mode)
    // Lists of all tools are cached; others are short, and belong to one session.
    const list = host.lists.of(caller)
    if (digests?.list !== list) {
      digests = {
        list,
        // Some clients do not read a changed list again.
        tools: view.limits.trustsListChanged ? digestOf(listBytes(list) ?? JSON.stringify(list)) : '',
        prompts: digests?.prompts ?? digest(promptsOf(view)),
        resources:
          digests?.resources ??
          digest([
            toolResourcesOf(view).map(({ entry }) => entry),
            entries(view, 'resources'),
            entries(view, 'templates'),
          ]),
      }
      modes.set(mode, digests)
    }
    return digests
  }

  /** The digests of all callers of a client: a change for any of them counts. */
  function digestsOfListener(listener: Listener): Digests {
    const callerDigests = listener.callers().map(digestsOf)
    const [only] = callerDigests
    if (callerDigests.length === 1 && only) return only
    const join = (kind: ListKind): string => callerDigests.map((one) => one[kind]).join()
    return { tools: join('tools'), prompts: join('prompts'), resources: join('resources') }
  }

  const flush = (): void => {
    cancel = undefined
    for (const [listener, last] of [...lastSent]) {
      const current = digestsOfListener(listener)
      lastSent.set(listener, current)
      for (const kind of LIST_KINDS) if (current[kind] !== last[kind]) listener.listChanged(kind)
    }
  }
  const scheduleFlush = (): void => {
    if (lastSent.size > 0) cancel ??= clock.after(COALESCE_MS, flush)
  }
  const stops = [host.catalog.onChange(scheduleFlush), host.onListChange(scheduleFlush)]

  return {
    /** Starts to notify a client. Returns a function that stops this. */
    add(listener: Listener): () => void {
      lastSent.set(listener, digestsOfListener(listener))
      const { callers, notify } = listener
      const leave = notify && host.clients.add({ callers, notify })
      return () => {
        lastSent.delete(listener)
        leave?.()
      }
    },
    close(): void {
      for (const stop of stops) stop()
      cancel?.()
    },
  }
}

type Digests = Readonly<Record<ListKind, string>>

const digestOf = (text: string | Buffer): string => hash('sha256', text, 'base64')
const digest = (value: unknown): string => digestOf(JSON.stringify(value))

const entries = ({ owners }: View, kind: 'resources' | 'templates'): readonly unknown[] =>
  owners.flatMap((owner) => owner[kind].map(({ entry }) => entry))
