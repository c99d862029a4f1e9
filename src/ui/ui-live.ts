import type { Clock } from '../core/clock.ts'
import type { CallRow, LiveEvent } from './api-types.ts'
import type { UiHost } from './ui-host.ts'

/** Changes within this time are sent together. */
const PAUSE_MS = 250
/** Counts of the last minute and durations change by themselves. */
const REFRESH_MS = 2_000
const MAX_STREAMS = 20
/** Calls that are sent at once; the page keeps no more. */
const MAX_CALLS = 2_000

/** Sends what changes to all open pages. */
export function createUiLive(host: UiHost, clock: Clock, url: () => string) {
  const listeners = new Set<(event: LiveEvent) => void>()
  const sent = new Map<string, string>()
  let newCalls: CallRow[] = []
  let cancel: (() => void) | undefined
  let cancelRefresh: (() => void) | undefined
  let stop: (() => void) | undefined

  const states = (): readonly LiveEvent[] => [
    { kind: 'overview', overview: { ...host.overview(), url: url() } },
    { kind: 'owners', owners: host.owners() },
    { kind: 'clients', clients: host.clients() },
    { kind: 'tools', version: host.version() },
  ]
  const emit = (event: LiveEvent): void => {
    for (const listener of listeners) listener(event)
  }

  function flush(): void {
    cancel = undefined
    const calls = newCalls
    newCalls = []
    if (calls.length > 0) emit({ kind: 'calls', calls })
    for (const event of states()) {
      const text = JSON.stringify(event)
      if (sent.get(event.kind) === text) continue
      sent.set(event.kind, text)
      emit(event)
    }
  }
  const flushSoon = (): void => {
    cancel ??= clock.after(PAUSE_MS, flush)
  }
  function refresh(): void {
    flushSoon()
    cancelRefresh = clock.after(REFRESH_MS, refresh)
  }

  function start(): void {
    stop = host.onChange((call) => {
      if (call) newCalls.push(call)
      if (newCalls.length > MAX_CALLS) newCalls.shift()
      flushSoon()
    })
    cancelRefresh = clock.after(REFRESH_MS, refresh)
  }
  function end(): void {
    stop?.()
    cancel?.()
    cancelRefresh?.()
    cancel = undefined
    newCalls = []
    sent.clear()
  }

  return {
    /** Too many pages are open. */
    get isFull(): boolean {
      return listeners.size >= MAX_STREAMS
    },
    /** Sends everything that is shown now, then each change. Returns how to stop. */
    add(send: (event: LiveEvent) => void): () => void {
      if (listeners.size === 0) start()
      send({ kind: 'calls', calls: host.calls() })
      for (const event of states()) send(event)
      listeners.add(send)
      return () => {
        if (listeners.delete(send) && listeners.size === 0) end()
      }
    },
  }
}
