import type { Caller } from '../core/caller.ts'
import type { Clock } from '../core/clock.ts'
import { dropOldest } from '../core/drop-oldest.ts'
import { createEmitter } from '../core/emitter.ts'
import { isPegboardError } from '../core/errors.ts'
import type { ToolResult } from '../core/tool-result.ts'
import { bytesOf, statusOfResult } from './audited-call.ts'
import { idOf, type Run } from './call-context.ts'
import type { CallRequest } from './tool-calls.ts'

/** A finished call, for the operator. */
export interface RecentCall {
  readonly id: string
  readonly at: number
  readonly ms: number
  /** Id of the tool, or the name that was called if there is no such tool. */
  readonly tool: string
  /** Empty if there is no such tool. */
  readonly module: string
  readonly caller: Caller
  /** `ok`, `error`, `input_required` or an error code. */
  readonly outcome: string
  readonly bytes?: number
  readonly error?: string
  readonly hint?: string
  /** File and line of a bug in a drop-in. */
  readonly place?: string
}

/** The latest calls, and for some minutes their arguments. Kept only in memory. */
export type RecentCalls = ReturnType<typeof createRecentCalls>

const MAX_CALLS = 2_000
const MAX_INPUTS = 200
/** Larger arguments are forgotten at once. */
const MAX_INPUT_CHARS = 64 * 1024
const INPUT_MS = 15 * 60_000
const MAX_NAME = 200
const MAX_TEXT = 2_000
const MINUTE_MS = 60_000

export function createRecentCalls(clock: Clock) {
  const calls: RecentCall[] = []
  const inputs = new Map<string, { readonly input: unknown; readonly until: number }>()
  const callEvents = createEmitter<[RecentCall]>()
  let [total, failed] = [0, 0]

  function add(call: RecentCall, input: unknown, chars: number): void {
    total++
    if (call.outcome !== 'ok' && call.outcome !== 'input_required') failed++
    calls.push(call)
    if (calls.length > MAX_CALLS) calls.shift()
    if (chars <= MAX_INPUT_CHARS) inputs.set(call.id, { input, until: clock.now() + INPUT_MS })
    dropOldest(inputs, MAX_INPUTS)
    callEvents.emit(call)
  }

  /** The arguments of a call; undefined once they are forgotten. */
  function inputOf(id: string): { readonly input: unknown } | undefined {
    for (const [old, { until }] of inputs) {
      if (until > clock.now()) break
      inputs.delete(old)
    }
    return inputs.get(id)
  }

  return {
    async run(request: CallRequest, run: Run, call: () => Promise<ToolResult>): Promise<ToolResult> {
      const at = clock.now()
      const end = (outcome: string, more: Partial<RecentCall>): void =>
        add(
          {
            id: idOf(run),
            at,
            ms: Math.max(0, Math.round(clock.now() - at)),
            tool: run.tool?.id ?? request.name.slice(0, MAX_NAME),
            module: run.tool?.module ?? '',
            caller: request.caller,
            outcome,
            ...(run.place === undefined ? {} : { place: run.place }),
            ...more,
          },
          request.input ?? {},
          run.size ?? Number.POSITIVE_INFINITY,
        )
      try {
        const result = await call()
        const bytes = bytesOf(result)
        const outcome = statusOfResult(result)
        end(outcome, {
          ...(bytes === undefined ? {} : { bytes }),
          ...(outcome === 'error' ? { error: messageIn(result) } : {}),
        })
        return result
      } catch (error) {
        const isOwnError = isPegboardError(error)
        end(
          isOwnError ? error.code : 'E_INTERNAL',
          isOwnError ? { error: error.message.slice(0, MAX_TEXT), hint: error.hint } : {},
        )
        throw error
      }
    },
    /** Oldest first. */
    list: (): readonly RecentCall[] => calls,
    get: (id: string): RecentCall | undefined => calls.findLast((call) => call.id === id),
    inputOf,
    get total(): number {
      return total
    },
    get failed(): number {
      return failed
    },
    /** Number of calls that ended within the last minute. */
    lastMinute(): number {
      const since = clock.now() - MINUTE_MS
      let count = 0
      for (let at = calls.length - 1; at >= 0 && (calls[at] as RecentCall).at >= since; at--) count++
      return count
    },
    onCall: callEvents.listen,
  }
}

/** The beginning of what a tool said about its failure. */
function messageIn(result: ToolResult): string {
  const { content = [] } = result.kind === 'mcp' ? result.result : {}
  return content
    .flatMap(({ text }) => (typeof text === 'string' ? [text.slice(0, MAX_TEXT)] : []))
    .join('\n')
    .slice(0, MAX_TEXT)
}
