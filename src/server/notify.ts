import { hash } from 'node:crypto'
import type { Clock } from '../core/clock.ts'
import type { Caller } from '../core/context.ts'
import type { Mode } from '../view/exposure.ts'
import type { View } from '../view/view.ts'
import type { ServerHost } from './host.ts'
import { listBytes } from './lists.ts'
import { readingsOf } from './readings.ts'

/** Someone who can be told that a list changed. */
export interface Listener {
  /** As whom it speaks: one caller for each profile. */
  callers(): readonly Caller[]
  /** Absent where nobody in particular listens. */
  notify?(method: string, params: Readonly<Record<string, unknown>>): void
  toolsChanged(): void
  promptsChanged(): void
  resourcesChanged(): void
}

export interface Notifier {
  /** Starts telling a client; the returned function ends it. */
  add(listener: Listener): () => void
  close(): void
}

const COALESCE_MS = 100

/**
 * Tells clients of changed lists, and only of lists that really changed for them: in discovery mode an upstream may
 * come and go without a word, and nobody hears of what another profile has. Changes within 100 ms are told once.
 */
export function createNotifier(host: ServerHost, clock: Clock): Notifier {
  const told = new Map<Listener, Digests>()
  let cancel: (() => void) | undefined
  // Views are shared by all who see the same.
  const known = new WeakMap<View, Map<Mode, Digests>>()

  function digestsOf(caller: Caller): Digests {
    const view = host.view(caller)
    const { mode } = host.exposure(caller)
    const modes = known.get(view) ?? new Map<Mode, Digests>()
    known.set(view, modes)
    let made = modes.get(mode)
    // The doors are few, and what is injected beside them is one session's own.
    if (!made || mode === 'discovery') {
      const list = host.lists.of(caller)
      made = {
        // A client that takes over no changed list would only be disturbed.
        tools: view.limits.trustsListChanged ? digestOf(listBytes(list) ?? JSON.stringify(list)) : '',
        prompts: made?.prompts ?? digest(entries(view, 'prompts')),
        resources:
          made?.resources ??
          digest([readingsOf(view).map(({ entry }) => entry), entries(view, 'resources'), entries(view, 'templates')]),
      }
      modes.set(mode, made)
    }
    return made
  }

  /** Of all whom it speaks as: what one of them sees and another does not is still told. */
  function look(listener: Listener): Digests {
    const all = listener.callers().map(digestsOf)
    const [only] = all
    if (all.length === 1 && only) return only
    const join = (kind: keyof Digests): string => all.map((one) => one[kind]).join()
    return { tools: join('tools'), prompts: join('prompts'), resources: join('resources') }
  }

  const flush = (): void => {
    // Calls are being answered, and looking at lists would have everything looked at before them.
    if (host.unread?.()) {
      cancel = clock.after(COALESCE_MS, flush)
      return
    }
    cancel = undefined
    for (const [listener, last] of [...told]) {
      const now = look(listener)
      told.set(listener, now)
      if (now.tools !== last.tools) listener.toolsChanged()
      if (now.prompts !== last.prompts) listener.promptsChanged()
      if (now.resources !== last.resources) listener.resourcesChanged()
    }
  }
  const soon = (): void => {
    if (told.size > 0) cancel ??= clock.after(COALESCE_MS, flush)
  }
  const stops = [host.catalog.onChange(soon), host.onListChange(soon)]

  return {
    add(listener) {
      told.set(listener, look(listener))
      const { callers, notify } = listener
      const leave = notify && host.clients.add({ callers, notify })
      return () => {
        told.delete(listener)
        leave?.()
      }
    },
    close() {
      for (const stop of stops) stop()
      cancel?.()
    },
  }
}

interface Digests {
  readonly tools: string
  readonly prompts: string
  readonly resources: string
}

const digestOf = (text: string | Buffer): string => hash('sha256', text, 'base64')
const digest = (value: unknown): string => digestOf(JSON.stringify(value))

const entries = ({ owners }: View, kind: 'prompts' | 'resources' | 'templates'): readonly unknown[] =>
  owners.flatMap((owner) => owner[kind].map(({ entry }) => entry))
