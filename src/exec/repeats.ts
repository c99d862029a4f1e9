import { digestOf } from '../core/canonical.ts'
import type { Clock } from '../core/clock.ts'
import type { Caller } from '../core/context.ts'
import type { ToolResult } from '../core/result.ts'
import type { Tool } from '../core/tool.ts'
import type { CallRequest } from './call.ts'
import { sessionOwner } from './owner.ts'

type Call = (request: CallRequest) => Promise<ToolResult>

/** Says so when a model makes the same call again and again: beside the result, which it gets all the same. */
export interface Repeats {
  run(request: CallRequest, call: Call): Promise<ToolResult>
}

export interface RepeatsOptions {
  /** From so many of the same call on it is said. */
  readonly limit: number
  readonly clock: Clock
  /** What a name means to a caller. */
  toolOf(caller: Caller, name: string): Tool | undefined
}

/** A call that was last made longer ago is another matter. */
const WINDOW_MS = 10 * 60_000
/** Calls that are remembered, of all sessions: the one made longest ago goes first. */
const MAX_CALLS = 10_000

export function createRepeats({ limit, clock, toolOf }: RepeatsOptions): Repeats {
  const made = new Map<string, { readonly times: number; readonly at: number }>()

  function timesOf({ caller, name, input }: CallRequest): { readonly tool: Tool; readonly times: number } | undefined {
    const tool = toolOf(caller, name)
    if (!tool || tool.allowRepeat) return undefined
    const key = digestOf([sessionOwner(caller), tool.id, input ?? {}])
    const now = clock.now()
    const before = made.get(key)
    const times = before && now - before.at <= WINDOW_MS ? before.times + 1 : 1
    made.delete(key)
    made.set(key, { times, at: now })
    const [oldest] = made.keys()
    if (made.size > MAX_CALLS && oldest !== undefined) made.delete(oldest)
    return { tool, times }
  }

  return {
    async run(request, call) {
      const same = timesOf(request)
      const result = await call(request)
      return same && same.times >= limit ? warned(result, same.tool, same.times) : result
    },
  }
}

function warned(result: ToolResult, { id }: Tool, times: number): ToolResult {
  const warning = `${id} was called ${times} times with the same arguments. Use what it gave, or try something else.`
  if (result.kind === 'value') return { ...result, warnings: [...result.warnings, warning] }
  if (result.kind === 'input_required') return result
  const content = [...(result.result.content ?? []), { type: 'text', text: `Warning: ${warning}` }]
  return { kind: 'mcp', result: { ...result.result, content } }
}
