import { isRecord, type Json } from '../core/is-record.ts'
import type { Outcome } from './outcome.ts'
import { isStoredCaller, type StoredCaller } from './stored-caller.ts'

export type TaskStatus = 'running' | 'completed' | 'failed' | 'cancelled' | 'interrupted'

/** A call that runs in the background. */
export interface Task {
  readonly id: string
  readonly tool: string
  readonly status: TaskStatus
  /** Milliseconds since the epoch. */
  readonly startedAt: number
  readonly finishedAt?: number
  readonly progress?: { readonly done: number; readonly total?: number; readonly message?: string }
  readonly outcome?: Outcome
  /** What the client would have received. */
  readonly answer?: TaskAnswer
  /** Questions to the client, by name. */
  readonly questions?: Readonly<Record<string, unknown>>
}

/** A result as clients receive it, or a JSON-RPC error. */
export type TaskAnswer =
  | { readonly result: Json }
  | { readonly error: { readonly code: number; readonly message: string; readonly data?: unknown } }

/** Where the result is sent when the task ends. */
export interface SendTarget {
  readonly channel: string
  readonly maxChars: number
}

/** A task as stored: with the process that runs it, and what is needed to run an idempotent tool again. */
export interface StoredTask extends Task {
  readonly instance: string
  readonly caller: StoredCaller
  /** The name in the client's call, so that policy and approval apply again. */
  readonly name: string
  /** Removed when the task has ended, because arguments can have megabytes. */
  readonly input: unknown
  /** Equal for all attempts, so that a tool can recognise a repeated run. */
  readonly callId?: string
  readonly idempotent: boolean
  readonly tries: number
  readonly sendTo?: SendTarget
}

export const isStoredTask = (value: unknown): boolean =>
  isRecord(value) &&
  typeof value['status'] === 'string' &&
  Number.isFinite(value['startedAt']) &&
  typeof value['instance'] === 'string' &&
  typeof value['name'] === 'string' &&
  isStoredCaller(value['caller'])

const PREVIEW = 2_000

/** Removes what is needed only to run the task. */
export const toPublicTask = ({
  instance: _instance,
  caller: _caller,
  input: _input,
  callId: _callId,
  idempotent: _idempotent,
  tries: _tries,
  sendTo: _sendTo,
  ...task
}: StoredTask): Task => task

/** Marks a task whose process died and that is not run again. */
export const markInterrupted = (task: StoredTask, at: number): StoredTask => ({
  ...task,
  input: undefined,
  status: 'interrupted',
  finishedAt: at,
  outcome: { success: false, code: 'E_SHUTTING_DOWN', error: 'The server ended while the task was running.' },
})

export function noticeOf({ id, tool, status, startedAt, finishedAt = startedAt, outcome }: Task): string {
  const outcomeText = outcome === undefined ? '' : outcome.success ? JSON.stringify(outcome.data) : outcome.error
  const preview = outcomeText.length > PREVIEW ? `${outcomeText.slice(0, PREVIEW)}…` : outcomeText
  return `Background task ${id} (${tool}) ${status} after ${((finishedAt - startedAt) / 1_000).toFixed(1)} s: ${preview}`
}
