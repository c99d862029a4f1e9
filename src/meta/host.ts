import type { Caller } from '../core/context.ts'
import type { ToolResult } from '../core/result.ts'
import type { CallRequest } from '../exec/call.ts'
import type { ToolAnswer, ToolQueryOptions } from '../search/index.ts'
import type { Exposure } from '../view/exposure.ts'
import type { View } from '../view/view.ts'

export type { SearchStatus } from '../search/index.ts'

/** What meta-tools may use. */
export interface Host {
  view(caller: Caller): View
  exposure(caller: Caller): Exposure
  /** Searches what this caller sees. */
  search(
    query: string,
    caller: Caller,
    limit: number,
    how?: Pick<ToolQueryOptions, 'lanes' | 'explain'>,
  ): Promise<ToolAnswer>
  call(request: CallRequest): Promise<ToolResult>
  /** Milliseconds since the epoch. */
  now(): number
}

/** A tool about tools: the module contract, given a host and the whole request instead of a module's context. */
export interface MetaTool {
  readonly name: string
  readonly title: string
  /** Given the caller's view, because it says what lies behind. */
  description(view: View): string
  readonly inputSchema: Readonly<Record<string, unknown>>
  readonly hints: Readonly<Record<string, boolean>>
  run(input: Readonly<Record<string, unknown>>, request: CallRequest): ToolResult | Promise<ToolResult>
}
