import type { Caller } from '../core/caller.ts'
import { digestOf } from '../core/canonical.ts'
import type { Clock } from '../core/clock.ts'
import { setNewest } from '../core/drop-oldest.ts'
import type { Tool } from '../core/tool.ts'
import type { ToolResult } from '../core/tool-result.ts'
import { sessionOwner } from './task-owner.ts'
import type { CallRequest } from './tool-calls.ts'

type Call = (request: CallRequest) => Promise<ToolResult>

export interface RepeatedCallsOptions {
  /** Number of equal calls that gives a warning. */
  readonly limit: number
  readonly clock: Clock
  toolOf(caller: Caller, name: string): Tool | undefined
}

/** After a longer pause since the previous call, counting starts again. */
const MAX_PAUSE_MS = 10 * 60_000
/** Maximum number of remembered calls of all sessions. */
const MAX_CALLS = 10_000

/** Warns a model that makes the same call again and again. The warning is added to the result. */
export function createRepeatedCalls({ limit, clock, toolOf }: RepeatedCallsOptions) {
  const counts = new Map<string, { readonly times: number; readonly at: number }>()

  function timesOf({ caller, name, input }: CallRequest): { readonly tool: Tool; readonly times: number } | undefined {
    const tool = toolOf(caller, name)
    if (!tool || tool.allowRepeat) return undefined
    const key = digestOf([sessionOwner(caller), tool.id, input ?? {}])
    const now = clock.now()
    const before = counts.get(key)
    const times = before && now - before.at <= MAX_PAUSE_MS ? before.times + 1 : 1
    setNewest(counts, key, { times, at: now }, MAX_CALLS)
    return { tool, times }
  }

  return {
    async run(request: CallRequest, call: Call): Promise<ToolResult> {
      const repeated = timesOf(request)
      const result = await call(request)
      return repeated && repeated.times >= limit ? addWarning(result, repeated.tool, repeated.times) : result
    },
  }
}

function addWarning(result: ToolResult, { id }: Tool, times: number): ToolResult {
  const warning = `${id} was called ${times} times with the same arguments. Use the earlier results, or try something else.`
  if (result.kind === 'value') return { ...result, warnings: [...result.warnings, warning] }
  if (result.kind === 'input_required') return result
  const content = [...(result.result.content ?? []), { type: 'text', text: `Warning: ${warning}` }]
  return { kind: 'mcp', result: { ...result.result, content } }
}
