import { raceAbort } from '../core/abort.ts'
import { messageOf, type PegboardError } from '../core/errors.ts'
import type { Json } from '../core/is-record.ts'
import { waitAtMost } from '../core/wait-at-most.ts'
import { MAX_RETRY_AFTER_MS, OPEN_AFTER } from './backoff.ts'
import { type Connection, connect } from './connection.ts'
import { createEraHistory, type EraHistory } from './era-history.ts'
import { abortReason, createReasonFilter } from './error-reasons.ts'
import type { Credentials } from './http-credentials.ts'
import { createLinkStatus, createUnavailable, type LinkState, type LinkStatus } from './link-status.ts'
import { mayInstall } from './package-download.ts'
import type { Habits } from './per-client-queue.ts'
import type { ServerSettings } from './upstream-settings.ts'
import type { ServerContext, UpstreamShared } from './upstream-shared.ts'

export interface LinkOptions extends Pick<ServerContext, 'id' | 'settings' | 'shared' | 'log'> {
  readonly credentials: Credentials
  readonly habits: Habits
  /** Called with a new connection to read its lists; an error counts as a failed attempt. */
  opened(connection: Connection, beganAt: number): Promise<void>
  /** True if a lost connection is restored even if no call needs it. */
  keeps(): boolean
  /**
   * Called on each change: `connecting` (calls wait), `failing` (calls fail) or `known` (idle until a call).
   * @param detail the reason for operators, with paths
   */
  changed(state: LinkState, reason: string | undefined, detail: string | undefined): void
  notification(method: string, params: Json, attributed: boolean): void
  /** True if clients must not see any text of the server. */
  isSilent(): boolean
  /** The next connection will use another era than the current one. */
  eraChanged?(): void
}

/** Keeps one server connected: connects on time or on demand, and reconnects after a failure. */
export type ReconnectingLink = ReturnType<typeof createReconnectingLink>

export function createReconnectingLink(options: LinkOptions) {
  const { id, shared, log } = options
  const { clock } = shared
  const reasons = createReasonFilter(options.settings(), options.isSilent)
  const eras = createEraHistory()
  const status = createLinkStatus(options, reasons, () => void connectQuietly())
  let live: Connection | undefined
  let connecting: Promise<Connection> | undefined
  /** A connection whose lists are being read. */
  let opening: Connection | undefined
  let closing: Promise<unknown> | undefined
  let stderrTail = (): string => ''
  let consecutiveFailures = 0
  let quietUntil = 0

  function connectNow(): Promise<Connection> {
    status.cancelTimer()
    connecting ??= attempt().finally(() => {
      connecting = undefined
      opening = undefined
    })
    return connecting
  }

  /** Connects now. Failures are reported and retried internally. */
  const connectQuietly = (): Promise<void> => connectNow().then(ignore, ignore)

  async function attempt(): Promise<Connection> {
    status.connecting()
    // Two processes of one server could conflict over its files.
    await closing
    const beganAt = clock.now()
    const settings = options.settings()
    const era = eras.begin(beganAt)
    const limits = getTimeouts(settings, shared, era.hasConnected)
    status.begin(limits.silentTimeoutMs !== undefined)
    let connection: Connection | undefined
    let hasAnsweredLate = false
    let closedReason: string | undefined
    const recordLateAnswer = (from: Connection): void => {
      era.answeredLate(from)
      options.eraChanged?.()
    }
    try {
      connection = await connect({
        ...shared,
        ...limits,
        ...era.options,
        id,
        settings,
        log,
        signal: status.stopped,
        credentials: options.credentials,
        habits: options.habits,
        onNotification: options.notification,
        onStart(read) {
          stderrTail = read
        },
        onModern() {
          hasAnsweredLate = true
          if (connection !== undefined && connection === live) recordLateAnswer(connection)
        },
        tell: reasons.forClients,
        onNoise: status.noise,
        onClosed: (why) => {
          closedReason = why
          if (connection) lost(connection, why)
        },
      })
      era.connected(connection)
      status.answered()
      opening = connection
      await options.opened(connection, beganAt)
      if (status.stopped.aborted) throw createUnavailable(id, 'is stopped')
      if (closedReason !== undefined) throw createUnavailable(id, `broke off: ${closedReason}`)
      live = connection
      consecutiveFailures = 0
      quietUntil = 0
      status.connected()
      if (hasAnsweredLate) recordLateAnswer(connection)
      return connection
    } catch (error) {
      status.attemptEnded()
      const stderrTail = connection?.stderrTail().trim()
      await connection?.close(0)
      era.failed()
      throw status.failed(error, stderrTail)
    }
  }

  /** Reports that a connection is unusable. @param failures number of failures it counts as; default 1 */
  function lost(connection: Connection, why: string, failures?: number, askedMs?: number): void {
    if (live !== connection) return
    live = undefined
    const stderrTail = connection.stderrTail().trim()
    void connection.close(0)
    status.lost(why, stderrTail, failures, askedMs)
  }

  /** The connection, unless the server asked for a pause. */
  function usableConnection(): Connection | undefined {
    if (quietUntil !== 0 && clock.now() >= quietUntil) quietUntil = 0
    return quietUntil === 0 ? live : undefined
  }

  /**
   * Waits for a connection.
   * @throws PegboardError E_UPSTREAM_UNAVAILABLE, E_CIRCUIT_OPEN, E_CANCELLED, one of `REFUSALS`
   */
  async function ready(signal?: AbortSignal): Promise<Connection> {
    const connection = usableConnection()
    if (connection) return connection
    const quietMs = quietUntil - clock.now()
    if (live) throw createUnavailable(id, 'asked not to be called yet', { retryAfterMs: quietMs, class: 'rate' })
    const refusal = status.refusal(connecting !== undefined)
    if (refusal) throw refusal
    const waitMs = status.longestWaitMs()
    const throwTimeout = (): never => {
      throw createUnavailable(id, 'is still connecting', { retryAfterMs: 1_000 })
    }
    return await raceAbort(waitAtMost(waitMs, connectNow(), throwTimeout, clock), signal, abortReason)
  }

  return {
    /** The connection, if it can be used now. */
    live(): Connection | undefined {
      return usableConnection()
    },
    status: status as Pick<LinkStatus, 'isPatient' | 'nextAttemptAt'>,
    eras: eras as Pick<EraHistory, 'verdict' | 'restore'>,
    /** The end of the stderr of the current or last process. */
    stderrTail: (): string => stderrTail(),
    /** Connects after this delay, or earlier if a caller needs it. */
    later: status.later,
    connect: connectQuietly,
    ready,
    lost,
    worked(): void {
      consecutiveFailures = 0
    },
    /** Reports a failed request on a connection that seems alive; the fifth in a row closes the connection. */
    troubled(connection: Connection, error: PegboardError): void {
      if (live !== connection) return
      const askedMs = error.retryAfterMs ?? undefined
      if (++consecutiveFailures >= OPEN_AFTER) lost(connection, error.message.replace(/\.$/, ''), OPEN_AFTER, askedMs)
      else if (askedMs !== undefined) quietUntil = clock.now() + Math.min(askedMs, MAX_RETRY_AFTER_MS)
    },
    /** Closes an idle connection. The next caller gets a new one. */
    rest(graceMs: number): void {
      const connection = live
      if (!connection) return
      live = undefined
      status.resting()
      closing = connection
        .close(graceMs)
        .catch((error: unknown) => log.warn('not closed', { error: messageOf(error) }))
        .finally(() => {
          closing = undefined
        })
    },
    async stop(graceMs: number): Promise<void> {
      status.stop()
      const connection = live ?? opening
      live = undefined
      await Promise.allSettled([connection?.close(graceMs), connecting, closing])
    },
  }
}

const ignore = (): void => undefined

/** Killing an installer halfway can leave a broken package that never starts again. */
function getTimeouts(
  settings: ServerSettings,
  shared: UpstreamShared,
  seen: boolean,
): { readonly connectTimeoutMs?: number; readonly silentTimeoutMs?: number } {
  if (settings.connectTimeoutMs !== undefined) return { connectTimeoutMs: settings.connectTimeoutMs }
  if (settings.target.kind !== 'stdio' || (seen && !mayInstall(settings))) return {}
  return shared.installTimeoutMs > shared.connectTimeoutMs ? { silentTimeoutMs: shared.installTimeoutMs } : {}
}
