import { randomUUID } from 'node:crypto'
import type { Caller } from '../core/caller.ts'
import type { Clock } from '../core/clock.ts'
import { dropOldest } from '../core/drop-oldest.ts'
import { isPegboardError, messageOf } from '../core/errors.ts'
import { getOrInsert } from '../core/get-or-insert.ts'
import { rawBytes } from '../core/raw-result.ts'
import { looksSecret } from '../core/secret-names.ts'
import { isFailedResult, type ToolResult } from '../core/tool-result.ts'
import { truncate } from '../core/truncate.ts'
import type { CallRequest } from './tool-calls.ts'

/** A call for the call log. Values are short and without credentials. */
export interface CallRecord {
  readonly record_id: string
  readonly tool: string
  readonly args: unknown
  readonly result: unknown
  readonly success: boolean
  /** ISO 8601 time. */
  readonly start: string
  readonly end: string
  readonly duration_ms: number
  /** Number in the order of start, from 1. */
  readonly order_index: number
  readonly round_number: number | null
}

/** The latest calls of each session. */
export type CallLog = ReturnType<typeof createCallLog>

interface SessionLog {
  readonly id: string
  started: number
  readonly calls: Call[]
}

/** A call as stored; converted to a record on request. */
interface Call extends Pick<CallRecord, 'tool' | 'args' | 'result' | 'success'> {
  readonly start: number
  readonly end: number
  readonly order: number
  readonly round: number | null
}

const MAX_LOGS = 1_000
const MAX_TEXT = 500
const MAX_NAME = 200
const MAX_NODES = 60
const MAX_DEPTH = 6

export function createCallLog({ size, clock }: { readonly size: number; readonly clock: Clock }) {
  const logs = new Map<string, SessionLog>()
  const keyOf = ({ session, principal, profile }: Caller): string =>
    session === undefined ? JSON.stringify([principal, profile]) : `${session}\n${profile}`

  function logOf(caller: Caller): SessionLog {
    const log = getOrInsert(logs, keyOf(caller), () => ({ id: randomUUID().slice(0, 8), started: 0, calls: [] }))
    dropOldest(logs, MAX_LOGS)
    return log
  }

  return {
    async run(request: CallRequest, call: (request: CallRequest) => Promise<ToolResult>): Promise<ToolResult> {
      const log = logOf(request.caller)
      const order = ++log.started
      const start = clock.now()
      const addCall = (success: boolean, result: unknown): void => {
        log.calls.push({
          tool: truncate(request.name, MAX_NAME),
          args: clipValue(request.input ?? {}),
          result: clipValue(result),
          success,
          start,
          end: clock.now(),
          order,
          round: request.loop?.used ?? null,
        })
        if (log.calls.length > size) log.calls.shift()
      }
      try {
        const result = await call(request)
        addCall(!isFailedResult(result), toShortResult(result))
        return result
      } catch (error) {
        addCall(false, isPegboardError(error) ? { code: error.code, message: error.message } : messageOf(error))
        throw error
      }
    },
    /** The latest calls, oldest first. */
    of(caller: Caller, latest: number): readonly CallRecord[] {
      const { id, calls } = logs.get(keyOf(caller)) ?? { id: '', calls: [] }
      return calls
        .toSorted((a, b) => a.order - b.order)
        .slice(-Math.max(1, latest))
        .map((call) => recordOf(id, call))
    },
    forget(session: string): void {
      for (const key of [...logs.keys()]) if (key.startsWith(`${session}\n`)) logs.delete(key)
    },
  }
}

const recordOf = (session: string, { tool, args, result, success, start, end, order, round }: Call): CallRecord => ({
  record_id: `${session}-${order}`,
  tool,
  args,
  result,
  success,
  start: new Date(start).toISOString(),
  end: new Date(end).toISOString(),
  duration_ms: end - start,
  order_index: order,
  round_number: round,
})

function toShortResult(result: ToolResult): unknown {
  if (result.kind === 'value') return result.value
  // Avoids parsing a long result.
  const raw = result.kind === 'mcp' ? rawBytes(result.result) : undefined
  return raw ? `${raw[0]?.subarray(0, MAX_TEXT).toString()}…` : result.result
}

/** Copies only the first part, so that the time does not depend on the rest. */
function clipValue(value: unknown): unknown {
  let remainingNodes = MAX_NODES

  function copy(one: unknown, depth: number): unknown {
    if (typeof one === 'string') return one.length > MAX_TEXT ? `${truncate(one, MAX_TEXT)}…` : one
    if (typeof one === 'bigint') return String(one)
    if (typeof one !== 'object' || one === null) return one
    if (remainingNodes <= 0 || depth > MAX_DEPTH) return '…'
    return Array.isArray(one) ? copyItems(one, depth + 1) : copyMembers(one as Record<string, unknown>, depth + 1)
  }

  function copyItems(items: readonly unknown[], depth: number): unknown[] {
    const copies: unknown[] = []
    for (const item of items) {
      if (remainingNodes-- <= 0) return [...copies, '…']
      copies.push(copy(item, depth))
    }
    return copies
  }

  function copyMembers(members: Readonly<Record<string, unknown>>, depth: number): Record<string, unknown> {
    const copies: Record<string, unknown> = {}
    for (const key in members) {
      if (!Object.hasOwn(members, key)) continue
      if (remainingNodes-- <= 0) return { ...copies, '…': '…' }
      copies[truncate(key, MAX_NAME)] = looksSecret(key) ? '<removed>' : copy(members[key], depth)
    }
    return copies
  }

  return copy(value, 0)
}
