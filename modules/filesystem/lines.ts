import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { ToolError } from 'pegboard'
import { badPattern } from './config.ts'
import type { Turns } from './turns.ts'

/** Finds the numbers (from 1) of lines that match. */
export interface LineFinder {
  find(text: string, limit: number, name: string): Promise<readonly number[]>
  close(): Promise<void>
}

export interface LinePattern {
  readonly pattern: string
  readonly literal: boolean
  readonly ignore_case: boolean
  readonly multiline: boolean
}

/** How long an expression may think about one file. */
const BUDGET_MS = 1_000
/** Room for a file and its lines; a thread that needs more is ended, not the server. */
const THREAD_LIMITS = { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 32 }

/**
 * Plain text is looked for at once. An expression may take for ever on the wrong text and cannot be interrupted, so it
 * runs in a thread of its own, which is ended when the time is over. There are as many threads as there are turns: one
 * waits here for its own, before anything is read.
 */
export async function createLineFinder(pattern: LinePattern, signal: AbortSignal, turns: Turns): Promise<LineFinder> {
  const plain = pattern.literal || !/[\\^$.*+?()[\]{}|]/.test(pattern.pattern)
  return plain && !pattern.ignore_case
    ? { find: async (text, limit) => findText(text, pattern.pattern, limit), close: async () => undefined }
    : await threaded(pattern, signal, turns)
}

function findText(text: string, wanted: string, limit: number): number[] {
  const numbers: number[] = []
  let [line, counted] = [1, 0]
  for (let at = text.indexOf(wanted); at >= 0 && numbers.length < limit; ) {
    for (let end = text.indexOf('\n', counted); end >= 0 && end < at; end = text.indexOf('\n', counted)) {
      line++
      counted = end + 1
    }
    numbers.push(line)
    const next = text.indexOf('\n', at)
    at = next < 0 ? -1 : text.indexOf(wanted, next + 1)
  }
  return numbers
}

// As text, because a thread needs a file or text, and this module is bundled into one file with others.
const THREAD = `
const { parentPort, workerData } = require('node:worker_threads')
const { source, flags, multiline } = workerData
const expression = new RegExp(source, flags)
const lineAt = (text, end, from) => { for (let at = text.indexOf('\\n', from.at); at >= 0 && at < end; at = text.indexOf('\\n', from.at)) { from.line++; from.at = at + 1 } return from.line }
parentPort.on('message', ({ text, limit }) => {
  const numbers = []
  if (multiline) {
    const from = { at: 0, line: 1 }
    for (const match of text.matchAll(expression)) {
      const line = lineAt(text, match.index, from)
      if (numbers[numbers.length - 1] !== line) numbers.push(line)
      if (numbers.length >= limit) break
    }
  } else {
    const lines = text.split(/\\r?\\n/)
    if (lines[lines.length - 1] === '') lines.pop()
    for (let i = 0; i < lines.length && numbers.length < limit; i++) { expression.lastIndex = 0; if (expression.test(lines[i])) numbers.push(i + 1) }
  }
  parentPort.postMessage(numbers)
})
`

async function threaded(
  { pattern, literal, ignore_case, multiline }: LinePattern,
  signal: AbortSignal,
  turns: Turns,
): Promise<LineFinder> {
  const source = literal ? pattern.replaceAll(/[\\^$.*+?()[\]{}|/-]/g, '\\$&') : pattern
  const flags = `${multiline ? 'gms' : ''}${ignore_case ? 'i' : ''}`
  try {
    new RegExp(source, flags)
  } catch (error) {
    if (error instanceof SyntaxError) throw badPattern(error.message)
    throw error
  }
  const endTurn = await turns.take(signal)
  let worker: Worker | undefined
  return {
    async find(text, limit, name) {
      if (!worker) {
        worker = new Worker(THREAD, {
          eval: true,
          workerData: { source, flags, multiline },
          resourceLimits: THREAD_LIMITS,
        })
        // It may also fail between two files, when nobody listens.
        worker.on('error', () => undefined)
        await once(worker, 'online', { signal })
      }
      const thread = worker
      return await new Promise((resolve, reject) => {
        const late = (): ToolError =>
          new ToolError(`The pattern took longer than ${BUDGET_MS} ms on '${name}'.`, {
            code: 'E_TIMEOUT',
            retryable: false,
            hint: 'Use a simpler pattern, or literal: true.',
          })
        const timer = setTimeout(() => end(() => reject(late())), BUDGET_MS)
        const abort = (): void => end(() => reject(signal.reason))
        const answer = (numbers: readonly number[]): void => end(() => resolve(numbers))
        const tooLarge = (cause: Error): ToolError =>
          new ToolError(`The pattern took more memory than there is on '${name}'.`, {
            code: 'E_TOO_LARGE',
            retryable: false,
            cause,
            hint: 'Use a simpler pattern, or literal: true.',
          })
        const fail = (error: NodeJS.ErrnoException): void =>
          end(() => reject(error.code === 'ERR_WORKER_OUT_OF_MEMORY' ? tooLarge(error) : error))
        function end(settle: () => void): void {
          clearTimeout(timer)
          signal.removeEventListener('abort', abort)
          thread.off('message', answer).off('error', fail)
          settle()
        }
        signal.addEventListener('abort', abort, { once: true })
        thread.on('message', answer).on('error', fail)
        thread.postMessage({ text, limit })
      })
    },
    async close() {
      try {
        await worker?.terminate()
      } finally {
        endTurn()
      }
    },
  }
}
