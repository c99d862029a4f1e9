import { raceAbort } from '../core/abort.ts'
import { type ErrorOptions, isPegboardError, messageOf, PegboardError } from '../core/errors.ts'
import { classifyDisconnect } from '../core/failure-class.ts'
import type { Json } from '../core/is-record.ts'
import type { Log } from '../core/log.ts'
import { scrub } from '../core/scrub.ts'
import { waitAtMost } from '../core/wait-at-most.ts'
import { createBackoff, MAX_RETRY_AFTER_MS, OPEN_AFTER } from './backoff.ts'
import { type Connection, connect, REFUSALS } from './connection.ts'
import { abortReason, lastingCause, withoutServerText } from './error-reasons.ts'
import type { Credentials } from './http-credentials.ts'
import { type EraVerdict, isStale } from './manifest.ts'
import { mayInstall } from './package-download.ts'
import type { Habits } from './per-client-queue.ts'
import type { ServerSettings } from './upstream-settings.ts'
import type { UpstreamShared } from './upstream-shared.ts'

export interface LinkOptions {
  readonly id: string
  /** Read at each connection attempt, so that changed settings apply to the next one. */
  settings(): ServerSettings
  readonly shared: UpstreamShared
  readonly log: Log
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
  /** The next connection will use another era than this one. */
  eraChanged?(connection: Connection): void
}

export type LinkState = 'connecting' | 'failing' | 'known'

/** Keeps one server connected: connects on time or on demand, and reconnects after a failure. */
export interface ReconnectingLink {
  /** The connection, if it can be used now. */
  readonly live: Connection | undefined
  /** Reported as failing but still waiting, because it may be downloading. */
  readonly patient: boolean
  /** Milliseconds since the epoch, if an attempt is planned. */
  readonly nextAttemptAt: number | undefined
  /** The end of the stderr of the current or last process. */
  stderrTail(): string
  verdict: EraVerdict | undefined
  /** Connects after this delay, or earlier if a caller needs it. */
  later(waitMs: number): void
  /** Connects now. Failures are reported and retried internally. */
  connect(): Promise<void>
  /**
   * Waits for a connection.
   * @throws PegboardError E_UPSTREAM_UNAVAILABLE, E_CIRCUIT_OPEN, E_CANCELLED, one of `REFUSALS`
   */
  ready(signal?: AbortSignal): Promise<Connection>
  /** Reports that a connection is unusable. @param failures number of failures it counts as; default 1 */
  lost(connection: Connection, reason: string, failures?: number): void
  worked(): void
  /** Reports a failed request on a connection that seems alive; the fifth in a row closes the connection. */
  troubled(connection: Connection, error: PegboardError): void
  /** Closes an idle connection. The next caller gets a new one. */
  rest(graceMs: number): void
  stop(graceMs: number): Promise<void>
}

const RECONNECT_WAIT_MS = 5_000
/** For a server that must not be probed now. */
const PLAIN: EraVerdict = { era: 'legacy', transport: 'stdio', at: 0 }
/** Maximum length of a server's error text. */
const MAX_REASON = 16 * 1024

export function createReconnectingLink(options: LinkOptions): ReconnectingLink {
  const { id, shared, log } = options
  const { clock } = shared
  const backoff = createBackoff(clock)
  const ending = new AbortController()
  const { tell: toClientReason, tellWithPaths } = createReasonFilter(options.settings(), options.isSilent)
  let live: Connection | undefined
  let connecting: Promise<Connection> | undefined
  /** A connection whose lists are being read. */
  let opening: Connection | undefined
  let closing: Promise<unknown> | undefined
  let verdict: EraVerdict | undefined
  let alternatingProbe: AlternatingProbe
  let hasConnected = false
  let patient = false
  let state: LinkState | undefined
  let reason: string | undefined
  // A problem that only a person can fix; calls get this error instead of waiting.
  let permanentError: PegboardError | undefined
  let nextAttemptAt: number | undefined
  let cancelTimer = (): void => undefined
  let stderrTail = (): string => ''
  let consecutiveFailures = 0
  let quietUntil = 0

  const unavailable = (why: string, retryAfterMs?: number, failure = classifyDisconnect(why)): PegboardError =>
    new PegboardError('E_UPSTREAM_UNAVAILABLE', `${id} ${why}.`, {
      class: failure,
      ...retryFields(retryAfterMs),
    })

  const notConnected = (why: string, cause: unknown, more: ErrorOptions): PegboardError => {
    const message = toClientReason(why)
    return new PegboardError('E_UPSTREAM_UNAVAILABLE', `${id} is not connected: ${message}.`, {
      class: classifyDisconnect(message),
      cause,
      ...more,
    })
  }

  const refused = ({ code, message, hint }: PegboardError): PegboardError =>
    new PegboardError(code, `${id}: ${message.replace(/\.$/, '')}.`, {
      class: code === 'E_AUTH_REQUIRED' ? 'login' : 'server_setup',
      hint,
    })

  function become(next: LinkState, why: string | undefined): void {
    state = next
    reason = why
    const message = why === undefined ? undefined : toClientReason(why)
    const detail = why === undefined ? undefined : tellWithPaths(why)
    options.changed(next, message, detail === message ? undefined : detail)
  }

  function cancelAttempt(): void {
    cancelTimer()
    nextAttemptAt = undefined
  }

  function connectNow(): Promise<Connection> {
    cancelTimer()
    connecting ??= attempt().finally(() => {
      patient = false
      connecting = undefined
      opening = undefined
    })
    return connecting
  }

  async function attempt(): Promise<Connection> {
    if (state !== 'failing') become('connecting', reason)
    // Two processes of one server could conflict over its files.
    await closing
    const beganAt = clock.now()
    const settings = options.settings()
    const limits = getTimeouts(settings, shared, hasConnected)
    const stopWarning =
      limits.silentTimeoutMs === undefined ? () => undefined : clock.after(shared.connectTimeoutMs, reportSlow)
    backoff.begin()
    const freshVerdict = verdict && isStale(verdict, beganAt) ? undefined : verdict
    let modern = false
    let probeFatal = false
    let connection: Connection | undefined
    let closedReason: string | undefined
    try {
      connection = await connect({
        ...shared,
        ...limits,
        id,
        settings,
        log,
        signal: ending.signal,
        credentials: options.credentials,
        habits: options.habits,
        once: alternatingProbe !== undefined,
        verdict: freshVerdict ?? (alternatingProbe === 'plain' ? PLAIN : undefined),
        onNotification: options.notification,
        onStart(read) {
          stderrTail = read
        },
        onModern() {
          modern = true
          if (connection !== undefined && connection === live) recordModern(connection, beganAt)
        },
        tell: toClientReason,
        onNoise(why) {
          stopWarning()
          reportNoise(why)
        },
        onProbeFatal() {
          probeFatal = true
        },
        onClosed: (why) => {
          closedReason = why
          if (connection) lost(connection, why)
        },
      })
      verdict = verdictOf(connection, beganAt, freshVerdict)
      stopWarning()
      alternatingProbe = undefined
      hasConnected = true
      opening = connection
      await options.opened(connection, beganAt)
      if (ending.signal.aborted) throw unavailable('is stopped')
      if (closedReason !== undefined) throw unavailable(`broke off: ${closedReason}`)
      markLive(connection)
      if (modern) recordModern(connection, beganAt)
      return connection
    } catch (error) {
      stopWarning()
      patient = false
      const stderrTail = connection?.stderrTail().trim()
      await connection?.close(0)
      // The server may have been replaced by another version.
      verdict = undefined
      alternatingProbe = nextProbe(alternatingProbe, probeFatal)
      throw attemptFailed(error, stderrTail)
    }
  }

  function markLive(connection: Connection): void {
    live = connection
    state = undefined
    reason = undefined
    permanentError = undefined
    nextAttemptAt = undefined
    consecutiveFailures = 0
    quietUntil = 0
    backoff.succeeded()
  }

  /** Reports a failed attempt and plans the next one. @returns the error for the calls that waited for it */
  function attemptFailed(error: unknown, stderrTail: string | undefined): PegboardError {
    const why = messageOf(error).slice(0, MAX_REASON).replace(/\.$/, '')
    const waitMs = ending.signal.aborted ? undefined : retryLater(why, stderrTail, requestedDelayOf(error))
    permanentError = permanentErrorOf(error, why)
    return permanentError ?? notConnected(why, error, retryFields(waitMs))
  }

  /** The error for calls if only a person can fix the problem. */
  function permanentErrorOf(error: unknown, why: string): PegboardError | undefined {
    const lasting = lastingCause(error)
    if (lasting) return notConnected(why, error, { hint: lasting.hint, class: 'server_setup' })
    return isPegboardError(error) && REFUSALS.has(error.code) ? refused(error) : undefined
  }

  /** The server answered the probe too late for this connection, but in time for the next. */
  function recordModern(connection: Connection, at: number): void {
    verdict = { era: 'modern', transport: connection.transport, at }
    options.eraChanged?.(connection)
  }

  /** Tells waiting callers that there may be no answer; the process keeps running. */
  function reportSlow(): void {
    const why = `no answer within ${shared.connectTimeoutMs / 1_000} s${mayInstall(options.settings()) ? '; it may still be downloading' : ''}`
    if (state !== 'failing') log.warn(why)
    patient = true
    become('failing', why)
  }

  /** Calls keep waiting, because it may still answer. */
  function reportNoise(why: string): void {
    if (state === 'connecting') become('connecting', why)
  }

  /** @returns the delay before the next attempt, in milliseconds */
  function retryLater(why: string, stderrTail: string | undefined, askedMs: number | undefined): number {
    const waitMs = backoff.failed(askedMs)
    // Logs a failure once and repetitions at debug level.
    log[state === 'failing' && why === reason ? 'debug' : 'warn'](tellWithPaths(why), {
      retryInMs: waitMs,
      ...(stderrTail ? { stderr: stderrTail } : {}),
    })
    later(waitMs)
    become('failing', why)
    return waitMs
  }

  function lost(connection: Connection, why: string, failures = 1, askedMs?: number): void {
    if (live !== connection) return
    live = undefined
    const stderrTail = connection.stderrTail().trim()
    void connection.close(0)
    if (ending.signal.aborted) return
    const waitMs = backoff.connectionLost(askedMs, failures)
    // An unused server stays stopped until a call, unless it keeps dying.
    if (backoff.attempt <= 1 && !options.keeps()) {
      log.warn(`disconnected: ${why}`, stderrTail ? { stderr: stderrTail } : {})
      become('known', `disconnected: ${why}`)
      return
    }
    log.warn(`disconnected: ${why}`, { retryInMs: waitMs, ...(stderrTail ? { stderr: stderrTail } : {}) })
    later(waitMs)
    // Calls wait for the first reconnection, but not for a server that keeps dying.
    become(backoff.attempt > 1 ? 'failing' : 'connecting', `disconnected: ${why}`)
  }

  function later(waitMs: number): void {
    cancelAttempt()
    nextAttemptAt = clock.now() + waitMs
    // The attempt reports its own failure.
    cancelTimer = clock.after(waitMs, () => void connectNow().catch(() => undefined))
  }

  /** Why a call must fail now; undefined if it may wait. */
  function refusal(): PegboardError | undefined {
    if (ending.signal.aborted) return unavailable('is stopped')
    if (state !== 'failing') return undefined
    // The call that finds an attempt due makes it and waits; while the circuit is open, no other call waits.
    if (connecting ? !backoff.open : backoff.dueInMs() === 0) return undefined
    if (permanentError) return permanentError
    const dueInMs = connecting ? 1_000 : backoff.dueInMs()
    const retryAfterMs = Math.max(1_000, Math.min(dueInMs, (nextAttemptAt ?? Number.POSITIVE_INFINITY) - clock.now()))
    const message = toClientReason(reason ?? '')
    if (!backoff.open) return unavailable(`is reconnecting (attempt ${backoff.attempt}): ${message}`, retryAfterMs)
    return new PegboardError('E_CIRCUIT_OPEN', `${id} failed ${backoff.attempt} times in a row: ${message}.`, {
      class: classifyDisconnect(message),
      ...retryFields(retryAfterMs),
    })
  }

  /** The connection, unless the server asked for a pause. */
  function usableConnection(): Connection | undefined {
    if (quietUntil !== 0 && clock.now() >= quietUntil) quietUntil = 0
    return quietUntil === 0 ? live : undefined
  }

  async function ready(signal?: AbortSignal): Promise<Connection> {
    const connection = usableConnection()
    if (connection) return connection
    if (live) throw unavailable('asked not to be called yet', quietUntil - clock.now(), 'rate')
    const refused = refusal()
    if (refused) throw refused
    const waitMs = backoff.attempt > 1 ? RECONNECT_WAIT_MS : shared.connectTimeoutMs
    const throwTimeout = (): never => {
      throw unavailable('is still connecting', 1_000)
    }
    return await raceAbort(waitAtMost(waitMs, connectNow(), throwTimeout, clock), signal, abortReason)
  }

  return {
    get live() {
      return usableConnection()
    },
    get patient() {
      return patient
    },
    get nextAttemptAt() {
      return nextAttemptAt
    },
    stderrTail: () => stderrTail(),
    get verdict() {
      return verdict
    },
    set verdict(value) {
      verdict = value
      hasConnected ||= value !== undefined
    },
    later,
    connect: () =>
      connectNow().then(
        () => undefined,
        () => undefined,
      ),
    ready,
    lost,
    worked() {
      consecutiveFailures = 0
    },
    troubled(connection, error) {
      if (live !== connection) return
      const askedMs = error.retryAfterMs ?? undefined
      if (++consecutiveFailures >= OPEN_AFTER) lost(connection, error.message.replace(/\.$/, ''), OPEN_AFTER, askedMs)
      else if (askedMs !== undefined) quietUntil = clock.now() + Math.min(askedMs, MAX_RETRY_AFTER_MS)
    },
    rest(graceMs) {
      const connection = live
      if (!connection) return
      live = undefined
      cancelAttempt()
      become('known', undefined)
      closing = connection
        .close(graceMs)
        .catch((error: unknown) => log.warn('not closed', { error: messageOf(error) }))
        .finally(() => {
          closing = undefined
        })
    },
    async stop(graceMs) {
      cancelAttempt()
      ending.abort()
      const connection = live ?? opening
      live = undefined
      await Promise.allSettled([connection?.close(graceMs), connecting, closing])
    },
  }
}

function verdictOf({ era, transport, probe }: Connection, at: number, previous: EraVerdict | undefined): EraVerdict {
  // The era was not probed this time, so the verdict keeps its age.
  if (probe === 'none' && previous?.era === era) return { ...previous, transport }
  return { era, transport, at, ...(era === 'legacy' && probe === 'silent' ? { silent: true as const } : {}) }
}

/**
 * What the next attempt does, after the server died with and without the era probe: attempts with and without the probe
 * then alternate, one process each. `undefined` for other servers.
 */
type AlternatingProbe = 'probe' | 'plain' | undefined

function nextProbe(now: AlternatingProbe, probeFatal: boolean): AlternatingProbe {
  if (now === undefined) return probeFatal ? 'probe' : undefined
  return now === 'probe' && probeFatal ? 'plain' : 'probe'
}

/** Whatever the class: Pegboard connects again by then, and the server may have been repaired. */
const retryFields = (retryAfterMs: number | undefined) =>
  retryAfterMs === undefined ? {} : { retryAfterMs, retryable: true }

const requestedDelayOf = (error: unknown): number | undefined =>
  isPegboardError(error) && error.retryAfterMs !== null ? error.retryAfterMs : undefined

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

const NETWORK_CODE = /(?:^|: )(?:E[A-Z]{4,}|UND_ERR_[A-Z_]+)$/

/** Makes reasons safe: removes configured secrets and, for clients, paths and addresses. */
function createReasonFilter({ target }: ServerSettings, isSilent: () => boolean) {
  const values = target.kind === 'stdio' ? target.env : target.headers
  const secrets = Object.values(values).filter((value) => value.length >= 6)
  // `ECONNREFUSED` alone does not tell which of several servers or addresses failed.
  const host = target.kind === 'stdio' ? undefined : new URL(target.url).host
  const withoutSecrets = (why: string): string =>
    secrets.reduce((text, secret) => text.replaceAll(secret, '<secret>'), why)
  return {
    tell: (why: string): string => scrub(withoutSecrets(isSilent() ? withoutServerText(why) : why)),
    tellWithPaths(why: string): string {
      const text = withoutSecrets(why)
      return host !== undefined && NETWORK_CODE.test(text) ? `${text} (${host})` : text
    },
  }
}
