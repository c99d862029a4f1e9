import { isRecord } from '../core/record.ts'
import type { Outcome } from './outcome.ts'
import { isStoredCaller, type StoredCaller } from './stored-caller.ts'

export type TaskStatus = 'running' | 'completed' | 'failed' | 'cancelled' | 'interrupted'

/** Work that outlives the call that began it. */
export interface Task {
  readonly id: string
  /** The id of its tool. */
  readonly tool: string
  readonly status: TaskStatus
  /** Milliseconds since the epoch. */
  readonly startedAt: number
  readonly finishedAt?: number
  readonly progress?: { readonly done: number; readonly total?: number; readonly message?: string }
  readonly outcome?: Outcome
  /** What its client would have been answered. */
  readonly answer?: Answered
  /** What it wants to know of its client, by a name of the question. */
  readonly questions?: Readonly<Record<string, unknown>>
}

/** A result as clients get it, or an error of the protocol. */
export type Answered =
  | { readonly result: Json }
  | { readonly error: { readonly code: number; readonly message: string; readonly data?: unknown } }

export type Json = Readonly<Record<string, unknown>>

/** Where what it gives is sent when it is over. */
export interface SendTo {
  readonly channel: string
  readonly maxChars: number
}

/** As it is kept: with the process that runs it, and what is needed to run it again where that does no harm. */
export interface Kept extends Task {
  readonly instance: string
  readonly caller: StoredCaller
  /** As it was called: what stands between the client and the tool is called again. */
  readonly name: string
  readonly input: unknown
  /** The same each time it is begun: a tool can tell by it what it has done already. */
  readonly callId?: string
  readonly idempotent: boolean
  /** How often it was begun. */
  readonly tries: number
  readonly sendTo?: SendTo
}

/** Whether something that was kept is that. */
export const isKept = (value: unknown): boolean =>
  isRecord(value) &&
  typeof value['status'] === 'string' &&
  Number.isFinite(value['startedAt']) &&
  typeof value['instance'] === 'string' &&
  typeof value['name'] === 'string' &&
  isStoredCaller(value['caller'])

const PREVIEW = 2_000

/** Without what is needed only to run it. */
export const shown = ({
  instance: _ours,
  caller: _whose,
  input: _what,
  callId: _run,
  idempotent: _may,
  tries: _often,
  sendTo: _where,
  ...task
}: Kept): Task => task

/** Its process has died, and it is not begun again. */
export const interrupted = (task: Kept, at: number): Kept => ({
  ...task,
  status: 'interrupted',
  finishedAt: at,
  outcome: { success: false, code: 'E_SHUTTING_DOWN', error: 'The server ended while the task was running.' },
})

/** The line its owner reads when it is over. */
export function noticeOf({ id, tool, status, startedAt, finishedAt = startedAt, outcome }: Task): string {
  const said = outcome === undefined ? '' : outcome.success ? JSON.stringify(outcome.data) : outcome.error
  const preview = said.length > PREVIEW ? `${said.slice(0, PREVIEW)}…` : said
  return `Background task ${id} (${tool}) ${status} after ${((finishedAt - startedAt) / 1_000).toFixed(1)} s: ${preview}`
}
