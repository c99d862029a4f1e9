import { askInspected } from '../core/asks.ts'
import { monotonicMs } from '../core/clock.ts'
import { type Caller, noServices, type ServicesFor } from '../core/context.ts'
import { createCountdown } from '../core/countdown.ts'
import { createCrowd } from '../core/crowd.ts'
import { createEnding, type Ending, offEnd, onEnd } from '../core/ending.ts'
import { isPegboardError, PegboardError, shuttingDown } from '../core/errors.ts'
import { isProtocolFailure, ProtocolFailure } from '../core/failure.ts'
import type { Fetch } from '../core/fetch.ts'
import { checkArguments } from '../core/guard.ts'
import type { KnownSecrets } from '../core/known-secrets.ts'
import type { Log } from '../core/log.ts'
import type { ToolLoop } from '../core/loop.ts'
import type { Observer } from '../core/observer.ts'
import type { ToolResult } from '../core/result.ts'
import { knownPaths } from '../core/scrub.ts'
import { createSlots, type Slots, slotsOf } from '../core/slots.ts'
import { noRelay, type Relay, type Tool } from '../core/tool.ts'
import type { Audit } from '../observe/audit.ts'
import { unreadServers } from '../view/unread.ts'
import type { View, Views, ViewTool } from '../view/view.ts'
import { absentBy, refusalOf } from '../view/visible.ts'
import { recorded } from './audited.ts'
import { clipped } from './clip.ts'
import { createContexts, idOf, type Run, type ToolRun } from './context.ts'
import type { Gate, JointApproval, OnGate, Passing } from './gate.ts'
import { type Confirmed, guard, type Ready } from './guard.ts'
import { createHistory, type History } from './history.ts'
import {
  createInspections,
  type Inspection,
  type Inspections,
  inspect,
  inspectFailure,
  inspectQuestion,
  secretsIn,
} from './inspect.ts'
import { observed } from './observed.ts'
import type { ExecutionSettings } from './options.ts'
import type { Part } from './output.ts'
import {
  authoredOf,
  cancelled,
  checkSize,
  invalid,
  MAX_CALL_MS,
  notFound,
  notOffered,
  placeOf,
  refusal,
  timedOut,
} from './refusals.ts'
import { createUsage, type Usage } from './usage.ts'

/** One wish to run a tool, whoever has it. */
export interface CallRequest {
  /** Any spelling a view resolves. */
  readonly name: string
  readonly input: unknown
  readonly caller: Caller
  /** The name of the run, where it must be the same when the run is begun again; default a new one. */
  readonly callId?: string | undefined
  /** Fires when the client no longer wants the answer. */
  readonly signal?: AbortSignal
  /** What ends the call that makes this one. */
  readonly within?: Ending
  /** What ends the run, where whoever calls has one already: aborted on time limit and shutdown too. */
  readonly abort?: Ending
  readonly relay?: Relay
  /** The tool says that its client need not wait. */
  readonly onBackground?: () => void
  readonly onProgress?: (done: number, total?: number, message?: string) => void
  /** The rounds of the conversation the call belongs to, where we run that. */
  readonly loop?: ToolLoop
  /** Its place in the output of the call that it is a part of; default one of its own. */
  readonly part?: Part
  /** Calls made by tools inside calls; at most three deep. */
  readonly depth?: number
  /** Made for a tool that changes nothing: only tools that read may run. */
  readonly readOnly?: boolean
  /**
   * `setup` steps of the operator's own configuration pass policy and availability; what a `module` calls may be one of the
   * tools that clients do not have.
   */
  readonly origin?: 'client' | 'module' | 'setup'
  /** Whoever calls has waited for servers already: none is started for a name nobody knows. */
  readonly waited?: boolean
  /** Names a model can call for help, in "not found" answers. Empty when no meta-tool is listed. */
  readonly finders?: readonly string[]
  /** The one question about this call and those that run together with it. */
  readonly approval?: JointApproval | undefined
}

export interface Calls {
  /** Runs a tool. @throws PegboardError for every refusal and failure; nothing else ever leaves */
  call(request: CallRequest): Promise<ToolResult>
  /** Checks everything that is checked before a run. Gives the tool. @throws PegboardError as `call` */
  check(request: CallRequest): ViewTool
  /** Prepares one question for those of the requests that need a yes. Give it to each of them as `approval`. */
  together(requests: readonly CallRequest[]): JointApproval | undefined
  /** What ran lately, and how often. */
  readonly history: Pick<History, 'latest'>
  readonly usage: Usage
  /** How many run now, and how many wait for a place. */
  load(): { readonly running: number; readonly waiting: number }
  /** Refuses new calls and waits for those that run, `graceMs` at most; then ends them, and whoever waits is told. */
  drain(graceMs: number): Promise<void>
  /** Refuses new calls, aborts what runs. */
  stop(): void
}

export interface CallsOptions {
  readonly views: Views
  /** All tools, visible or not: what `setup` steps may reach. */
  readonly anyTool: (id: string) => Tool | undefined
  readonly settings: ExecutionSettings
  readonly log: Log
  readonly shared?: () => Readonly<Record<string, unknown>>
  /** Told of a name that is no tool; `true` when it may be one by now. */
  readonly missing?: (name: string, request: CallRequest) => Promise<boolean>
  /** What modules may use of the host for a caller; default nothing. */
  readonly servicesFor?: ServicesFor
  /** How modules reach addresses; default not at all. */
  readonly fetch?: Fetch
  readonly onInjected?: (caller: Caller, names: readonly string[]) => readonly string[]
  /** What calls pass that a policy guards; needed where one does. */
  readonly gate?: Gate
  /** Where calls are written down; default nowhere. */
  readonly audit?: Audit | undefined
  /** Told of calls; default nobody. */
  readonly observer?: Observer | undefined
  /** What is done about results and errors; default knows no secrets. */
  readonly inspections?: Inspections
  /** What else no error may say: the environment of this process is nothing that results are made of, but failures name it. */
  readonly secrets?: () => KnownSecrets | undefined
  /** Folders whose paths errors may name: tools work there. */
  readonly roots?: () => readonly string[]
}

const MAX_DEPTH = 3
const MISSED: ReadonlySet<string> = new Set(['E_NOT_FOUND', 'E_UPSTREAM_UNAVAILABLE'])

const noFetch: Fetch = async () => {
  throw new PegboardError('E_SSRF_BLOCKED', 'No address can be reached from here.')
}

/** The one way to run a tool: resolve, decide, check, run, normalise, record. */
export function createCalls(options: CallsOptions): Calls {
  const { views, settings, log, gate, audit, observer } = options
  const { maxConcurrent, maxQueued } = settings
  const everywhere = createSlots({ maxConcurrent, maxQueued, setting: 'execution.maxQueued' })
  const inspections = options.inspections ?? createInspections()
  const lines = new Set<Slots>()
  const history = createHistory()
  const usage = createUsage()
  const running = createCrowd<Ending>()
  const written: (request: CallRequest, run?: Run) => Promise<ToolResult> = audit
    ? (request, run) => recorded({ audit, viewOf: ({ caller }) => views.viewFor(caller), observer }, request, call, run)
    : call
  const enter: (request: CallRequest) => Promise<ToolResult> = observer
    ? (request) => observed(observer, request, written)
    : written
  const contexts = createContexts({
    servicesFor: options.servicesFor ?? (() => noServices),
    fetch: options.fetch ?? noFetch,
    onInjected: options.onInjected,
    log,
    shared: () => options.shared?.() ?? {},
    profileOf: (caller) => views.viewFor(caller).profile,
    call: enter,
  })
  let stopped = false
  let drained: (() => void) | undefined

  async function call(
    request: CallRequest,
    run: Run = { id: request.callId, tool: undefined },
    told?: OnGate,
  ): Promise<ToolResult> {
    if (stopped) throw shuttingDown()
    const depth = request.depth ?? 0
    if (depth > MAX_DEPTH)
      throw new PegboardError('E_LOOP_DETECTED', `Tools called each other more than ${MAX_DEPTH} deep.`)
    const first = found(request)
    // Without a wait, so that calls take their places in the order they came.
    let wanted = first instanceof Promise ? await first : first
    run.tool = wanted.entry.tool
    const startedAt = monotonicMs()
    const abort = request.abort ?? createEnding()
    const cancel = (): void => abort.abort(cancelled())
    const outer = request.signal ?? request.within
    if (outer?.aborted) cancel()
    else if (outer) onEnd(outer, cancel)
    const timeoutMs = Math.min(wanted.entry.tool.timeoutMs ?? settings.timeoutMs, MAX_CALL_MS)
    const limit = createCountdown(timeoutMs, () => abort.abort(timedOut(wanted.entry.tool, timeoutMs)))
    const place = running.enter(abort)
    const held: Slots[] = []
    // The time of a person is not the time of the tool: whoever waits for one holds no slot, and no clock runs.
    let away = 0
    let over = false
    const aside = (): (() => void) => {
      const resume = limit.pause()
      if (away++ === 0) for (const slots of held) slots.release()
      return () => {
        resume()
        if (--away === 0 && !over) for (const slots of held) slots.retake()
      }
    }
    const paused = <T>(answer: Promise<T>): Promise<T> => answer.finally(aside())
    let inspection: Inspection | undefined
    const relay = request.relay ? asking(request.relay, aside, () => inspection) : noRelay
    let confirmed: Confirmed | undefined
    try {
      if (wanted.policy?.guarded) {
        const answer = guarded(wanted, request, relay, abort, told, false, paused)
        if (answer) {
          confirmed = await answer
          // The operator may have changed their mind meanwhile.
          wanted = confirmed.again(ready(request))
        }
      }
      let waited = false
      for (const slots of slotsFor(wanted.entry.tool, depth)) {
        const wait = slots.take(abort, request.caller.principal)
        if (wait) await wait
        held.push(slots)
        waited ||= wait !== undefined
      }
      if (waited) {
        // The same.
        if (stopped) throw shuttingDown()
        wanted = confirmed ? confirmed.again(ready(request)) : ready(request)
        const answer = confirmed ? undefined : guarded(wanted, request, relay, abort, told, true, paused)
        if (answer) {
          confirmed = await answer
          wanted = confirmed.again(ready(request))
        }
      }
      if (abort.aborted) throw abort.reason
      const { entry, input, policy } = wanted
      inspection = policy && inspections.of(policy.tripwire(entry.tool), entry.tool.opaque)
      const ran = await runTool(input, { tool: entry.tool, request, relay, run, ending: abort, depth, inspection })
      if (ran.kind === 'mcp') checkSize(entry.tool, ran.result, settings.maxResultBytes)
      // Tools that call each other do so in this process, where nothing has to be sent.
      const ended = ran.kind === 'value' && depth === 0 ? clipped(ran, entry.tool, settings.maxResultBytes) : ran
      if (confirmed && ended.kind === 'input_required') gate?.goesOn(confirmed.passing)
      const result = inspection ? inspect(ended, inspection) : ended
      if (inspection?.warns && result.kind === 'mcp') {
        const found = secretsIn(result.result)
        if (found.length > 0) {
          run.secrets = found
          log.warn('a result may hold secrets', { tool: entry.tool.id, callId: idOf(run), secrets: found })
        }
      }
      const ms = monotonicMs() - startedAt
      // One that asks something first comes again.
      if (result.kind !== 'input_required') {
        const isFailure = result.kind === 'mcp' && result.result.isError === true
        usage.add(entry.tool.id, request.caller.principal, ms, isFailure ? 'E_TOOL_FAILED' : undefined)
        history.add(entry.tool.id, request.caller, input, run, startedAt, ms, isFailure ? 'E_TOOL_FAILED' : undefined)
      }
      if (entry.tool.intent !== undefined) views.used(request.caller, entry.tool.intent)
      if (!log.terse)
        log.debug('call', {
          callId: idOf(run),
          tool: entry.tool.id,
          principal: request.caller.principal,
          ms: Math.round(ms),
          outcome: 'ok',
        })
      return result
    } catch (error) {
      if (confirmed && wantsPage(error)) gate?.goesOn(confirmed.passing)
      const known = knownPaths(wanted.input, options.roots?.() ?? [])
      const failure = refusalOfRun(error, run, wanted.entry.tool, inspection, options.secrets?.(), known)
      const ms = monotonicMs() - startedAt
      usage.add(wanted.entry.tool.id, request.caller.principal, ms, failure.code)
      history.add(wanted.entry.tool.id, request.caller, wanted.input, run, startedAt, ms, failure.code)
      const authored = failure.code === 'E_INTERNAL' ? authoredOf(error) : undefined
      const at = authored?.at ?? placeOf(error)
      log[failure.code === 'E_INTERNAL' ? 'error' : at === undefined ? 'debug' : 'info']('call', {
        callId: run.id,
        tool: wanted.entry.tool.id,
        principal: request.caller.principal,
        ms: Math.round(ms),
        outcome: failure.code,
        ...(at === undefined ? {} : { at }),
        ...(failure.code === 'E_INTERNAL' ? { error: authored?.error ?? error } : {}),
      })
      throw failure
    } finally {
      limit.stop()
      running.leave(place)
      if (running.places.length === 0) drained?.()
      if (outer) offEnd(outer, cancel)
      over = true
      if (away === 0) for (const slots of held) slots.release()
    }
  }

  /**
   * What a call needs a place in, in this order: calls that wait for one server take no place from others. What a tool
   * calls runs in the place of its caller: a line of calls that wait for each other would never move.
   */
  function slotsFor({ capacity }: Tool, depth: number): readonly Slots[] {
    if (!capacity) return depth === 0 ? [everywhere] : []
    const own = slotsOf(capacity)
    lines.add(own)
    return depth === 0 ? [own, everywhere] : [own]
  }

  /** The same as `ready`, with a second look at a name nobody knows: its server may have got it since. */
  function found(request: CallRequest): ReturnType<typeof ready> | Promise<ReturnType<typeof ready>> {
    try {
      return ready(request)
    } catch (error) {
      if (
        !options.missing ||
        !isPegboardError(error) ||
        !MISSED.has(error.code) ||
        request.origin === 'setup' ||
        request.waited
      )
        throw error
      return options.missing(request.name, request).then((again) => {
        if (!again) throw error
        return ready(request)
      })
    }
  }

  /** Which tool is meant, and its arguments checked. */
  function ready(request: CallRequest): Ready {
    const view = request.origin === 'setup' ? undefined : views.viewFor(request.caller)
    const entry = view ? visibleTool(request, view) : setupTool(request.name)
    const input = request.input ?? {}
    checkArguments(input)
    if (request.readOnly && entry.tool.effect !== 'read')
      throw new PegboardError('E_READ_ONLY_CONTRACT', `A read-only tool may not call ${entry.tool.id}.`)
    return { entry, input: parse(entry, input), policy: view?.policy }
  }

  function visibleTool(request: CallRequest, view: View): ViewTool {
    const inner = request.origin === 'module' ? view.inner(request.name) : undefined
    if (inner) return inner
    const found = view.resolve(request.name)
    if (found.kind === 'found') return found.tool
    if (found.kind === 'ambiguous')
      throw new PegboardError('E_NOT_FOUND', `'${request.name}' could be ${found.candidates.join(' or ')}.`, {
        hint: 'Use one of these full names.',
      })
    if (found.kind === 'hidden') throw refusalOf(found)
    if (found.down) throw absentBy(found.down, request.name)
    throw notFound(
      request.name,
      found.suggestions,
      found.sameModule,
      request.finders ?? [],
      view.tools.map((entry) => entry.tool.id),
      unreadServers(view),
    )
  }

  function setupTool(name: string): ViewTool {
    const tool = options.anyTool(name)
    if (!tool) throw new PegboardError('E_NOT_FOUND', `Tool '${name}' not found.`)
    return { tool, description: tool.description, input: tool.input }
  }

  function guarded(
    wanted: Ready,
    request: CallRequest,
    relay: Relay,
    ending: Ending,
    told: OnGate | undefined,
    counted: boolean,
    paused: Passing['paused'],
  ): Promise<Confirmed> | undefined {
    const { policy } = wanted
    return gate && policy?.guarded
      ? guard(gate, wanted, policy, request, relay, ending, told, counted, paused)
      : undefined
  }

  function together(requests: readonly CallRequest[]): JointApproval | undefined {
    return gate?.together(
      requests.flatMap((request) => {
        try {
          const { entry, input, policy } = ready(request)
          return policy?.guarded ? [{ tool: entry.tool, input, caller: request.caller, policy }] : []
        } catch {
          // Its own call says what is wrong.
          return []
        }
      }),
    )
  }

  function runTool(input: unknown, of: ToolRun): Promise<ToolResult> {
    const { tool, relay } = of
    if (relay.task && tool.asTask !== true)
      throw new ProtocolFailure(-32601, `${tool.id} does not run as a task: call it without \`task\``)
    if (tool.origin === 'upstream') return tool.run(input, contexts.relayed(of), relay)
    return contexts.runModule(input, of)
  }

  return {
    check: (request) => ready(request).entry,
    together,
    call: enter,
    history,
    usage,
    load: () => ({
      running: everywhere.running,
      waiting: everywhere.waiting + [...lines].reduce((sum, one) => sum + one.waiting, 0),
    }),
    async drain(graceMs) {
      stopped = true
      await emptied(graceMs)
      endAll()
      await emptied(TOLD_MS)
      // What ended last is answered a turn later.
      await new Promise((resolve) => setImmediate(resolve))
    },
    stop() {
      stopped = true
      endAll()
    },
  }

  async function emptied(ms: number): Promise<void> {
    if (running.places.length === 0) return
    let timer: NodeJS.Timeout | undefined
    await new Promise<void>((resolve) => {
      drained = resolve
      timer = setTimeout(resolve, ms)
    })
    clearTimeout(timer)
  }

  function endAll(): void {
    for (const { value } of [...running.places]) value.abort(shuttingDown())
  }
}

/** Calls that outlast the grace are told so; a tool that does not hear of it gets no longer than this. */
const TOLD_MS = 200

/** Its server wants the client to open a page, and the call again after that. */
const wantsPage = (error: unknown): boolean => isProtocolFailure(error) && error.code === -32042

function refusalOfRun(
  error: unknown,
  run: Run,
  tool: Tool,
  inspection: Inspection | undefined,
  secrets: KnownSecrets | undefined,
  known: (path: string) => string | undefined,
): PegboardError {
  const first = refusal(error, idOf(run), tool.id, known)
  const failure = inspectFailure(first, { wire: undefined, secrets })
  if (!inspection) return failure
  try {
    return inspectFailure(failure, inspection)
  } catch (blocked) {
    return refusal(blocked, idOf(run), tool.id)
  }
}

/** The relay, with questions to the client put `aside` of what bounds the call. */
function asking(relay: Relay, aside: () => () => void, inspected: () => Inspection | undefined): Relay {
  const send = relay.request
  if (!send) return relay
  const put = askInspected(send, (params) => {
    const inspection = inspected()
    return inspection ? inspectQuestion(params, inspection) : params
  })
  // Member by member: spreading costs ten times as much, and every call comes through here.
  const whole: { [Key in keyof Relay]-?: Relay[Key] | undefined } = {
    principal: relay.principal,
    session: relay.session,
    wantsProgress: relay.wantsProgress,
    meta: relay.meta,
    inputResponses: relay.inputResponses,
    resumed: relay.resumed,
    requestState: relay.requestState,
    clientCapabilities: relay.clientCapabilities,
    task: relay.task,
    connection: relay.connection ?? send,
    request: (method, params, signal) => put(method, params, signal).finally(aside()),
    notify: relay.notify,
  }
  return whole as Relay
}

/** Arguments pass what the caller was shown, then what the tool really accepts: a stale client is refused, `run`'s types stay true. */
function parse(entry: ViewTool, input: unknown): unknown {
  const { tool } = entry
  if (entry.input !== tool.input) {
    const shown = entry.input.parse(input)
    if (!shown.ok) throw tool.parse(input).ok ? notOffered(entry, input, shown.issues) : invalid(entry, shown.issues)
  }
  const parsed = tool.parse(input)
  if (!parsed.ok) throw invalid(entry, parsed.issues)
  return parsed.value
}
