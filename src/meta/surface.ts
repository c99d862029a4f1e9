import type { Owner } from '../catalog/owner.ts'
import { checkArguments } from '../core/argument-limits.ts'
import type { Caller } from '../core/caller.ts'
import type { Clock } from '../core/clock.ts'
import { PegboardError } from '../core/errors.ts'
import { getOrInsert } from '../core/get-or-insert.ts'
import type { Json } from '../core/is-record.ts'
import type { McpResult, ToolResult } from '../core/tool-result.ts'
import type { Facts } from '../exec/remembered-facts.ts'
import type { Scheduler } from '../exec/scheduler.ts'
import type { CallRequest } from '../exec/tool-calls.ts'
import type { Watchers } from '../exec/watchers.ts'
import type { ExposureMode } from '../view/exposure.ts'
import { executionOf, isCut, type ListedTool, listCompact, listTool } from '../view/listed-tools.ts'
import type { View, ViewTool } from '../view/view.ts'
import { backgroundTools } from './background-tools.ts'
import { browseCategory } from './browse_category.ts'
import { contextTools, requestToolInjection } from './context-tools.ts'
import { bareName, executeTool, FINDERS } from './execute_tool.ts'
import { factTools } from './fact-tools.ts'
import { fitResource, fitResult } from './fit-result.ts'
import { getTool } from './get_tool.ts'
import { listCategories } from './list_categories.ts'
import type { MetaHost, MetaStep, MetaTool } from './meta-host.ts'
import { checkKeys } from './meta-input.ts'
import { READ_RESULT, readResultTool } from './read_result.ts'
import { runCode } from './run_code.ts'
import { runParallelTool } from './run_parallel.ts'
import { type CallParser, runText } from './run_text.ts'
import { scheduleTools } from './schedule-tools.ts'
import { searchTools } from './search_tools.ts'
import { createUnlistedTools, type UnlistedTools } from './unlisted-tools.ts'
import { watchTools } from './watch-tools.ts'

/** The tools that clients see, and the single entry through which every tool is called. */
export interface Surface {
  /** In the order for clients. Equal views give equal lists, and the same object if it holds all tools. */
  list(caller: Caller, mode: ExposureMode): readonly ListedTool[]
  /** How many tools are listed in every mode, besides the tools of owners and the meta-tools that lead to them. */
  alwaysListed(caller: Caller): number
  /** Runs a meta-tool or any tool that the caller sees. @throws PegboardError */
  call(request: CallRequest): Promise<ToolResult>
  /**
   * Makes the result of a request fit the client: a longer one is kept, and replaced by a description with a handle.
   * @param promised whether the client knows an output schema of the tool
   */
  fit(
    request: Pick<CallRequest, 'name' | 'input' | 'caller'>,
    result: McpResult,
    promised: () => boolean,
  ): Promise<McpResult>
  /** The same for the parts of a resource that a client reads. @param owner the server of the resource */
  fitResource(caller: Caller, uri: string, contents: readonly Json[], owner?: Owner): Promise<readonly Json[]>
  readonly metaNames: readonly string[]
  readonly unlisted: UnlistedTools
  /** One line for each meta-tool of this caller. Does not read any tool of an owner. */
  guide(caller: Caller): readonly MetaToolSummary[]
}

export interface MetaToolSummary {
  readonly name: string
  readonly about: string
  readonly step?: MetaStep
}

/** The meta-tools that run another tool and wait for it. */
export const RUNNERS: ReadonlySet<string> = new Set(['execute_tool', 'run_parallel', 'run_text', 'run_code'])

/** Meta-tools about results and the call context. Only the first two are listed, and not always; all can be called. */
const CONTEXT_NAMES: readonly string[] = [
  'read_result',
  'request_tool_injection',
  'clear_injected_tools',
  'list_all_tools',
  'reload_tools',
  'check_task',
  'await_result',
  'redirect_task',
  'list_active_servers',
  'extend_tool_loop',
  'retrieve_tool_call_log',
  'run_text',
  'set_turn',
  'set_flag',
]

/** Names that no module and no upstream tool may take. */
export const META_NAMES: readonly string[] = [
  'search_tools',
  'get_tool',
  'execute_tool',
  'list_categories',
  'browse_category',
  'run_code',
  'run_parallel',
  'background_run',
  'background_status',
  'background_result',
  'background_wait',
  'background_cancel',
  'background_list',
  'watch_start',
  'watch_stop',
  'watch_pause',
  'watch_resume',
  'watch_status',
  'watch_list',
  'watch_history',
  'schedule_once',
  'schedule_cron',
  'schedule_cancel',
  'schedule_list',
  'schedule_status',
  'remind',
  'remember',
  'forget',
  ...CONTEXT_NAMES,
]

/** What a meta-tool is for: finding tools, describing them, or running them. Undefined for other names. */
export function purposeOf(name: string): 'search' | 'schemas' | 'results' | undefined {
  const meta = bareName(name)
  if (SEARCH_NAMES.has(meta)) return 'search'
  if (meta === 'get_tool') return 'schemas'
  return META_NAMES.includes(meta) ? 'results' : undefined
}

const SEARCH_NAMES = new Set(['search_tools', 'list_categories', 'browse_category', 'list_all_tools'])

/**
 * Some clients put all tools behind their own search. Meta-tools must stay listed, because a search behind a search
 * is never found.
 */
const neverDeferred = (keys: readonly string[]): object =>
  keys.length === 0 ? {} : { _meta: Object.fromEntries(keys.map((key) => [key, true])) }

function withExecution(entry: ViewTool): ListedTool {
  const execution = executionOf(entry)
  return execution ? { ...listTool(entry), execution } : listTool(entry)
}

const withoutOutput = ({ outputSchema: _left, ...listed }: ListedTool): ListedTool => listed

export function createSurface(
  host: MetaHost,
  options: {
    readonly pinned: (caller: Caller) => readonly string[]
    /** True if the caller has the tools that run others in parallel and in the background. */
    readonly primitives: (caller: Caller) => boolean
    readonly readCalls: CallParser
    /** For scripts: path of the compiled thread, and the clock of their time limit. */
    readonly sandbox: { readonly thread: string; readonly clock: Clock }
    /** Absent if the operator disabled them. */
    readonly watchers?: () => Watchers
    readonly schedule?: () => Scheduler
    readonly facts?: () => Facts
  },
): Surface {
  const { injected, turns } = host.context
  const isMeta = (calledName: string): boolean => {
    const name = bareName(calledName)
    return META_NAMES.includes(name) && !CONTEXT_NAMES.includes(name)
  }
  const { watchers, schedule, facts } = options
  const plannedTools = [
    ...(watchers ? watchTools(host, watchers) : []),
    ...(schedule ? scheduleTools(host, schedule) : []),
  ]
  const readTool = readResultTool(host)
  const isUnlisted = (tool: MetaTool, caller: Caller): boolean =>
    host.exposure(caller).mode === 'discovery' &&
    (tool === readTool ? host.results.has(caller) : options.primitives(caller))
  const unlisted = createUnlistedTools(host, [...plannedTools, readTool], isUnlisted)
  const describeTool = getTool(host, unlisted)
  const searchTool = searchTools(host, unlisted)
  const codeTool = runCode(host, options.sandbox, isMeta, {
    search: async (request) => await start(searchTool, request),
    [READ_RESULT]: async (request) => await start(readTool, request),
  })
  const tools: readonly MetaTool[] = [
    searchTool,
    describeTool,
    executeTool(host, isMeta, runForExecuteTool, unlisted),
    listCategories(host),
    browseCategory(host),
  ]
  const shortTools = [
    runParallelTool(host, isMeta),
    ...backgroundTools(host, isMeta),
    ...(facts ? factTools(facts) : []),
  ]
  const primitives = [...shortTools, ...plannedTools]
  const discoveryByName = new Map(tools.map((tool) => [tool.name, tool]))
  const primitivesByName = new Map(primitives.map((tool) => [tool.name, tool]))
  const injectTool = requestToolInjection(host)
  const contextByName = new Map(
    [
      readTool,
      injectTool,
      ...contextTools(host),
      ...primitives.flatMap((tool) => (tool.name === 'background_wait' ? [{ ...tool, name: 'await_result' }] : [])),
      runText(host, (name) => META_NAMES.includes(bareName(name)), options.readCalls, runNamed),
    ].map((tool) => [tool.name, tool]),
  )

  function findMetaTool({ name: given, caller }: Pick<CallRequest, 'name' | 'caller'>): MetaTool | undefined {
    const name = bareName(given)
    if (name === codeTool.name) return host.exposure(caller).mode === 'code' ? codeTool : undefined
    const meta = discoveryByName.get(name) ?? findContextTool(name, caller)
    return meta ?? (options.primitives(caller) ? primitivesByName.get(name) : undefined)
  }

  function findContextTool(name: string, caller: Caller): MetaTool | undefined {
    const meta = contextByName.get(name)
    return meta?.admin && !host.context.isAdmin(caller) ? undefined : meta
  }

  function start(meta: MetaTool, request: CallRequest): ToolResult | Promise<ToolResult> {
    const input = request.input ?? {}
    if (typeof input !== 'object' || Array.isArray(input))
      throw new PegboardError('E_VALIDATION', `Invalid params for ${meta.name}: an object is required.`)
    checkArguments(input)
    checkKeys(input as Record<string, unknown>, meta)
    return meta.run(input as Record<string, unknown>, request)
  }

  // Clients of the 2026 era get the same list on all connections of a principal, whatever one of them requested.
  const hasOwnList = ({ era }: Caller): boolean => era === 'legacy'
  const canInject = (caller: Caller): boolean => hasOwnList(caller) && options.primitives(caller)

  /** Runs what `execute_tool` was given: any tool, or a meta-tool about the context. */
  async function runForExecuteTool(request: CallRequest): Promise<ToolResult> {
    const name = bareName(request.name)
    const meta = findContextTool(name, request.caller) ?? unlisted.of(request.caller).get(name)
    return meta ? await start(meta, request) : await host.call(request)
  }

  /** Runs anything a client may name. */
  async function runNamed(request: CallRequest): Promise<ToolResult> {
    const meta = findMetaTool(request)
    if (!meta)
      // The spread is last, because members after it cost 4 µs on Node 20.
      return host.call({
        finders: host.exposure(request.caller).mode === 'direct' ? [] : FINDERS,
        ...request,
      })
    const loading = host.whileLoading()
    if (loading) await loading
    return await start(meta, request)
  }

  const listMeta = (metaTools: readonly MetaTool[], caller: Caller): ListedTool[] => {
    const view = host.view(caller)
    const meta = neverDeferred(view.limits.deferralKeys)
    return metaTools.map((tool) => ({
      name: tool.name,
      title: tool.title,
      description: tool.description(view),
      inputSchema: tool.inputSchema,
      annotations: tool.hints,
      ...meta,
    }))
  }

  /** @param listsGetTool whether `get_tool` is listed, which shows the full description of shortened ones */
  const listFor =
    (caller: Caller, listsGetTool: boolean, isAmongAll = true) =>
    (entry: ViewTool): ListedTool => {
      const whole = caller.era === 'legacy' ? withExecution(entry) : listTool(entry)
      const listed = isAmongAll ? whole : withoutOutput(whole)
      return listsGetTool && isCut(entry)
        ? { ...listed, description: `${listed.description} Call ${describeTool.name} for all of it.` }
        : listed
    }
  const listPrimitives = (caller: Caller, some = primitives): ListedTool[] =>
    options.primitives(caller) ? listMeta(some, caller) : []

  const createCompactList = (view: View, caller: Caller, reads: boolean): readonly ListedTool[] => [
    ...listMeta(tools, caller),
    ...listPrimitives(caller),
    ...(reads ? listMeta([readTool], caller) : []),
    ...view.tools.map(listCompact),
  ]

  /** If a description is shortened, the tool that shows the full one is listed too. */
  function createDirectList(view: View, caller: Caller, reads: boolean): readonly ListedTool[] {
    const more = [...listPrimitives(caller), ...(reads ? listMeta([readTool], caller) : [])]
    const listsGetTool = view.tools.length + more.length < view.limits.maxTools && view.tools.some(isCut)
    const listed = [...view.tools.map(listFor(caller, listsGetTool)), ...more]
    return listsGetTool ? [...listed, ...listMeta([describeTool], caller)] : listed
  }

  /** The list of all tools of a view, cached because there may be ten thousand. */
  const listWhole = (view: View, caller: Caller, mode: 'direct' | 'compact'): readonly ListedTool[] => {
    const listsByMode = getOrInsert(lists, view, () => ({}))
    const reads = listsReadTool(view, caller)
    const key = reads ? `${mode}, reads` : mode
    listsByMode[key] ??=
      mode === 'direct' ? createDirectList(view, caller, reads) : createCompactList(view, caller, reads)
    return listsByMode[key]
  }
  const lists = new WeakMap<View, Record<string, readonly ListedTool[]>>()

  /**
   * Whether the tool that reads long results is listed where all tools are. Without the other tools of Pegboard, it is listed
   * once there is such a result; lists of the 2026 era must not change with a call.
   */
  function listsReadTool({ limits }: View, caller: Caller): boolean {
    if (options.primitives(caller)) return true
    return hasOwnList(caller) && (!limits.trustsListChanged || host.results.has(caller))
  }

  function guidedTools(caller: Caller): readonly MetaTool[] {
    const { mode } = host.exposure(caller)
    if (mode === 'code') return [searchTool, codeTool]
    const isDiscovery = mode === 'discovery'
    const more = isDiscovery ? shortTools : primitives
    return [
      ...tools,
      ...(options.primitives(caller) ? more : []),
      ...(isDiscovery && canInject(caller) ? [injectTool] : []),
    ]
  }

  return {
    metaNames: META_NAMES,
    fit: (request, result, promised) =>
      fitResult(host, request, result, promised, (name) => findMetaTool({ ...request, name }) !== undefined),
    fitResource: (...resource) => fitResource(host, ...resource),
    unlisted,
    guide(caller) {
      const view = host.view(caller)
      return guidedTools(caller).map(({ name, description, step }) => ({
        name,
        about: description(view).split(/(?<=\.) (?=[A-Z\d])/, 1)[0] ?? '',
        ...(step === undefined ? {} : { step }),
      }))
    },
    alwaysListed: (caller) => (options.primitives(caller) ? primitives.length + 1 : 0),
    list(requestCaller, mode) {
      const caller = turns.withTurn(requestCaller)
      const view = host.view(caller)
      if (mode === 'code') return listMeta([searchTool, codeTool], caller)
      if (mode !== 'discovery') return listWhole(view, caller, mode)
      const injectedNames = hasOwnList(caller) ? injected.of(caller) : []
      const chosen = new Set<ViewTool>()
      for (const name of new Set([...options.pinned(caller), ...injectedNames])) {
        const found = view.resolve(name)
        if (found.kind === 'found') chosen.add(found.tool)
      }
      const always = listMeta(tools, caller)
      const more = [...listPrimitives(caller, shortTools), ...(canInject(caller) ? listMeta([injectTool], caller) : [])]
      const room = view.limits.maxTools - always.length
      const listedTools = [...chosen].slice(0, room).map(listFor(caller, true, false))
      return [...always, ...(more.length + listedTools.length > room ? [] : more), ...listedTools]
    },
    async call(clientRequest) {
      const caller = turns.withTurn(clientRequest.caller)
      const request = caller === clientRequest.caller ? clientRequest : { ...clientRequest, caller }
      injected.clearIfNewAnswer(caller)
      return await runNamed(request)
    },
  }
}
