import type { Worker } from 'node:worker_threads'
import { tokensOfText } from '../core/text-tokens.ts'
import type { CountAnswer, CountRequest, TextTokens } from './token-thread.ts'

/** Tokens of a text. `exact` is missing if only an estimate is known. */
export type TokenCount = Pick<TextTokens, 'estimate'> & Partial<TextTokens>

/** Counts tokens away from the main thread. */
export interface TokenCounter {
  /** Never rejects: texts that the thread cannot count are estimated. */
  count(texts: readonly string[]): Promise<readonly TokenCount[]>
  /** Whether the thread runs: then an answer takes milliseconds, else the thread starts first. */
  readonly isRunning: boolean
  close(): void
}

/** Of a longer text, the beginning stands for all: the estimate reads 25 megabytes a second. */
const MAX_READ = 16 * 1024

export const estimateTexts = (texts: readonly string[]): readonly TokenCount[] =>
  texts.map((text) => ({
    estimate: Math.round(tokensOfText(text.slice(0, MAX_READ)) * Math.max(1, text.length / MAX_READ)),
  }))

/** The thread needs 70 MB for the vocabulary, so it ends when nothing was counted for a while. */
const IDLE_MS = 60_000
/** A text that takes longer is meant to. */
const PATIENCE_MS = 20_000
const THREAD_LIMITS = { maxOldGenerationSizeMb: 512 }

/** @param thread path of the compiled thread */
export function createTokenCounter(thread: string): TokenCounter {
  let worker: Worker | undefined
  let idle: NodeJS.Timeout | undefined
  let last = 0
  const waiting = new Map<number, (counts: readonly TextTokens[] | undefined) => void>()

  function end(): void {
    clearTimeout(idle)
    const ended = worker
    worker = undefined
    void ended?.terminate()
    for (const answer of waiting.values()) answer(undefined)
    waiting.clear()
  }

  function open(): Worker {
    if (worker) return worker
    const { Worker } = process.getBuiltinModule('node:worker_threads')
    const newWorker = new Worker(thread, { env: {}, execArgv: [], resourceLimits: THREAD_LIMITS })
    newWorker.on('message', ({ id, counts }: CountAnswer) => {
      waiting.get(id)?.(counts)
      waiting.delete(id)
    })
    const isOver = (): void => {
      if (worker === newWorker) end()
    }
    newWorker.on('error', isOver)
    newWorker.on('exit', isOver)
    // A process that has nothing else to do does not wait for counts.
    newWorker.unref()
    worker = newWorker
    return newWorker
  }

  return {
    get isRunning() {
      return worker !== undefined
    },
    async count(texts) {
      if (texts.length === 0) return []
      clearTimeout(idle)
      const late = setTimeout(end, PATIENCE_MS).unref()
      const counts = await new Promise<readonly TextTokens[] | undefined>((resolve) => {
        const id = ++last
        waiting.set(id, resolve)
        open().postMessage({ id, texts } satisfies CountRequest)
      })
      clearTimeout(late)
      if (worker && waiting.size === 0) idle = setTimeout(end, IDLE_MS).unref()
      return counts ?? estimateTexts(texts)
    },
    close: end,
  }
}
