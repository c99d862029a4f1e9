import { readFileSync } from 'node:fs'
import { parentPort, workerData } from 'node:worker_threads'
import { type ErrorCode, isPegboardError } from '../core/errors.ts'
import { lowerThreadPriority } from '../core/thread-priority.ts'
import {
  queryResult,
  type ResultAnswer,
  type ResultQuery,
  type ResultSummary,
  summarizeResult,
} from './result-query.ts'

/** What the thread is started with: the file of a result, and a question. Without a query, it summarizes. */
export interface ThreadRequest {
  readonly file: string
  readonly query?: ResultQuery
  /** Maximum of the answer's text. */
  readonly tokens: number
}

export type ThreadAnswer =
  | { readonly summary: ResultSummary }
  | { readonly answer: ResultAnswer }
  | { readonly code: ErrorCode; readonly message: string; readonly hint: string }

// Runs only as a thread; importing its types elsewhere must not start it.
if (parentPort) {
  lowerThreadPriority()
  parentPort.postMessage(answer(workerData as ThreadRequest))
}

function answer({ file, query, tokens }: ThreadRequest): ThreadAnswer {
  try {
    const text = readFileSync(file, 'utf8')
    return query ? { answer: queryResult(text, query, tokens) } : { summary: summarizeResult(text, tokens) }
  } catch (error) {
    if (isPegboardError(error)) return { code: error.code, message: error.message, hint: error.hint }
    throw error
  }
}
