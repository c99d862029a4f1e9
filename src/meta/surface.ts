import type { Caller } from '../core/context.ts'
import { PegboardError } from '../core/errors.ts'
import { checkArguments } from '../core/guard.ts'
import type { ToolResult } from '../core/result.ts'
import type { CallRequest } from '../exec/call.ts'
import type { Facts } from '../exec/facts.ts'
import type { Schedule } from '../exec/schedule.ts'
import type { Watchers } from '../exec/watchers.ts'
import type { Mode } from '../view/exposure.ts'
import { firstSentence, type ListedTool, listCompact, listTool } from '../view/listing.ts'
import type { View, ViewTool } from '../view/view.ts'
import { backgroundTools } from './background.ts'
import { browseCategory } from './browse_category.ts'
import { checkTask } from './check_task.ts'
import { clearInjectedTools } from './clear_injected_tools.ts'
import { bareName, executeTool } from './execute_tool.ts'
import { extendToolLoop } from './extend_tool_loop.ts'
import { getTool } from './get_tool.ts'
import type { Host, MetaTool, Step } from './host.ts'
import { listActiveServers } from './list_active_servers.ts'
import { listAllTools } from './list_all_tools.ts'
import { listCategories } from './list_categories.ts'
import { redirectTask } from './redirect_task.ts'
import { reloadTools } from './reload_tools.ts'
import { factTools } from './remember.ts'
import { requestToolInjection } from './request_tool_injection.ts'
import { retrieveToolCallLog } from './retrieve_tool_call_log.ts'
import { runParallelTool } from './run_parallel.ts'
import { type ReadCalls, runText } from './run_text.ts'
import { scheduleTools } from './schedule.ts'
import { searchTools } from './search_tools.ts'
import { setFlag } from './set_flag.ts'
import { setTurn } from './set_turn.ts'
import { createUnlisted, type Unlisted } from './unlisted.ts'
import { watchTools } from './watch.ts'

/** What clients get: the listed tools, and one door through which every name is called. */
export interface Surface {
  /** In the order clients should see; equal for equal views, and the same object where it holds all tools. */
  list(caller: Caller, mode: Mode): readonly ListedTool[]
  /** How many tools are listed in every mode where there is room, beside those of owners and the doors to them. */
  beside(caller: Caller): number
  /** Runs a meta-tool or any tool the caller sees. @throws PegboardError */
  call(request: CallRequest): Promise<ToolResult>
  readonly metaNames: readonly string[]
  readonly unlisted: Unlisted
  /** The meta-tools as this caller is told of them, in a line each. Does not look at a tool. */
  guide(caller: Caller): readonly Guide[]
}

export interface Guide {
  readonly name: string
  readonly about: string
  readonly step?: Step
}

/** The tools about tools. */
const DISCOVERY_NAMES: readonly string[] = [
  'search_tools',
  'get_tool',
  'execute_tool',
  'list_categories',
  'browse_category',
]

/** Those of all these that run another tool and wait for it. */
export const RUNNERS: ReadonlySet<string> = new Set(['execute_tool', 'run_parallel', 'run_text'])

/** Tools that run other tools in another way than now and here. */
const PRIMITIVE_NAMES: readonly string[] = [
  'run_parallel',
  'background_run',
  'background_status',
  'background_result',
  'background_wait',
  'background_cancel',
  'background_list',
]

/** Tools for what comes later, where the operator wants them. */
const LATER_NAMES: readonly string[] = [
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
]

/** Tools about the context of calls: listed nowhere but for the first, and callable everywhere. */
const CONTEXT_NAMES: readonly string[] = [
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

/** The names no module or upstream tool may take. */
export const META_NAMES: readonly string[] = [...DISCOVERY_NAMES, ...PRIMITIVE_NAMES, ...LATER_NAMES, ...CONTEXT_NAMES]

/** Some clients put every tool behind a search of their own; a search behind a search is never found. */
const neverDeferred = (keys: readonly string[]): object =>
  keys.length === 0 ? {} : { _meta: Object.fromEntries(keys.map((key) => [key, true])) }

/** Clients of 2025-11-25 are told which calls can be tasks; never that they must be, as any can be made without. */
const withTask = (entry: ViewTool): ListedTool =>
  entry.tool.asTask === true
    ? { ...listTool(entry), execution: { taskSupport: entry.tool.task ?? 'optional' } }
    : listTool(entry)

export function createSurface(
  host: Host,
  options: {
    readonly pinned: (caller: Caller) => readonly string[]
    /** Whether the caller has the tools that run others in parallel and in the background. */
    readonly primitives: (caller: Caller) => boolean
    readonly readCalls: ReadCalls
    /** Where the operator wants them. */
    readonly watchers?: () => Watchers
    readonly schedule?: () => Schedule
    readonly facts?: () => Facts
  },
): Surface {
  const { injected, turns } = host.context
  const isMeta = (given: string): boolean => {
    const name = bareName(given)
    return META_NAMES.includes(name) && !CONTEXT_NAMES.includes(name)
  }
  const { watchers, schedule, facts } = options
  const later = [...(watchers ? watchTools(host, watchers) : []), ...(schedule ? scheduleTools(host, schedule) : [])]
  const unlisted = createUnlisted(
    host,
    later,
    (caller) => options.primitives(caller) && host.exposure(caller).mode === 'discovery',
  )
  const tools: readonly MetaTool[] = [
    searchTools(host, unlisted),
    getTool(host, unlisted),
    executeTool(host, isMeta, run, unlisted),
    listCategories(host),
    browseCategory(host),
  ]
  const short = [runParallelTool(host, isMeta), ...backgroundTools(host, isMeta), ...(facts ? factTools(facts) : [])]
  const primitives = [...short, ...later]
  const discovery = new Map(tools.map((tool) => [tool.name, tool]))
  const running = new Map(primitives.map((tool) => [tool.name, tool]))
  const injection = requestToolInjection(host)
  const about = new Map(
    [
      injection,
      clearInjectedTools(host),
      listAllTools(host),
      reloadTools(host),
      checkTask(host),
      ...primitives.flatMap((tool) => (tool.name === 'background_wait' ? [{ ...tool, name: 'await_result' }] : [])),
      redirectTask(host),
      listActiveServers(host),
      extendToolLoop(host),
      retrieveToolCallLog(host),
      runText(host, (name) => META_NAMES.includes(bareName(name)), options.readCalls, runNamed),
      setTurn(host),
      setFlag(host),
    ].map((tool) => [tool.name, tool]),
  )

  /** The meta-tool of a name, where this caller has it. */
  function metaNamed({ name: given, caller }: CallRequest): MetaTool | undefined {
    const name = bareName(given)
    const meta = discovery.get(name) ?? contextTool(name, caller)
    return meta ?? (running.has(name) && options.primitives(caller) ? running.get(name) : undefined)
  }

  function contextTool(name: string, caller: Caller): MetaTool | undefined {
    const meta = about.get(name)
    return meta?.admin && !host.context.isAdmin(caller) ? undefined : meta
  }

  function start(meta: MetaTool, request: CallRequest): ToolResult | Promise<ToolResult> {
    const input = request.input ?? {}
    if (typeof input !== 'object' || Array.isArray(input))
      throw new PegboardError('E_VALIDATION', `Invalid params for ${meta.name}: an object is required.`)
    checkArguments(input)
    return meta.run(input as Record<string, unknown>, request)
  }

  // Lists of newer clients are the same for all of a principal's connections, whatever one of them asked for.
  const hasOwnList = ({ era }: Caller): boolean => era === 'legacy'
  const canInject = (caller: Caller): boolean => hasOwnList(caller) && options.primitives(caller)

  /** Runs what `execute_tool` was given: any tool, or one about the context. */
  async function run(request: CallRequest): Promise<ToolResult> {
    const name = bareName(request.name)
    const meta = contextTool(name, request.caller) ?? unlisted.of(request.caller).get(name)
    return meta ? await start(meta, request) : await host.call(request)
  }

  /** Runs whatever a client may name. */
  async function runNamed(request: CallRequest): Promise<ToolResult> {
    const meta = metaNamed(request)
    if (!meta)
      return host.call({
        ...request,
        finders: host.exposure(request.caller).mode === 'direct' ? [] : ['search_tools', 'list_categories'],
      })
    const loading = host.whileLoading()
    if (loading) await loading
    return await start(meta, request)
  }

  const listMeta = (some: readonly MetaTool[], caller: Caller): ListedTool[] => {
    const view = host.view(caller)
    const meta = neverDeferred(view.limits.deferralKeys)
    return some.map((tool) => ({
      name: tool.name,
      title: tool.title,
      description: tool.description(view),
      inputSchema: tool.inputSchema,
      annotations: tool.hints,
      ...meta,
    }))
  }

  const toldTo = (caller: Caller): ((entry: ViewTool) => ListedTool) => (caller.era === 'legacy' ? withTask : listTool)
  const also = (caller: Caller, some = primitives): ListedTool[] =>
    options.primitives(caller) ? listMeta(some, caller) : []

  /** All tools of a view, which may be ten thousand: made once. */
  const whole = (view: View, caller: Caller, mode: 'direct' | 'compact'): readonly ListedTool[] => {
    const made = lists.get(view) ?? {}
    lists.set(view, made)
    made[mode] ??=
      mode === 'direct'
        ? [...view.tools.map(toldTo(caller)), ...also(caller)]
        : [...listMeta(tools, caller), ...also(caller), ...view.tools.map(listCompact)]
    return made[mode]
  }
  const lists = new WeakMap<View, { [M in Mode]?: readonly ListedTool[] }>()

  return {
    metaNames: META_NAMES,
    unlisted,
    guide(caller) {
      const view = host.view(caller)
      const discovering = host.exposure(caller).mode === 'discovery'
      const all = options.primitives(caller) ? [...tools, ...(discovering ? short : primitives)] : [...tools]
      if (canInject(caller) && discovering) all.push(injection)
      return all.map(({ name, description, step }) => ({
        name,
        about: firstSentence(description(view), 100),
        ...(step === undefined ? {} : { step }),
      }))
    },
    beside: (caller) => (options.primitives(caller) ? primitives.length : 0),
    list(asking, mode) {
      const caller = turns.as(asking)
      const view = host.view(caller)
      if (mode !== 'discovery') return whole(view, caller, mode)
      const wanted = hasOwnList(caller) ? injected.of(caller) : []
      const chosen = new Set<ViewTool>()
      for (const name of new Set([...options.pinned(caller), ...wanted])) {
        const found = view.resolve(name)
        if (found.kind === 'found') chosen.add(found.tool)
      }
      const doors = listMeta(tools, caller)
      const more = [...also(caller, short), ...(canInject(caller) ? listMeta([injection], caller) : [])]
      const room = view.limits.maxTools - doors.length
      const kept = [...chosen].slice(0, room).map(toldTo(caller))
      return [...doors, ...(more.length + kept.length > room ? [] : more), ...kept]
    },
    async call(given) {
      const caller = turns.as(given.caller)
      const request = caller === given.caller ? given : { ...given, caller }
      injected.note(caller)
      return await runNamed(request)
    },
  }
}
