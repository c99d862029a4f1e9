import { checkItemCount } from '../core/argument-limits.ts'
import type { Clock } from '../core/clock.ts'
import { createCountdown } from '../core/countdown.ts'
import { isPegboardError, joinSentences } from '../core/errors.ts'
import { createSemaphore } from '../core/semaphore.ts'
import type { ScriptAnswer, ScriptMessage, ScriptRequest } from './code-thread.ts'

/** What one call of a script returned: data, or the error that the script can catch. */
export type CallOutcome = { readonly data: unknown } | { readonly code: string; readonly error: string }

export interface Script {
  /** The body of an async function, in JavaScript or TypeScript without enums and namespaces. */
  readonly source: string
  /** Milliseconds, without the pauses of `call`. */
  readonly timeoutMs: number
  /** Ends the script; calls that run are the caller's to end. */
  readonly signal?: AbortSignal | undefined
  /**
   * Runs a tool for the script.
   * @param index number of the call, from 0
   * @param pause stops the time limit until the returned function is called
   */
  call(name: string, params: unknown, index: number, pause: () => () => void): Promise<CallOutcome>
  /** What the script gets in place of a result that would fill its memory. */
  keep(name: string, data: unknown): Promise<unknown>
}

/** How a script ended. Calls that it made have been carried out in either case. */
export type ScriptResult = {
  /** What it printed, one entry a call of `console.log`. */
  readonly printed: readonly string[]
  /** Names of the tools that it called, in order. */
  readonly calls: readonly string[]
} & (
  | { readonly value: unknown }
  /** `line` is 0 if unknown. */
  | { readonly failure: { readonly message: string; readonly line: number; readonly late: boolean } }
)

const MAX_CALLS = 200
const MAX_AT_ONCE = 10
/** The thread's own memory, beside that of the script. */
const THREAD_MB = 256
/** A larger result of one call would fill the memory of the script. */
const MAX_CALL_CHARS = 16 * 1024 * 1024

/**
 * Runs a script in a sandbox: QuickJS in WebAssembly in a thread of its own. The script has no files, network, timers or
 * imports, only the calls that it may make.
 * @param thread path of the compiled thread
 */
export async function runScript(thread: string, script: Script, clock: Clock): Promise<ScriptResult> {
  const { source, signal } = script
  const printed: string[] = []
  const calls: string[] = []
  const ended = new AbortController()
  const slots = createSemaphore({ maxConcurrent: MAX_AT_ONCE, maxQueued: MAX_CALLS, setting: 'at once' })
  const { Worker } = process.getBuiltinModule('node:worker_threads')
  const worker = new Worker(thread, {
    workerData: { source, maxCalls: MAX_CALLS } satisfies ScriptRequest,
    env: {},
    execArgv: [],
    stdout: true,
    stderr: true,
    resourceLimits: { maxOldGenerationSizeMb: THREAD_MB },
  })
  const running = new Set<Promise<void>>()
  return await new Promise<ScriptResult>((resolve, reject) => {
    const fail = (message: string, line = 0, late = false): void =>
      resolve({ printed, calls, failure: { message, line, late } })
    const limit = createCountdown(
      script.timeoutMs,
      () => fail(`it ran longer than ${script.timeoutMs} ms`, 0, true),
      clock,
    )
    const cancel = (): void => reject(signal?.reason)
    ended.signal.addEventListener('abort', () => {
      limit.stop()
      signal?.removeEventListener('abort', cancel)
    })
    signal?.addEventListener('abort', cancel, { once: true })
    if (signal?.aborted) cancel()

    const answer = async ({ id, name, params }: Extract<ScriptMessage, { kind: 'call' }>): Promise<void> => {
      const index = calls.length
      const post = (message: ScriptAnswer): void => worker.postMessage(message)
      const refuse = (code: string, message: string): void => post({ id, error: { code, message } })
      calls.push(name)
      await slots.acquire(ended.signal)
      try {
        checkItemCount(params)
        const outcome = await script.call(name, JSON.parse(params), index, () => limit.pause())
        if (!('data' in outcome)) return refuse(outcome.code, outcome.error)
        const value = JSON.stringify(outcome.data) ?? 'null'
        const isKept = value.length > MAX_CALL_CHARS
        post({ id, value: isKept ? (JSON.stringify(await script.keep(name, outcome.data)) ?? 'null') : value })
      } catch (error) {
        if (!isPegboardError(error)) throw error
        refuse(error.code, joinSentences(error.message, error.hint))
      } finally {
        slots.release()
      }
    }
    worker.on('message', (message: ScriptMessage) => {
      if (message.kind === 'print') printed.push(message.text)
      else if (message.kind === 'call') {
        const work = answer(message).catch(reject)
        running.add(work)
        void work.finally(() => running.delete(work))
      }
      // Calls that the script did not wait for run to their end.
      else
        void Promise.all(running).then(() => {
          if (message.kind === 'failed') fail(message.message, message.line)
          else resolve({ printed, calls, value: JSON.parse(message.value) })
        })
    })
    worker.on('error', (error: NodeJS.ErrnoException) =>
      error.code === 'ERR_WORKER_OUT_OF_MEMORY' ? fail('it used too much memory') : reject(error),
    )
    worker.on('exit', () => fail('its thread ended'))
  }).finally(async () => {
    ended.abort()
    await worker.terminate()
  })
}
