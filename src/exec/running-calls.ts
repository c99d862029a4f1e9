import { setMaxListeners } from 'node:events'
import { createByteBudget } from '../core/byte-budget.ts'
import type { Clock } from '../core/clock.ts'
import { createCountdown } from '../core/countdown.ts'
import { shuttingDown } from '../core/errors.ts'
import { createHeldSlots } from '../core/held-slots.ts'
import { createSemaphore, type Semaphore, semaphoreOf } from '../core/semaphore.ts'
import { ShortLivedMap } from '../core/short-lived-map.ts'
import type { Tool } from '../core/tool.ts'
import { waitAtMost } from '../core/wait-at-most.ts'
import type { ExecutionSettings } from './execution-options.ts'
import { createCancelledError, createTextLimitError, createTimeoutError, MAX_CALL_MS } from './refusals.ts'
import type { CallRequest } from './tool-calls.ts'

/** What a running call holds until `release`: its abort signal, time limit, slots, and the text of its arguments. */
export interface CallResources {
  /** Aborts when the client cancels, at the time limit and at the shutdown. */
  readonly signal: AbortSignal
  /**
   * Takes the slots that the call needs.
   * @param tool as it is now: a reload may have changed its limits since `start`
   * @returns whether it had to wait
   */
  takeSlots(tool: Tool): Promise<boolean>
  /** Stops the time limit and leaves the slots to others until the returned function is called, while a person answers. */
  pause(): () => void
  release(): void
}

/** The calls that run in this process, and the limits that they share. */
export type RunningCalls = ReturnType<typeof createRunningCalls>

/** Maximum characters in the arguments of a principal's running and waiting calls. Calls take several times that memory. */
const MAX_HELD_TEXT = 64 * 1024 * 1024
/** Shorter arguments are not counted, because other limits bound the number of calls. */
const SMALL_TEXT = 4 * 1024
/** Time for a tool to react after the grace period. */
const ABORT_GRACE_MS = 200

export function createRunningCalls(
  { maxConcurrent, maxQueued, timeoutMs: defaultTimeoutMs }: ExecutionSettings,
  clock: Clock,
) {
  const globalSemaphore = createSemaphore({ maxConcurrent, maxQueued, setting: 'execution.maxQueued' })
  const toolSemaphores = new Set<Semaphore>()
  const textBudget = createByteBudget(MAX_HELD_TEXT)
  const running = new ShortLivedMap<AbortController, true>()
  let stopped = false
  let resolveIdle: (() => void) | undefined

  /** @param size characters of text in the arguments. @throws PegboardError E_OVERLOADED if the caller's calls hold too much text */
  function start(request: CallRequest, tool: Tool, size: number): CallResources {
    const { principal } = request.caller
    const isInner = (request.depth ?? 0) > 0
    const heldText = !isInner && size > SMALL_TEXT ? size : 0
    if (heldText > 0 && !textBudget.hold(principal, heldText)) throw createTextLimitError()
    const abort = request.abort ?? new AbortController()
    const unlinkCancel = linkCancel(request.signal ?? request.outerSignal, abort)
    const timeoutMs = Math.min(tool.timeoutMs ?? defaultTimeoutMs, MAX_CALL_MS)
    const timeLimit = createCountdown(timeoutMs, () => abort.abort(createTimeoutError(tool, timeoutMs)), clock)
    const heldSlots = createHeldSlots(principal)
    running.set(abort, true)
    return {
      signal: abort.signal,
      async takeSlots(currentTool) {
        let waited = false
        for (const semaphore of semaphoresFor(currentTool, isInner)) {
          const wait = semaphore.acquire(abort.signal, principal)
          if (wait) await wait
          heldSlots.add(semaphore)
          waited ||= wait !== undefined
        }
        return waited
      },
      pause() {
        const resumeTimeLimit = timeLimit.pause()
        const reacquireSlots = heldSlots.pause()
        return () => {
          resumeTimeLimit()
          reacquireSlots()
        }
      },
      release() {
        timeLimit.stop()
        if (heldText > 0) textBudget.free(principal, heldText)
        running.delete(abort)
        if (running.size === 0) resolveIdle?.()
        unlinkCancel()
        heldSlots.release()
      },
    }
  }

  /**
   * The limits that a call must pass, in this order: calls that wait for one server must not block others. Inner calls
   * use the slot of the outer one, because calls that wait for each other would deadlock.
   */
  function semaphoresFor({ capacity }: Tool, isInner: boolean): readonly Semaphore[] {
    if (!capacity) return isInner ? [] : [globalSemaphore]
    const toolSemaphore = semaphoreOf(capacity)
    toolSemaphores.add(toolSemaphore)
    return isInner ? [toolSemaphore] : [toolSemaphore, globalSemaphore]
  }

  async function waitUntilIdle(ms: number): Promise<void> {
    if (running.size === 0) return
    const ended = new Promise<void>((resolve) => {
      resolveIdle = resolve
    })
    await waitAtMost(ms, ended)
  }

  return {
    start,
    /** @throws PegboardError E_SHUTTING_DOWN for new calls, once the process stops. Running tools may still call others. */
    checkAccepted({ depth = 0 }: CallRequest): void {
      if (stopped && depth === 0) throw shuttingDown()
    },
    load: () => ({
      running: globalSemaphore.running,
      waiting: globalSemaphore.waiting + [...toolSemaphores].reduce((sum, one) => sum + one.waiting, 0),
    }),
    /** Rejects new calls, and waits up to `graceMs` for running ones, which may still make calls of their own. */
    async drain(graceMs: number): Promise<void> {
      stopped = true
      await waitUntilIdle(graceMs)
    },
    /** Rejects new calls and aborts running ones. Resolves when their errors are sent. */
    async stop(): Promise<void> {
      stopped = true
      for (const abort of running.keys()) abort.abort(shuttingDown())
      await waitUntilIdle(ABORT_GRACE_MS)
      // The results of calls that ended last are sent one turn later.
      await new Promise((resolve) => setImmediate(resolve))
    },
  }
}

/** Cancels a call when the signal of its client, or of the call around it, aborts. Returns a function that removes the listener. */
function linkCancel(source: AbortSignal | undefined, abort: AbortController): () => void {
  // A tool may start any number of calls, which all listen to this signal.
  setMaxListeners(0, abort.signal)
  const cancel = (): void => abort.abort(createCancelledError())
  // A client of 2025 gives the controller of the run, so both are the same signal.
  if (!source || source === abort.signal) return () => undefined
  if (source.aborted) cancel()
  else source.addEventListener('abort', cancel, { once: true })
  return () => source.removeEventListener('abort', cancel)
}
