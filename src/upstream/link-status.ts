import { type ErrorOptions, isPegboardError, messageOf, PegboardError } from '../core/errors.ts'
import { classifyDisconnect } from '../core/failure-class.ts'
import { createBackoff } from './backoff.ts'
import { REFUSALS } from './connection.ts'
import { lastingCause, type ReasonFilter } from './error-reasons.ts'
import { mayInstall } from './package-download.ts'
import type { LinkOptions } from './reconnecting-link.ts'
import type { UpstreamShared } from './upstream-shared.ts'

export type LinkState = 'connecting' | 'failing' | 'known'

const RECONNECT_WAIT_MS = 5_000
/** Maximum length of a server's error text. */
const MAX_REASON = 16 * 1024

/**
 * The status of a server without a connection: why there is none, when Pegboard connects again, and whether calls wait
 * for that or fail. Reports each change with `changed`.
 * @param connect makes the planned attempt
 */
export function createLinkStatus(
  options: Pick<LinkOptions, 'id' | 'settings' | 'log' | 'keeps' | 'changed'> & {
    readonly shared: Pick<UpstreamShared, 'clock' | 'connectTimeoutMs'>
  },
  reasons: ReasonFilter,
  connect: () => void,
) {
  const { id, shared, log } = options
  const { clock } = shared
  const backoff = createBackoff(clock)
  const stopping = new AbortController()
  const stopped: AbortSignal = stopping.signal
  let state: LinkState | undefined
  let reason: string | undefined
  // A problem that only a person can fix; calls get this error instead of waiting.
  let permanentError: PegboardError | undefined
  let nextAttemptAt: number | undefined
  let cancelTimer = (): void => undefined
  let stopWarning = (): void => undefined
  let patient = false

  function become(next: LinkState, why: string | undefined): void {
    state = next
    reason = why
    const message = why === undefined ? undefined : reasons.forClients(why)
    const detail = why === undefined ? undefined : reasons.forOperators(why)
    options.changed(next, message, detail === message ? undefined : detail)
  }

  function later(waitMs: number): void {
    cancelTimer()
    nextAttemptAt = clock.now() + waitMs
    cancelTimer = clock.after(waitMs, connect)
  }

  function cancelAttempt(): void {
    cancelTimer()
    nextAttemptAt = undefined
  }

  /** Tells waiting callers that there may be no answer; the process keeps running. */
  function warnOfDelay(): void {
    const why = `no answer within ${shared.connectTimeoutMs / 1_000} s${mayInstall(options.settings()) ? '; it may still be downloading' : ''}`
    if (state !== 'failing') log.warn(why)
    patient = true
    become('failing', why)
  }

  return {
    /** Milliseconds since the epoch, if an attempt is planned. */
    nextAttemptAt(): number | undefined {
      return nextAttemptAt
    },
    /** Reported as failing but still waiting, because it may be downloading. */
    isPatient(): boolean {
      return patient
    },
    /** How long a call waits for a connection, in milliseconds. */
    longestWaitMs(): number {
      return backoff.attempt > 1 ? RECONNECT_WAIT_MS : shared.connectTimeoutMs
    },
    /** Aborted when the server is stopped. */
    stopped,
    later,
    /** The planned attempt is made now; it stays visible until its outcome is known. */
    cancelTimer: (): void => cancelTimer(),
    /** An attempt is about to begin. */
    connecting(): void {
      if (state !== 'failing') become('connecting', reason)
    },
    /** An attempt begins. @param mayBeSlow true: reports after `connectTimeoutMs` that there is no answer yet */
    begin(mayBeSlow: boolean): void {
      if (mayBeSlow) stopWarning = clock.after(shared.connectTimeoutMs, warnOfDelay)
      backoff.begin()
    },
    /** The server prints something else than messages. Calls keep waiting, because it may still answer. */
    noise(why: string): void {
      stopWarning()
      if (state === 'connecting') become('connecting', why)
    },
    answered: (): void => stopWarning(),
    connected(): void {
      state = undefined
      reason = undefined
      permanentError = undefined
      nextAttemptAt = undefined
      patient = false
      backoff.succeeded()
    },
    /** The attempt has failed. Its connection may still be closing, so the next attempt is not planned yet. */
    attemptEnded(): void {
      stopWarning()
      patient = false
    },
    /** Reports a failed attempt and plans the next one. @returns the error for the calls that waited for it */
    failed(error: unknown, stderrTail: string | undefined): PegboardError {
      const why = messageOf(error).slice(0, MAX_REASON).replace(/\.$/, '')
      let waitMs: number | undefined
      if (!stopped.aborted) {
        waitMs = backoff.failed(isPegboardError(error) ? (error.retryAfterMs ?? undefined) : undefined)
        // Logs a failure once and repetitions at debug level.
        log[state === 'failing' && why === reason ? 'debug' : 'warn'](reasons.forOperators(why), {
          retryInMs: waitMs,
          ...stderrField(stderrTail),
        })
        later(waitMs)
        become('failing', why)
      }
      const shown = reasons.forClients(why)
      const notConnected = (more: ErrorOptions): PegboardError =>
        createUnavailable(id, `is not connected: ${shown}`, {
          class: classifyDisconnect(shown),
          cause: error,
          ...more,
        })
      const lasting = lastingCause(error)
      permanentError = undefined
      if (lasting) permanentError = notConnected({ hint: lasting.hint, class: 'server_setup' })
      else if (isPegboardError(error) && REFUSALS.has(error.code)) {
        const { code, message, hint } = error
        const failure = code === 'E_AUTH_REQUIRED' ? 'login' : 'server_setup'
        permanentError = new PegboardError(code, `${id}: ${message.replace(/\.$/, '')}.`, { class: failure, hint })
      }
      return permanentError ?? notConnected({ retryAfterMs: waitMs })
    },
    /**
     * Reports that a connection has ended, and plans an attempt if the server is needed or keeps dying.
     * @param failures number of failures it counts as; default 1
     * @param askedMs minimum delay that the server requested
     */
    lost(why: string, stderrTail: string, failures?: number, askedMs?: number): void {
      if (stopped.aborted) return
      const waitMs = backoff.connectionLost(askedMs, failures)
      // An unused server stays stopped until a call, unless it keeps dying.
      if (backoff.attempt <= 1 && !options.keeps()) {
        log.warn(`disconnected: ${why}`, stderrField(stderrTail))
        become('known', `disconnected: ${why}`)
        return
      }
      log.warn(`disconnected: ${why}`, { retryInMs: waitMs, ...stderrField(stderrTail) })
      later(waitMs)
      // Calls wait for the first reconnection, but not for a server that keeps dying.
      become(backoff.attempt > 1 ? 'failing' : 'connecting', `disconnected: ${why}`)
    },
    /** The connection is closed, because it is idle. */
    resting(): void {
      cancelAttempt()
      become('known', undefined)
    },
    stop(): void {
      cancelAttempt()
      stopping.abort()
    },
    /** Why a call must fail now; undefined if it may wait. @param isConnecting true during an attempt */
    refusal(isConnecting: boolean): PegboardError | undefined {
      if (stopped.aborted) return createUnavailable(id, 'is stopped')
      if (state !== 'failing') return undefined
      // The call that finds an attempt due makes it and waits; while the circuit is open, no other call waits.
      if (isConnecting ? !backoff.open : backoff.dueInMs() === 0) return undefined
      if (permanentError) return permanentError
      const dueInMs = isConnecting ? 1_000 : backoff.dueInMs()
      const retryAfterMs = Math.max(1_000, Math.min(dueInMs, (nextAttemptAt ?? Number.POSITIVE_INFINITY) - clock.now()))
      const message = reasons.forClients(reason ?? '')
      if (!backoff.open)
        return createUnavailable(id, `is reconnecting (attempt ${backoff.attempt}): ${message}`, { retryAfterMs })
      return new PegboardError('E_CIRCUIT_OPEN', `${id} failed ${backoff.attempt} times in a row: ${message}.`, {
        class: classifyDisconnect(message),
        retryAfterMs,
      })
    },
  }
}

/** @param why completes the sentence "<server> …" */
export const createUnavailable = (id: string, why: string, more: ErrorOptions = {}): PegboardError =>
  new PegboardError('E_UPSTREAM_UNAVAILABLE', `${id} ${why}.`, {
    class: classifyDisconnect(why),
    ...more,
  })

const stderrField = (stderrTail: string | undefined) => (stderrTail ? { stderr: stderrTail } : {})

export type LinkStatus = ReturnType<typeof createLinkStatus>
