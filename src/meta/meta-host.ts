import type { Owner } from '../catalog/owner.ts'
import type { Caller, Services } from '../core/caller.ts'
import type { Json } from '../core/is-record.ts'
import type { Injection } from '../core/service-types.ts'
import type { Relay, Tool } from '../core/tool.ts'
import type { ToolResult } from '../core/tool-result.ts'
import type { JointApproval } from '../exec/approval-gate.ts'
import type { Tasks } from '../exec/background-tasks.ts'
import type { CallLog } from '../exec/call-log.ts'
import type { Delivery } from '../exec/channel-delivery.ts'
import type { ResolvedCall } from '../exec/resolve-call.ts'
import type { CallRequest } from '../exec/tool-calls.ts'
import type { ResultStore } from '../results/result-store.ts'
import type { KnownNeed } from '../search/atlas.ts'
import type { AnsweredQuery } from '../search/misses.ts'
import type { ToolAnswer, ToolQueryOptions } from '../search/tool-search.ts'
import type { Exposure } from '../view/exposure.ts'
import type { InjectedTools } from '../view/injected-tools.ts'
import type { View } from '../view/view.ts'
import type { InputSchema } from './meta-input.ts'
import type { SessionTurns } from './session-turns.ts'

export type { SearchStatus } from '../search/tool-search.ts'

/** What meta-tools may use. */
export interface MetaHost {
  view(caller: Caller): View
  exposure(caller: Caller): Exposure
  /** Searches the tools that this caller sees. */
  search(
    query: string,
    caller: Caller,
    limit: number,
    how?: Pick<ToolQueryOptions, 'ranker' | 'explain' | 'brief'>,
  ): Promise<ToolAnswer>
  /** Records what a search answered, to learn which tool is called after it. */
  recordSearch?(caller: Caller, answers: readonly AnsweredQuery[]): void
  /**
   * Lets the client's model write search text for unknown tools, those of these owners first.
   * @returns whether a search may now find more
   */
  writeSearchText?(
    caller: Caller,
    relay: Relay | undefined,
    owners: readonly string[],
    signal?: AbortSignal,
  ): Promise<boolean>
  /** What a category is for, in plain words. */
  categoryLine(owner: Owner, view: View): string
  /** What calls of a well-known server's tool need, from the atlas. */
  knownNeed(tool: Tool): KnownNeed | undefined
  call(request: CallRequest): Promise<ToolResult>
  /**
   * Resolves the name, and checks policy and arguments, as `call` does. Counts no limits and asks for no approval.
   * @throws PegboardError the same errors as `call`
   */
  check(request: CallRequest): ResolvedCall
  /** Prepares one approval question for all requests that need approval. */
  combineApprovals(requests: readonly CallRequest[]): JointApproval | undefined
  /** Results that are too long for a model. */
  readonly results: ResultStore
  readonly tasks: Tasks
  /** Sends results to channels. */
  readonly delivery: Delivery
  /**
   * Called for a name that is not a tool although its server is configured. Waits for a server that was never seen,
   * and returns whether to look again.
   */
  awaitTool(name: string, request: CallRequest): Promise<boolean>
  /** Waits a moment for servers that are being read for the first time. */
  serversRead(caller: Caller): Promise<void>
  /** Resolves when the modules are loaded or take too long. Undefined if nothing is loading. */
  whileLoading(): Promise<void> | undefined
  /** Reports what a script read in place of the model. */
  scriptRead(caller: Caller, name: string, data: unknown): void
  /** Milliseconds since the epoch. */
  now(): number
  /** When damaged state was moved aside, if that was recent. */
  lostAt(): number | undefined
  readonly context: ContextHost
}

/** What the tools about the call context may use. */
export interface ContextHost {
  readonly injected: InjectedTools
  /** `null` if calls are not recorded. */
  readonly records: CallLog | null
  readonly turns: SessionTurns
  servicesOf(caller: Caller): Services
  inject(caller: Caller, names: readonly string[]): Injection
  /** True if this caller may use tools that affect all callers. */
  isAdmin(caller: Caller): boolean
  setFlag(profile: string, flag: string, value: boolean): void
}

/** The role of a meta-tool on the way to a tool that is not listed. */
export type MetaStep = 'discover' | 'schema' | 'execute'

/** A tool about tools. Like a module's tool, but it gets the host and the whole request instead of a module context. */
export interface MetaTool {
  readonly name: string
  readonly title: string
  /** Absent: the tool has another purpose. */
  readonly step?: MetaStep
  /** Only for admins. Other callers do not see it. */
  readonly admin?: boolean
  /** The description depends on the caller's view, because it names the categories that the caller can reach. */
  description(view: View): string
  readonly inputSchema: InputSchema
  /** Accepted parameters that the schema does not show; `any`: the tool reads whatever models send. */
  readonly otherKeys?: readonly string[] | 'any'
  readonly hints: Readonly<Record<string, boolean>>
  run(input: Json, request: CallRequest): ToolResult | Promise<ToolResult>
}
