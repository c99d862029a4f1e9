import { isPegboardError, messageOf, PegboardError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { createBackoff } from './backoff.ts'
import { type Connection, connect } from './connection.ts'
import type { EraVerdict } from './manifest.ts'
import type { ServerSettings } from './settings.ts'
import type { UpstreamShared } from './shared.ts'

type Json = Readonly<Record<string, unknown>>

export interface LinkOptions {
  readonly id: string
  readonly settings: ServerSettings
  readonly shared: UpstreamShared
  readonly log: Log
  /** A connection is there. Reads its lists; what it throws counts as a failed attempt. */
  opened(connection: Connection): Promise<void>
  /** `connecting`: calls wait for it; `failing`: they do not. */
  changed(state: 'connecting' | 'failing', reason: string | undefined): void
  notification(method: string, params: Json, attributed: boolean): void
}

/** Keeps one server connected: makes a connection when it is time or someone asks, and makes it again when it breaks. */
export interface Link {
  readonly live: Connection | undefined
  /** Failures in a row; 0 while all is well. */
  readonly attempt: number
  /** Milliseconds until it is tried again by itself; undefined when nothing is planned. */
  readonly nextAttemptMs: number | undefined
  verdict: EraVerdict | undefined
  /** How long the last connection took, in milliseconds. */
  readonly startMs: number | undefined
  /** Connects after this long, unless someone needs it sooner. */
  later(waitMs: number): void
  /** A live connection, waiting for one that is on its way. @throws PegboardError E_UPSTREAM_UNAVAILABLE, E_CANCELLED */
  ready(signal?: AbortSignal): Promise<Connection>
  /** This connection is of no more use. */
  lost(connection: Connection, reason: string): void
  stop(graceMs: number): Promise<void>
}

const WEEK_MS = 7 * 24 * 60 * 60_000
const RECONNECT_WAIT_MS = 5_000

export function createLink(options: LinkOptions): Link {
  const { id, settings, shared, log } = options
  const { clock } = shared
  const backoff = createBackoff(clock)
  const ending = new AbortController()
  let live: Connection | undefined
  let connecting: Promise<Connection> | undefined
  let verdict: EraVerdict | undefined
  let startMs: number | undefined
  let failing = false
  let reason: string | undefined
  let cancelTimer = (): void => undefined
  let dueAt: number | undefined

  const unavailable = (why: string, retryAfterMs?: number): PegboardError =>
    new PegboardError('E_UPSTREAM_UNAVAILABLE', `${id} ${why}.`, retryAfterMs === undefined ? {} : { retryAfterMs })

  function become(nowFailing: boolean, why: string | undefined): void {
    failing = nowFailing
    reason = why
    options.changed(failing ? 'failing' : 'connecting', why)
  }

  function connectNow(): Promise<Connection> {
    cancelTimer()
    dueAt = undefined
    connecting ??= attempt().finally(() => {
      connecting = undefined
    })
    return connecting
  }

  async function attempt(): Promise<Connection> {
    if (!failing) become(false, reason)
    backoff.begin()
    const began = clock.now()
    let connection: Connection | undefined
    try {
      connection = await connect({
        ...shared,
        id,
        settings,
        log,
        signal: ending.signal,
        verdict: verdict?.era === 'legacy' && clock.now() - verdict.at > WEEK_MS ? undefined : verdict,
        onNotification: options.notification,
        onClosed: (why) => {
          if (connection) lost(connection, why)
        },
      })
      verdict = { era: connection.era, transport: connection.transport, at: clock.now() }
      startMs = clock.now() - began
      await options.opened(connection)
      if (ending.signal.aborted) throw unavailable('is stopped')
      live = connection
      failing = false
      reason = undefined
      backoff.succeeded()
      return connection
    } catch (error) {
      const tail = connection?.tail().trim()
      await connection?.close(0)
      // A server may have been replaced by one that speaks otherwise.
      verdict = undefined
      const why = messageOf(error).replace(/\.$/, '')
      if (!ending.signal.aborted) failed(why, tail)
      throw new PegboardError('E_UPSTREAM_UNAVAILABLE', `${id} is not connected: ${why}.`, { cause: error })
    }
  }

  function failed(why: string, tail: string | undefined): void {
    const waitMs = backoff.failed()
    // Once is news; the same every minute is noise.
    log[failing && why === reason ? 'debug' : 'warn'](why, { retryInMs: waitMs, ...(tail ? { stderr: tail } : {}) })
    become(true, why)
    later(waitMs)
  }

  function lost(connection: Connection, why: string): void {
    if (live !== connection) return
    live = undefined
    const tail = connection.tail().trim()
    void connection.close(0)
    if (ending.signal.aborted) return
    const waitMs = backoff.lost()
    log.warn(`disconnected: ${why}`, { retryInMs: waitMs, ...(tail ? { stderr: tail } : {}) })
    // The first time calls wait for it to come back; a server that keeps dying is not waited for.
    become(backoff.attempt > 1, `disconnected: ${why}`)
    later(waitMs)
  }

  function later(waitMs: number): void {
    cancelTimer()
    dueAt = clock.now() + waitMs
    // The attempt reports its own failure.
    cancelTimer = clock.after(waitMs, () => void connectNow().catch(() => undefined))
  }

  async function ready(signal?: AbortSignal): Promise<Connection> {
    if (live) return live
    if (ending.signal.aborted) throw unavailable('is stopped')
    if (failing && !connecting) {
      if (backoff.idleMs() > RECONNECT_WAIT_MS) void connectNow().catch(() => undefined)
      throw unavailable(`is reconnecting (attempt ${backoff.attempt})`, 1_000)
    }
    const waitMs = backoff.attempt > 0 ? RECONNECT_WAIT_MS : shared.connectTimeoutMs
    const { promise, resolve, reject } = deferred<Connection>()
    const onAbort = (): void =>
      reject(
        isPegboardError(signal?.reason) ? signal.reason : new PegboardError('E_CANCELLED', 'The call was cancelled.'),
      )
    if (signal?.aborted) onAbort()
    signal?.addEventListener('abort', onAbort, { once: true })
    const stopTimer = clock.after(waitMs, () => reject(unavailable('is still connecting', 1_000)))
    connectNow().then(resolve, reject)
    try {
      return await promise
    } finally {
      stopTimer()
      signal?.removeEventListener('abort', onAbort)
    }
  }

  return {
    get live() {
      return live
    },
    get attempt() {
      return backoff.attempt
    },
    get nextAttemptMs() {
      return dueAt === undefined ? undefined : Math.max(0, Math.round(dueAt - clock.now()))
    },
    get startMs() {
      return startMs
    },
    get verdict() {
      return verdict
    },
    set verdict(known) {
      verdict = known
    },
    later,
    ready,
    lost,
    async stop(graceMs) {
      cancelTimer()
      ending.abort()
      const connection = live
      live = undefined
      await Promise.allSettled([connection?.close(graceMs), connecting])
    },
  }
}

function deferred<T>() {
  let resolve!: (value: T) => void
  let reject!: (error: unknown) => void
  const promise = new Promise<T>((yes, no) => {
    resolve = yes
    reject = no
  })
  return { promise, resolve, reject }
}
