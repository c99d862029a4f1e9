import { createHash } from 'node:crypto'
import type { Snapshot } from '../catalog/catalog.ts'
import type { Clock } from '../core/clock.ts'
import type { Caller } from '../core/context.ts'
import type { ServerHost } from './host.ts'

/** Someone who can be told that a list changed. */
export interface Listener {
  caller(): Caller
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
 * come and go without a word. Changes within 100 ms are told once.
 */
export function createNotifier(host: ServerHost, clock: Clock): Notifier {
  const told = new Map<Listener, string>()
  let before = host.catalog.snapshot()
  let cancel: (() => void) | undefined

  const digest = (listener: Listener): string => {
    const caller = listener.caller()
    return createHash('sha256')
      .update(JSON.stringify(host.surface.list(caller, host.exposure(caller).mode)))
      .digest('base64')
  }

  const flush = (): void => {
    cancel = undefined
    const now = host.catalog.snapshot()
    const prompts = list(now, 'prompts') !== list(before, 'prompts')
    const resources =
      list(now, 'resources') !== list(before, 'resources') || list(now, 'templates') !== list(before, 'templates')
    before = now
    for (const [listener, last] of [...told]) {
      const current = digest(listener)
      told.set(listener, current)
      if (current !== last) listener.toolsChanged()
      if (prompts) listener.promptsChanged()
      if (resources) listener.resourcesChanged()
    }
  }
  const stop = host.catalog.onChange(() => {
    if (told.size > 0) cancel ??= clock.after(COALESCE_MS, flush)
    else before = host.catalog.snapshot()
  })

  return {
    add(listener) {
      told.set(listener, digest(listener))
      return () => told.delete(listener)
    },
    close() {
      stop()
      cancel?.()
    },
  }
}

const list = (snapshot: Snapshot, kind: 'prompts' | 'resources' | 'templates'): string =>
  JSON.stringify([...snapshot.owners.values()].flatMap((owner) => owner[kind].map(({ entry }) => entry)))
