import { offEnd, onEnd, type Stop } from '../core/ending.ts'
import { isPegboardError, messageOf, PegboardError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { scrub } from '../core/scrub.ts'
import type { Habits } from './alone.ts'
import { createBackoff, LONGEST_ASKED_MS, OPEN_AFTER } from './backoff.ts'
import { type Connection, connect, REFUSALS } from './connection.ts'
import type { Credentials } from './credentials.ts'
import { mayInstall } from './install.ts'
import { type EraVerdict, isStale } from './manifest.ts'
import type { ServerSettings } from './settings.ts'
import type { UpstreamShared } from './shared.ts'

type Json = Readonly<Record<string, unknown>>

export interface LinkOptions {
  readonly id: string
  readonly settings: ServerSettings
  readonly shared: UpstreamShared
  readonly log: Log
  readonly credentials?: Credentials
  readonly habits?: Habits
  /** A connection is there. Reads its lists; what it throws counts as a failed attempt. */
  opened(connection: Connection, beganAt: number): Promise<void>
  /** Whether a connection that breaks is made again although nobody asks. */
  keeps(): boolean
  /** `connecting`: calls wait for it; `failing`: they do not; `known`: at rest until someone asks. */
  /** @param detail the reason as operators may read it, with paths */
  changed(state: LinkState, reason: string | undefined, detail: string | undefined): void
  notification(method: string, params: Json, attributed: boolean): void
  /** The era of the next connection will be another than that of this one. */
  relearnt?(connection: Connection): void
}

export type LinkState = 'connecting' | 'failing' | 'known'

/** Keeps one server connected: makes a connection when it is time or someone asks, and makes it again when it breaks. */
export interface Link {
  /** The connection, if calls may be sent on it now. */
  readonly live: Connection | undefined
  /** Failures in a row; 0 while all is well. */
  readonly attempt: number
  /** Said to be failing, and still given time: it may be downloading itself. */
  readonly patient: boolean
  /** Milliseconds since the epoch, while one is planned. */
  readonly nextAttemptAt: number | undefined
  verdict: EraVerdict | undefined
  /** Connects after this long, unless someone needs it sooner. */
  later(waitMs: number): void
  /** Makes an attempt now. Its failure is reported and followed up by itself. */
  connect(): Promise<void>
  /** A live connection, waiting for one that is on its way. @throws PegboardError E_UPSTREAM_UNAVAILABLE, E_CIRCUIT_OPEN, E_CANCELLED, one of `REFUSALS` */
  ready(signal?: Stop): Promise<Connection>
  /** This connection is of no more use. @param failures how many that counts as; default 1 */
  lost(connection: Connection, reason: string, failures?: number): void
  /** A request got through. */
  worked(): void
  /** A request on a connection that looks alive did not get through; the fifth in a row is the end of the connection. */
  troubled(connection: Connection, error: PegboardError): void
  /** Ends the connection because nobody uses it. The next who asks gets another. */
  rest(graceMs: number): void
  stop(graceMs: number): Promise<void>
}

const RECONNECT_WAIT_MS = 5_000
/** Of a server that is not to be probed now. */
const PLAIN: EraVerdict = { era: 'legacy', transport: 'stdio', at: 0 }
/** A server may refuse us with as many words as it likes. */
const MAX_REASON = 16 * 1024

export function createLink(options: LinkOptions): Link {
  const { id, settings, shared, log } = options
  const { clock } = shared
  const backoff = createBackoff(clock)
  const ending = new AbortController()
  const tell = tellable(settings)
  let live: Connection | undefined
  let connecting: Promise<Connection> | undefined
  let leaving: Promise<unknown> | undefined
  let verdict: EraVerdict | undefined
  /** It died of the probe and without it: from then on an attempt is one process, with it or without it in turn. */
  let turn: 'probe' | 'plain' | undefined
  let seen = false
  let patient = false
  let state: LinkState | undefined
  let reason: string | undefined
  // Only a person can change it, so calls hear it instead of a reason to wait.
  let locked: PegboardError | undefined
  let nextAttemptAt: number | undefined
  let cancelTimer = (): void => undefined
  let troubles = 0
  let quietUntil = 0

  const unavailable = (why: string, retryAfterMs?: number): PegboardError =>
    new PegboardError('E_UPSTREAM_UNAVAILABLE', `${id} ${why}.`, retryAfterMs === undefined ? {} : { retryAfterMs })

  const refused = ({ code, message, hint }: PegboardError): PegboardError =>
    new PegboardError(code, `${id}: ${message.replace(/\.$/, '')}.`, { hint })

  function become(next: LinkState, why: string | undefined): void {
    state = next
    reason = why === undefined ? undefined : tell(why)
    const detail = why === undefined ? undefined : tell.withPaths(why)
    options.changed(next, reason, detail === reason ? undefined : detail)
  }

  function unplan(): void {
    cancelTimer()
    nextAttemptAt = undefined
  }

  function connectNow(): Promise<Connection> {
    cancelTimer()
    connecting ??= attempt().finally(() => {
      patient = false
      connecting = undefined
    })
    return connecting
  }

  async function attempt(): Promise<Connection> {
    if (state !== 'failing') become('connecting', reason)
    // Two processes of one server might fight over its files.
    await leaving
    const beganAt = clock.now()
    const limits = patience(settings, shared, seen)
    const stopWarning = limits.silentTimeoutMs === undefined ? undefined : clock.after(shared.connectTimeoutMs, slow)
    backoff.begin()
    const known = verdict && isStale(verdict, beganAt) ? undefined : verdict
    let modern = false
    let probeFatal = false
    let connection: Connection | undefined
    let broken: string | undefined
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
        once: turn !== undefined,
        verdict: known ?? (turn === 'plain' ? PLAIN : undefined),
        onNotification: options.notification,
        onModern() {
          modern = true
          if (connection !== undefined && connection === live) relearn(connection, beganAt)
        },
        onNoise(why) {
          stopWarning?.()
          noisy(why)
        },
        onProbeFatal() {
          probeFatal = true
        },
        onClosed: (why) => {
          broken = why
          if (connection) lost(connection, why)
        },
      })
      verdict = verdictOf(connection, beganAt, known)
      stopWarning?.()
      turn = undefined
      seen = true
      await options.opened(connection, beganAt)
      if (ending.signal.aborted) throw unavailable('is stopped')
      if (broken !== undefined) throw unavailable(`broke off: ${broken}`)
      live = connection
      state = undefined
      reason = undefined
      locked = undefined
      nextAttemptAt = undefined
      troubles = 0
      quietUntil = 0
      backoff.succeeded()
      if (modern) relearn(connection, beganAt)
      return connection
    } catch (error) {
      stopWarning?.()
      patient = false
      const tail = connection?.tail().trim()
      await connection?.close(0)
      // A server may have been replaced by one that speaks otherwise.
      verdict = undefined
      turn = turn === 'probe' && probeFatal ? 'plain' : turn !== undefined || probeFatal ? 'probe' : undefined
      const why = messageOf(error).slice(0, MAX_REASON).replace(/\.$/, '')
      const waitMs = ending.signal.aborted ? undefined : failed(why, tail, askedOf(error))
      locked = isPegboardError(error) && REFUSALS.has(error.code) ? refused(error) : undefined
      if (locked) throw locked
      throw new PegboardError('E_UPSTREAM_UNAVAILABLE', `${id} is not connected: ${tell(why)}.`, {
        cause: error,
        ...(waitMs === undefined ? {} : { retryAfterMs: waitMs }),
      })
    }
  }

  /** It answered the probe too late for this connection, in time for the next. */
  function relearn(connection: Connection, at: number): void {
    verdict = { era: 'modern', transport: connection.transport, at }
    options.relearnt?.(connection)
  }

  /** Whoever waits for an answer hears that there may be none; the program itself is left to what it does. */
  function slow(): void {
    const why = `no answer within ${shared.connectTimeoutMs / 1_000} s${mayInstall(settings) ? ', perhaps still downloading' : ''}`
    if (state !== 'failing') log.warn(why)
    patient = true
    become('failing', why)
  }

  /** Calls still wait for it, as it may answer in the end. */
  function noisy(why: string): void {
    if (state === 'connecting') become('connecting', why)
  }

  function failed(why: string, tail: string | undefined, askedMs: number | undefined): number {
    const waitMs = backoff.failed(askedMs)
    // Once is news; the same every minute is noise.
    log[state === 'failing' && tell(why) === reason ? 'debug' : 'warn'](tell.withPaths(why), {
      retryInMs: waitMs,
      ...(tail ? { stderr: tail } : {}),
    })
    later(waitMs)
    become('failing', why)
    return waitMs
  }

  function lost(connection: Connection, why: string, failures = 1, askedMs?: number): void {
    if (live !== connection) return
    live = undefined
    const tail = connection.tail().trim()
    void connection.close(0)
    if (ending.signal.aborted) return
    const waitMs = backoff.lost(askedMs, failures)
    // A server that nobody uses is left alone until somebody does, unless it keeps dying.
    if (backoff.attempt <= 1 && !options.keeps()) {
      log.warn(`disconnected: ${why}`, tail ? { stderr: tail } : {})
      become('known', `disconnected: ${why}`)
      return
    }
    log.warn(`disconnected: ${why}`, { retryInMs: waitMs, ...(tail ? { stderr: tail } : {}) })
    later(waitMs)
    // The first time calls wait for it to come back; a server that keeps dying is not waited for.
    become(backoff.attempt > 1 ? 'failing' : 'connecting', `disconnected: ${why}`)
  }

  function later(waitMs: number): void {
    unplan()
    nextAttemptAt = clock.now() + waitMs
    // The attempt reports its own failure.
    cancelTimer = clock.after(waitMs, () => void connectNow().catch(() => undefined))
  }

  /** Why a call is not let through now, if it is not. */
  function refusal(): PegboardError | undefined {
    if (ending.signal.aborted) return unavailable('is stopped')
    if (state !== 'failing') return undefined
    // Whoever finds it due makes the attempt and waits for it; while the circuit is open, nobody waits with them.
    if (connecting ? !backoff.open : backoff.dueInMs() === 0) return undefined
    if (locked) return locked
    const dueInMs = connecting ? 1_000 : backoff.dueInMs()
    const retryAfterMs = Math.max(1_000, Math.min(dueInMs, (nextAttemptAt ?? Number.POSITIVE_INFINITY) - clock.now()))
    if (!backoff.open) return unavailable(`is reconnecting (attempt ${backoff.attempt}): ${reason}`, retryAfterMs)
    return new PegboardError('E_CIRCUIT_OPEN', `${id} failed ${backoff.attempt} times in a row: ${reason}.`, {
      retryAfterMs,
    })
  }

  /** The connection, unless its server asked to be left alone for a while. */
  function usable(): Connection | undefined {
    if (quietUntil !== 0 && clock.now() >= quietUntil) quietUntil = 0
    return quietUntil === 0 ? live : undefined
  }

  async function ready(signal?: Stop): Promise<Connection> {
    const there = usable()
    if (there) return there
    if (live) throw unavailable('asked not to be called yet', quietUntil - clock.now())
    const refused = refusal()
    if (refused) throw refused
    const waitMs = backoff.attempt > 1 ? RECONNECT_WAIT_MS : shared.connectTimeoutMs
    const { promise, resolve, reject } = deferred<Connection>()
    const onAbort = (): void =>
      reject(
        isPegboardError(signal?.reason) ? signal.reason : new PegboardError('E_CANCELLED', 'The call was cancelled.'),
      )
    if (signal?.aborted) onAbort()
    else if (signal) onEnd(signal, onAbort)
    const stopTimer = clock.after(waitMs, () => reject(unavailable('is still connecting', 1_000)))
    connectNow().then(resolve, reject)
    try {
      return await promise
    } finally {
      stopTimer()
      if (signal) offEnd(signal, onAbort)
    }
  }

  return {
    get live() {
      return usable()
    },
    get attempt() {
      return backoff.attempt
    },
    get patient() {
      return patient
    },
    get nextAttemptAt() {
      return nextAttemptAt
    },
    get verdict() {
      return verdict
    },
    set verdict(known) {
      verdict = known
      seen ||= known !== undefined
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
      troubles = 0
    },
    troubled(connection, error) {
      if (live !== connection) return
      const askedMs = error.retryAfterMs ?? undefined
      if (++troubles >= OPEN_AFTER) lost(connection, error.message.replace(/\.$/, ''), OPEN_AFTER, askedMs)
      else if (askedMs !== undefined) quietUntil = clock.now() + Math.min(askedMs, LONGEST_ASKED_MS)
    },
    rest(graceMs) {
      const connection = live
      if (!connection) return
      live = undefined
      unplan()
      become('known', undefined)
      leaving = connection
        .close(graceMs)
        .catch((error: unknown) => log.warn('not closed', { error: messageOf(error) }))
        .finally(() => {
          leaving = undefined
        })
    },
    async stop(graceMs) {
      unplan()
      ending.abort()
      const connection = live
      live = undefined
      await Promise.allSettled([connection?.close(graceMs), connecting, leaving])
    },
  }
}

function verdictOf({ era, transport, probe }: Connection, at: number, known: EraVerdict | undefined): EraVerdict {
  // It was not asked, because of what is known: that is as old as it was.
  if (probe === 'none' && known?.era === era) return { ...known, transport }
  return { era, transport, at, ...(era === 'legacy' && probe === 'silent' ? { silent: true as const } : {}) }
}

const askedOf = (error: unknown): number | undefined =>
  isPegboardError(error) && error.retryAfterMs !== null ? error.retryAfterMs : undefined

/** Ended in the middle, an installer may leave a broken package behind that never starts again. */
function patience(
  settings: ServerSettings,
  shared: UpstreamShared,
  seen: boolean,
): { readonly connectTimeoutMs?: number; readonly silentTimeoutMs?: number } {
  if (settings.connectTimeoutMs !== undefined) return { connectTimeoutMs: settings.connectTimeoutMs }
  if (settings.target.kind !== 'stdio' || (seen && !mayInstall(settings))) return {}
  return shared.installTimeoutMs > shared.connectTimeoutMs ? { silentTimeoutMs: shared.installTimeoutMs } : {}
}

const NETWORK_CODE = /(?:^|: )(?:E[A-Z]{4,}|UND_ERR_[A-Z_]+)$/

/** Makes a reason fit for clients: without what the operator gave the server in confidence, paths and addresses. */
function tellable({ target }: ServerSettings): ((why: string) => string) & { withPaths(why: string): string } {
  const given = target.kind === 'stdio' ? target.env : target.headers
  const secrets = Object.values(given).filter((value) => value.length >= 6)
  // `ECONNREFUSED` alone does not say which of two servers, or of two addresses of one, is down.
  const place = target.kind === 'stdio' ? undefined : new URL(target.url).host
  const withoutSecrets = (why: string): string =>
    secrets.reduce((text, secret) => text.replaceAll(secret, '<secret>'), why)
  const withPaths = (why: string): string => {
    const text = withoutSecrets(why)
    return place !== undefined && NETWORK_CODE.test(text) ? `${text} (${place})` : text
  }
  return Object.assign((why: string) => scrub(withoutSecrets(why)), { withPaths })
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
