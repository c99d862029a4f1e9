import type { Caller, Services } from '../core/context.ts'
import type { ToolResult } from '../core/result.ts'
import type { Injection } from '../core/services.ts'
import type { CallRequest } from '../exec/call.ts'
import type { CallLog } from '../exec/call-log.ts'
import type { Delivery } from '../exec/delivery.ts'
import type { JointApproval } from '../exec/gate.ts'
import type { Tasks } from '../exec/tasks.ts'
import type { ToolAnswer, ToolQueryOptions } from '../search/index.ts'
import type { Exposure } from '../view/exposure.ts'
import type { Injected } from '../view/injected.ts'
import type { View, ViewTool } from '../view/view.ts'
import type { Turns } from './turns.ts'

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
    how?: Pick<ToolQueryOptions, 'lanes' | 'explain' | 'keepUnlikely'>,
  ): Promise<ToolAnswer>
  call(request: CallRequest): Promise<ToolResult>
  /** Checks everything that is checked before a run. @throws PegboardError as `call` */
  checked(request: CallRequest): ViewTool
  /** Prepares one question for those of the requests that need a yes. */
  together(requests: readonly CallRequest[]): JointApproval | undefined
  /** Work that outlives a call. */
  readonly tasks: Tasks
  /** Where results can be sent. */
  readonly delivery: Delivery
  /**
   * Told of a name that is no tool though its server is configured; waits for one never seen, and answers whether to look
   * again.
   */
  missed(name: string, request: CallRequest): Promise<boolean>
  /** Waits a moment for servers that are read for the first time. */
  serversRead(caller: Caller): Promise<void>
  /** Over when modules are loaded, or take too long to be waited for; absent: nothing is to be waited for. */
  whileLoading(): Promise<void> | undefined
  /** Milliseconds since the epoch. */
  now(): number
  /** When what was kept before was put aside as damaged, a while ago at most. */
  lostAt(): number | undefined
  readonly context: ContextHost
}

/** What the tools about the context of calls may use. */
export interface ContextHost {
  readonly injected: Injected
  /** `null`: calls are not remembered. */
  readonly records: CallLog | null
  readonly turns: Turns
  servicesOf(caller: Caller): Services
  /** Has visible tools injected for this caller. */
  inject(caller: Caller, names: readonly string[]): Injection
  /** Whether this caller may use tools that change what everybody has. */
  isAdmin(caller: Caller): boolean
  setFlag(profile: string, flag: string, value: boolean): void
}

/** What a meta-tool is for on the way to a tool that is not listed. */
export type Step = 'discover' | 'schema' | 'execute'

/** A tool about tools: the module contract, given a host and the whole request instead of a module's context. */
export interface MetaTool {
  readonly name: string
  readonly title: string
  /** Absent: it is for something else. */
  readonly step?: Step
  /** For admins only; to others it does not exist. */
  readonly admin?: boolean
  /** Given the caller's view, because it says what lies behind. */
  description(view: View): string
  readonly inputSchema: Readonly<Record<string, unknown>>
  readonly hints: Readonly<Record<string, boolean>>
  run(input: Readonly<Record<string, unknown>>, request: CallRequest): ToolResult | Promise<ToolResult>
}
