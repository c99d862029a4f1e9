import { ToolError } from 'pegboard'

export const timeoutError = (ms: number, cause?: unknown): ToolError =>
  new ToolError(`The statement took longer than ${ms / 1_000} seconds and was stopped.`, {
    code: 'E_TIMEOUT',
    retryable: false,
    hint: 'Query less data, or raise modules.database.config.timeout_seconds.',
    ...(cause !== undefined && { cause }),
  })

/**
 * Runs work and stops it with `stop` on timeout or abort. The signal passed to `begin` is aborted too, because
 * stopping one statement does not prevent the next.
 * @throws ToolError E_TIMEOUT, or the signal's reason
 */
export async function withDeadline<T>(
  work: (signal: AbortSignal) => Promise<T>,
  ms: number,
  signal: AbortSignal,
  stop: () => Promise<unknown>,
): Promise<T> {
  signal.throwIfAborted()
  const deadline = startDeadline(ms, signal)
  const deadlineSignal = deadline.signal
  const aborted = new Promise<never>((_, reject) => {
    deadlineSignal.addEventListener('abort', () => reject(deadlineSignal.reason), { once: true })
  })
  const result = work(deadlineSignal)
  try {
    return await Promise.race([result, aborted])
  } catch (error) {
    if (deadlineSignal.aborted) {
      // It also fails when stopped, which has been reported.
      result.catch(() => undefined)
      await stop()
    }
    throw error
  } finally {
    deadline.end()
  }
}

/**
 * A signal that is aborted with another one, or with E_TIMEOUT after a time. Not `AbortSignal.any`: Node keeps what that
 * returns in memory for as long as it has a listener.
 */
export function startDeadline(ms: number, source: AbortSignal | undefined) {
  const controller = new AbortController()
  const abort = (): void => controller.abort(source?.reason)
  const timer = setTimeout(() => controller.abort(timeoutError(ms)), ms)
  source?.addEventListener('abort', abort, { once: true })
  return {
    signal: controller.signal,
    end(): void {
      clearTimeout(timer)
      source?.removeEventListener('abort', abort)
    },
  }
}
