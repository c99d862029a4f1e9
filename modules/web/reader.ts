import type { Worker } from 'node:worker_threads'
import { createTurns } from '../_turns.ts'

/** A request to the worker. */
export type ReaderJob =
  | { readonly kind: 'read'; readonly html: string; readonly url: string }
  | {
      readonly kind: 'select'
      readonly html: string
      readonly url: string
      /** Selector of one result; in it, by field name: selector, and the attribute to read instead of the text. */
      readonly each: string
      readonly fields: Readonly<Record<string, readonly [selector: string, attribute?: string]>>
    }

/** The readable content of a page. */
export interface Article {
  readonly title: string
  readonly markdown: string
  readonly byline?: string
  readonly published?: string
}

export type Row = Readonly<Record<string, string>>

/** The caller that waits for a page. */
export interface ReadCaller {
  readonly principal: string
  readonly signal: AbortSignal
}

export interface Reader {
  /** `undefined` if the page cannot be parsed in time, or at all. */
  read(html: string, url: string, caller: ReadCaller): Promise<Article | undefined>
  /** Extracts repeated items from a page. */
  select(
    job: Omit<Extract<ReaderJob, { kind: 'select' }>, 'kind'>,
    caller: ReadCaller,
  ): Promise<readonly Row[] | undefined>
  /** Ends the worker; the next read starts a new one. */
  close(): Promise<void>
}

/** A page that takes longer was built to do so. */
const MAX_READ_MS = 8_000
const IDLE_MS = 60_000
const MAX_MEMORY_MB = 384

/** Parses pages one after the other in a worker thread that exists while it is used. Principals take turns. */
export function createReader(maxMs = MAX_READ_MS, idleMs = IDLE_MS): Reader {
  let worker: Worker | undefined
  let idleTimer: NodeJS.Timeout | undefined
  const turns = createTurns(1)

  function start(): Worker {
    const { Worker } = process.getBuiltinModule('node:worker_threads')
    const newWorker = new Worker(new URL('./reading.cjs', import.meta.url), {
      // No environment variables, and output of the packages is discarded.
      env: {},
      execArgv: [],
      stdout: true,
      stderr: true,
      resourceLimits: { maxOldGenerationSizeMb: MAX_MEMORY_MB },
    })
    // Callers get the error too; without a caller it does not matter.
    newWorker.on('error', () => undefined)
    return newWorker
  }

  async function stopWorker(): Promise<void> {
    const stoppedWorker = worker
    worker = undefined
    clearTimeout(idleTimer)
    await stoppedWorker?.terminate()
  }

  async function runJob(job: ReaderJob): Promise<unknown> {
    clearTimeout(idleTimer)
    worker ??= start()
    const currentWorker = worker
    currentWorker.ref()
    const answer = await new Promise<unknown>((resolve) => {
      const timer = setTimeout(() => finish(undefined), maxMs)
      const finish = (message: { readonly result: unknown } | undefined): void => {
        clearTimeout(timer)
        currentWorker.off('message', finish).off('error', failed).off('exit', failed)
        resolve(message?.result)
      }
      const failed = (): void => finish(undefined)
      currentWorker.on('message', finish).on('error', failed).on('exit', failed)
      currentWorker.postMessage(job)
    })
    // The failed work may still be running.
    if (answer === undefined) await stopWorker()
    else {
      currentWorker.unref()
      idleTimer = setTimeout(() => void stopWorker(), idleMs)
      idleTimer.unref()
    }
    return answer
  }

  async function runInTurn(job: ReaderJob, { principal, signal }: ReadCaller): Promise<unknown> {
    const endTurn = await turns.take(principal, signal)
    try {
      return await runJob(job)
    } finally {
      endTurn()
    }
  }

  return {
    read: async (html, url, caller) => (await runInTurn({ kind: 'read', html, url }, caller)) as Article | undefined,
    select: async (job, caller) => (await runInTurn({ kind: 'select', ...job }, caller)) as readonly Row[] | undefined,
    close: stopWorker,
  }
}
