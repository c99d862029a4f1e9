import { ToolError } from 'pegboard'
import type { Turns } from '../_turns.ts'
import { createPatternError } from './config.ts'

export interface ScanOptions {
  readonly pattern: string
  readonly literal: boolean
  readonly ignoreCase: boolean
  readonly multiline: boolean
  readonly mode: 'content' | 'files_with_matches' | 'count'
  /** Context lines around each match. */
  readonly context: number
  /** Larger files are skipped, unless named. */
  readonly maxBytes: number
}

/** Files of one folder under a path that cannot be redirected, or one file that is open already. */
export type ScanBatch = { readonly names: readonly string[]; readonly limit: number } & (
  | { readonly folder: string }
  | { readonly fd: number }
)

export interface ScanResult {
  readonly found: readonly {
    readonly name: string
    readonly count: number
    readonly matches: readonly {
      readonly line: number
      readonly text: string
      readonly before?: readonly string[]
      readonly after?: readonly string[]
    }[]
  }[]
  /** Number of skipped files: binary, or too large. */
  readonly skipped: number
}

/** Searches files for a pattern in worker threads that read the files themselves. */
export interface Scanner {
  scan(batch: ScanBatch): Promise<ScanResult>
  /** Stops everything; running and later scans fail with the reason. */
  stop(reason: unknown): void
  close(): Promise<void>
}

/** Maximum time for one chunk of a file. */
const CHUNK_TIMEOUT_MS = 2_000
/** Memory limit of a thread; exceeding it ends the thread, not the server. */
const THREAD_LIMITS = { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 32 }
/** Threads per call. More help only if the disk is slow. */
const MAX_THREADS = 2

interface ScanJob {
  readonly batch: ScanBatch
  readonly resolve: (scanned: ScanResult) => void
  readonly reject: (reason: unknown) => void
}

/** Waits for a thread before anything is read; there are as many threads as slots. */
export async function createScanner(
  options: ScanOptions,
  { principal, signal }: { readonly principal: string; readonly signal: AbortSignal },
  turns: Turns,
): Promise<Scanner> {
  const endTurns = [await turns.take(principal, signal)]
  const waitingJobs: ScanJob[] = []
  const threads: Thread[] = []
  let failure: { readonly reason: unknown } | undefined
  const fail = (reason: unknown): void => {
    failure ??= { reason }
    for (const { reject } of waitingJobs.splice(0)) reject(reason)
  }
  const takeJob = (): ScanJob | undefined => waitingJobs.shift()
  const start = (): void => void threads.push(startThread(options, takeJob, fail))
  const stop = (reason: unknown): void => {
    fail(reason)
    for (const thread of threads) void thread.end(reason)
  }
  const abort = (): void => stop(signal.reason)
  signal.addEventListener('abort', abort, { once: true })
  return {
    stop,
    scan(batch) {
      if (failure) return Promise.reject(failure.reason)
      return new Promise((resolve, reject) => {
        waitingJobs.push({ batch, resolve, reject })
        const endTurn =
          threads.length > 0 && threads.length < MAX_THREADS && waitingJobs.length > 1 && turns.takeFree(principal)
        if (endTurn) endTurns.push(endTurn)
        if (threads.length === 0 || endTurn) start()
        for (const thread of threads) thread.wake()
      })
    },
    async close() {
      signal.removeEventListener('abort', abort)
      fail(new Error('closed'))
      try {
        await Promise.all(threads.map((thread) => thread.end()))
      } finally {
        for (const end of endTurns) end()
      }
    },
  }
}

/** A thread needs descriptors, for example for its own script. */
const TOO_MANY_FILES = new Set(['EMFILE', 'ENFILE', 'ERR_WORKER_INIT_FAILED'])

interface Thread {
  /** Wakes an idle thread. */
  wake(): void
  end(reason?: unknown): Promise<void>
}

type Message = { readonly ready: true } | { readonly error: string } | ScanResult

function startThread(
  options: ScanOptions,
  takeJob: () => ScanJob | undefined,
  fail: (reason: unknown) => void,
): Thread {
  const progressBuffer = new SharedArrayBuffer(8)
  const progress = new Int32Array(progressBuffer)
  const { Worker } = process.getBuiltinModule('node:worker_threads')
  const worker = new Worker(new URL('./scan.cjs', import.meta.url), {
    workerData: { ...options, progressBuffer },
    resourceLimits: THREAD_LIMITS,
    stdout: true,
    stderr: true,
  })
  let [isReady, current]: [boolean, ScanJob | undefined] = [false, undefined]
  let watchTimer: NodeJS.Timeout | undefined
  let lastProgress = { chunks: -1, at: 0 }
  const currentFile = (): string => current?.batch.names[Atomics.load(progress, 1)] ?? 'a file'
  const failThread = (reason: unknown): void => {
    current?.reject(reason)
    current = undefined
    clearInterval(watchTimer)
    fail(reason)
  }
  const checkProgress = (): void => {
    const chunks = Atomics.load(progress, 0)
    if (chunks !== lastProgress.chunks) lastProgress = { chunks, at: performance.now() }
    else if (performance.now() - lastProgress.at > CHUNK_TIMEOUT_MS) {
      void worker.terminate()
      failThread(
        new ToolError(`The pattern took longer than ${CHUNK_TIMEOUT_MS} ms on part of '${currentFile()}'.`, {
          code: 'E_TIMEOUT',
          retryable: false,
          hint: 'Use a simpler pattern, or literal: true.',
        }),
      )
    }
  }
  const wake = (): void => {
    if (!isReady || current) return
    current = takeJob()
    if (!current) return
    lastProgress = { chunks: -1, at: 0 }
    watchTimer ??= setInterval(checkProgress, CHUNK_TIMEOUT_MS / 4).unref()
    worker.postMessage(current.batch)
  }
  worker.on('message', (message: Message) => {
    if ('error' in message)
      return failThread(createPatternError(`${message.error}; lookahead and backreferences are not supported`))
    if ('ready' in message) isReady = true
    else {
      current?.resolve(message)
      current = undefined
      clearInterval(watchTimer)
      watchTimer = undefined
    }
    wake()
  })
  worker.on('error', (error: NodeJS.ErrnoException) => {
    const createMemoryError = (): ToolError =>
      new ToolError(`The pattern ran out of memory on '${currentFile()}'.`, {
        code: 'E_TOO_LARGE',
        retryable: false,
        cause: error,
        hint: 'Use a simpler pattern, or literal: true.',
      })
    const createTooManyFilesError = (): ToolError =>
      new ToolError('Search is not possible now: too many open files.', {
        code: 'E_OVERLOADED',
        cause: error,
        hint: 'Try again later.',
      })
    if (error.code === 'ERR_WORKER_OUT_OF_MEMORY') failThread(createMemoryError())
    else failThread(TOO_MANY_FILES.has(error.code ?? '') ? createTooManyFilesError() : error)
  })
  return {
    wake,
    async end(reason = new Error('closed')) {
      clearInterval(watchTimer)
      current?.reject(reason)
      current = undefined
      await worker.terminate()
    },
  }
}
