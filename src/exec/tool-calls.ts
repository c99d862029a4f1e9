import { setMaxListeners } from 'node:events'
import { checkArguments } from '../core/argument-limits.ts'
import { createByteBudget } from '../core/byte-budget.ts'
import type { Caller } from '../core/caller.ts'
import { type Clock, monotonicMs, systemClock } from '../core/clock.ts'
import { createCountdown } from '../core/countdown.ts'
import { isPegboardError, PegboardError, shuttingDown } from '../core/errors.ts'
import { createHeldSlots } from '../core/held-slots.ts'
import type { KnownSecrets } from '../core/known-secrets.ts'
import type { Observer } from '../core/observer-types.ts'
import { isProtocolFailure, ProtocolFailure } from '../core/protocol-failure.ts'
import { knownPaths } from '../core/scrub.ts'
import { createSemaphore, type Semaphore, semaphoreOf } from '../core/semaphore.ts'
import { inspectServerRequests } from '../core/server-requests.ts'
import { ShortLivedMap } from '../core/short-lived-map.ts'
import { noRelay, type Relay, type Tool } from '../core/tool.ts'
import type { ToolLoop } from '../core/tool-loop.ts'
import type { ToolResult } from '../core/tool-result.ts'
import { waitAtMost } from '../core/wait-at-most.ts'
import type { Audit } from '../observe/audit-log.ts'
import type { View, ViewTool } from '../view/view.ts'
import type { Views } from '../view/views.ts'
import { createHiddenError, createUnavailableError } from '../view/visibility.ts'
import type { ApprovalGate, JointApproval, OnGateEvent } from './approval-gate.ts'
import { auditCall, type HiddenTools } from './audited-call.ts'
import { type ContextHost, createCallContexts, idOf, type Run, type ToolRun } from './call-context.ts'
import type { OutputPart } from './call-output.ts'
import type { ExecutionSettings } from './execution-options.ts'
import { explainFailure } from './explain-failure.ts'
import {
  type Inspection,
  type Inspections,
  inspect,
  inspectFailure,
  inspectQuestion,
  secretsIn,
} from './inspect-data.ts'
import { type ApprovedCall, passGate, type ResolvedCall } from './pass-gate.ts'
import type { RecentCalls } from './recent-calls.ts'
import {
  checkResultSize,
  createCancelledError,
  createInvalidArgumentsError,
  createNotFoundError,
  createNotOfferedError,
  createTextLimitError,
  createTimeoutError,
  explainStop,
  findAuthoredFrames,
  MAX_CALL_MS,
  placeOf,
  toPegboardError,
} from './refusals.ts'
import { removeHiddenText, removeHiddenTextFromError } from './remove-hidden-text.ts'
import { traceCall } from './traced-call.ts'
import { createUsage, type Usage } from './usage.ts'

export interface CallRequest {
  /** In any spelling that a view resolves. */
  readonly name: string
  readonly input: unknown
  readonly caller: Caller
  /** Id of the run, for one that may be repeated (default: a new one). */
  readonly callId?: string | undefined
  /** Aborts when the client cancels. */
  readonly signal?: AbortSignal
  /** The signal of the call that makes this one. */
  readonly outerSignal?: AbortSignal
  /** Controller of the run, if the caller has one; also aborted on time limit and shutdown. */
  readonly abort?: AbortController
  readonly relay?: Relay
  /** Called when the tool calls `ctx.background()`. */
  readonly onBackground?: () => void
  readonly onProgress?: (done: number, total?: number, message?: string) => void
  /** The rounds of the conversation that the call belongs to, if Pegboard runs it. */
  readonly loop?: ToolLoop
  /** Its position in the output of the outer call (default: an output of its own). */
  readonly part?: OutputPart
  /** Number of calls around this one, at most three. */
  readonly depth?: number
  /** True for calls of a tool that changes nothing: only tools that read may run. */
  readonly readOnly?: boolean
  /** `setup`: the operator's configuration, which skips policy and availability. `module`: may call internal tools. */
  readonly origin?: 'client' | 'module' | 'setup'
  /** The caller has waited for servers already, so none is started for an unknown name. */
  readonly waited?: boolean
  /** Tools that "not found" errors suggest. Empty if no meta-tool is listed. */
  readonly finders?: readonly string[]
  /** The shared question of calls that run together. */
  readonly approval?: JointApproval | undefined
}

export interface Calls {
  /** Runs a tool. @throws PegboardError for every refusal and failure; nothing else */
  call(request: CallRequest): Promise<ToolResult>
  /**
   * Resolves the name, and checks policy and arguments, as `call` does. Counts no limits and asks for no approval.
   * @throws PegboardError as `call`
   */
  check(request: CallRequest): ResolvedCall
  /** Prepares one question for the requests that need approval. Pass it to each of them as `approval`. */
  combineApprovals(requests: readonly CallRequest[]): JointApproval | undefined
  readonly usage: Usage
  load(): { readonly running: number; readonly waiting: number }
  /** Rejects new calls, and waits up to `graceMs` for running ones, which may still make calls of their own. */
  drain(graceMs: number): Promise<void>
  /** Rejects new calls and aborts running ones. Resolves when their errors are sent. */
  stop(): Promise<void>
}

export interface CallsOptions extends Omit<ContextHost, 'profileOf' | 'call'> {
  readonly views: Views
  /** Any tool, visible or not, for `setup` steps. */
  readonly anyTool: (id: string) => Tool | undefined
  readonly settings: ExecutionSettings
  /** Clock of the time limits (default: the system's). */
  readonly clock?: Clock
  /** Called with an unknown name. Waits for servers; true if a tool may have this name now. */
  readonly awaitTool: (name: string, request: CallRequest) => Promise<boolean>
  readonly gate: ApprovalGate
  readonly audit?: Audit | undefined
  /** For the audit log: finds the tool that a caller named and does not see. */
  readonly hiddenTools: HiddenTools
  readonly observer?: Observer | undefined
  /** Remembers calls for the operator (default: none). */
  readonly recent?: RecentCalls | undefined
  readonly inspections: Inspections
  /** More secrets to remove from errors, such as those in the environment. */
  readonly secrets: () => KnownSecrets | undefined
  /** Folders whose paths errors may contain, because tools work there. */
  readonly roots: () => readonly string[]
  /** Absolute paths of drop-in folders; stack lines there are shown to their authors. */
  readonly dropIns: () => readonly string[]
}

const MAX_DEPTH = 3
/** Text in the arguments of all calls of a principal that run or wait: a call takes several times as much memory. */
const MAX_HELD_TEXT = 64 * 1024 * 1024
/** Arguments that are not counted, because others bound the number of calls. */
const SMALL_TEXT = 4 * 1024
const MISSING_CODES: ReadonlySet<string> = new Set(['E_NOT_FOUND', 'E_UPSTREAM_UNAVAILABLE'])

/** The only way to run a tool: resolve, decide, check, run, normalise, record. */
export function createCalls(options: CallsOptions): Calls {
  const { views, settings, log, gate, audit, hiddenTools, observer, recent, inspections, clock = systemClock } = options
  const { maxConcurrent, maxQueued } = settings
  const globalSemaphore = createSemaphore({ maxConcurrent, maxQueued, setting: 'execution.maxQueued' })
  const textBudget = createByteBudget(MAX_HELD_TEXT)
  const toolSemaphores = new Set<Semaphore>()
  const usage = createUsage()
  const running = new ShortLivedMap<AbortController, true>()
  const recordedCall: typeof call = recent
    ? (request, run = { id: request.callId, tool: undefined }, onGate) =>
        recent.run(request, run, () => call(request, run, onGate))
    : call
  const auditedCall: (request: CallRequest, run?: Run) => Promise<ToolResult> = audit
    ? (request, run) =>
        auditCall(
          { audit, viewOf: ({ caller }) => views.viewFor(caller), hiddenTools, observer },
          request,
          recordedCall,
          run,
        )
    : recordedCall
  const tracedCall: (request: CallRequest) => Promise<ToolResult> = observer
    ? (request) => traceCall(observer, request, auditedCall)
    : auditedCall
  const contexts = createCallContexts({
    ...options,
    profileOf: (caller) => views.viewFor(caller).profile,
    call: tracedCall,
  })
  let stopped = false
  let resolveIdle: (() => void) | undefined

  async function call(
    request: CallRequest,
    run: Run = { id: request.callId, tool: undefined },
    onGate?: OnGateEvent,
  ): Promise<ToolResult> {
    const depth = request.depth ?? 0
    if (stopped && depth === 0) throw shuttingDown()
    if (depth > MAX_DEPTH)
      throw new PegboardError('E_LOOP_DETECTED', `Tools called each other more than ${MAX_DEPTH} deep.`)
    const first = resolveCallOrAwait(request)
    // Not awaited if it is no promise, so that calls queue in the order they arrived.
    let resolved = first instanceof Promise ? await first : first
    run.tool = resolved.entry.tool
    run.size = resolved.size
    const { principal } = request.caller
    const text = depth === 0 && resolved.size > SMALL_TEXT ? resolved.size : 0
    if (text > 0 && !textBudget.hold(principal, text)) throw createTextLimitError()
    const startedAt = monotonicMs()
    const abort = request.abort ?? new AbortController()
    const { signal } = abort
    // A tool may start any number of calls, which all listen to this signal.
    setMaxListeners(0, signal)
    const cancel = (): void => abort.abort(createCancelledError())
    const followed = request.signal ?? request.outerSignal
    const outer = followed === signal ? undefined : followed
    if (outer?.aborted) cancel()
    else outer?.addEventListener('abort', cancel, { once: true })
    const timeoutMs = Math.min(resolved.entry.tool.timeoutMs ?? settings.timeoutMs, MAX_CALL_MS)
    const timeLimit = createCountdown(
      timeoutMs,
      () => abort.abort(createTimeoutError(resolved.entry.tool, timeoutMs)),
      clock,
    )
    running.set(abort, true)
    const heldSlots = createHeldSlots(principal)
    // While a person answers, the call holds no slot and its time limit stands still.
    const pauseCall = (): (() => void) => {
      const [resume, reacquire] = [timeLimit.pause(), heldSlots.pause()]
      return () => {
        resume()
        reacquire()
      }
    }
    const paused = <T>(answer: Promise<T>): Promise<T> => answer.finally(pauseCall())
    let inspection: Inspection | undefined
    const relay = request.relay ? createPausingRelay(request.relay, pauseCall, () => inspection) : noRelay
    let approved: ApprovedCall | undefined
    let hasStarted = false
    try {
      const answer = passGate(gate, resolved, request, relay, signal, onGate, false, paused)
      if (answer) {
        approved = await answer
        // The operator may have changed the policy meanwhile.
        resolved = approved.recheck(resolveCall(request))
      }
      let waited = false
      for (const slots of slotsFor(resolved.entry.tool, depth)) {
        const wait = slots.acquire(signal, principal)
        if (wait) await wait
        heldSlots.add(slots)
        waited ||= wait !== undefined
      }
      if (waited) {
        // The server may have stopped meanwhile.
        if (stopped && depth === 0) throw shuttingDown()
        resolved = approved ? approved.recheck(resolveCall(request)) : resolveCall(request)
        const answer = approved ? undefined : passGate(gate, resolved, request, relay, signal, onGate, true, paused)
        if (answer) {
          approved = await answer
          resolved = approved.recheck(resolveCall(request))
        }
      }
      signal.throwIfAborted()
      const { entry, input, policy } = resolved
      inspection = policy && inspections.of(policy.tripwire(entry.tool), entry.tool.opaque)
      hasStarted = true
      const toolResult = removeHiddenText(
        entry.tool,
        await runTool(input, { tool: entry.tool, request, relay, run, signal, depth, inspection }),
      )
      if (toolResult.kind === 'mcp') checkResultSize(entry.tool, toolResult.result, settings.maxResultBytes)
      if (approved && toolResult.kind === 'input_required') gate.keepApproval(approved.pending)
      const inspected = inspection ? inspect(toolResult, inspection) : toolResult
      const isFailure = inspected.kind === 'mcp' && inspected.result.isError === true
      const explained = isFailure ? explainFailure(inspected.result) : undefined
      run.failure = explained?.class
      const result: ToolResult = explained ? { kind: 'mcp', result: explained.result } : inspected
      if (inspection?.warns && result.kind === 'mcp') {
        const found = secretsIn(result.result)
        if (found.length > 0) {
          run.secrets = found
          log.warn('a result may hold secrets', { tool: entry.tool.id, callId: idOf(run), secrets: found })
        }
      }
      const ms = monotonicMs() - startedAt
      // A call that asks for input is made again.
      if (result.kind !== 'input_required') {
        usage.add(entry.tool.id, request.caller.principal, ms, isFailure ? 'E_TOOL_FAILED' : undefined)
      }
      if (entry.tool.intent !== undefined) views.recordIntent(request.caller, entry.tool.intent)
      if (!log.terse)
        log.debug('call', {
          callId: idOf(run),
          tool: entry.tool.id,
          principal: request.caller.principal,
          ms: Math.round(ms),
          ...(isFailure ? { outcome: 'error', class: run.failure } : { outcome: 'ok' }),
        })
      return result
    } catch (thrown) {
      const error = hasStarted ? explainStop(thrown, resolved.entry.tool) : thrown
      if (approved && wantsPage(error)) gate.keepApproval(approved.pending)
      const pathReplacement = knownPaths(resolved.input, options.roots())
      const failure = toErrorOfRun(error, run, resolved.entry.tool, inspection, options.secrets(), pathReplacement)
      run.failure = failure.class
      const ms = monotonicMs() - startedAt
      usage.add(resolved.entry.tool.id, request.caller.principal, ms, failure.code)
      const authored = failure.code === 'E_INTERNAL' ? findAuthoredFrames(error, options.dropIns()) : undefined
      const at = authored?.at ?? placeOf(error)
      if (authored) run.place = authored.at
      log[failure.code === 'E_INTERNAL' ? 'error' : at === undefined ? 'debug' : 'info']('call', {
        callId: run.id,
        tool: resolved.entry.tool.id,
        principal: request.caller.principal,
        ms: Math.round(ms),
        outcome: failure.code,
        class: failure.class,
        ...(at === undefined ? {} : { at }),
        ...(failure.code === 'E_INTERNAL' ? { error: authored?.error ?? error } : {}),
      })
      throw failure
    } finally {
      timeLimit.stop()
      if (text > 0) textBudget.free(principal, text)
      running.delete(abort)
      if (running.size === 0) resolveIdle?.()
      outer?.removeEventListener('abort', cancel)
      heldSlots.release()
    }
  }

  /**
   * The limits that a call must pass, in this order: calls that wait for one server must not block others. Inner calls
   * use the slot of the outer one, because calls that wait for each other would deadlock.
   */
  function slotsFor({ capacity }: Tool, depth: number): readonly Semaphore[] {
    if (!capacity) return depth === 0 ? [globalSemaphore] : []
    const toolSemaphore = semaphoreOf(capacity)
    toolSemaphores.add(toolSemaphore)
    return depth === 0 ? [toolSemaphore, globalSemaphore] : [toolSemaphore]
  }

  /** Resolves an unknown name again after its server was read. */
  function resolveCallOrAwait(request: CallRequest): ResolvedCall | Promise<ResolvedCall> {
    try {
      return resolveCall(request)
    } catch (error) {
      const mayAppear =
        isPegboardError(error) && MISSING_CODES.has(error.code) && request.origin !== 'setup' && !request.waited
      if (!mayAppear) throw error
      return options.awaitTool(request.name, request).then((mayExist) => {
        if (!mayExist) throw error
        return resolveCall(request)
      })
    }
  }

  function resolveCall(request: CallRequest): ResolvedCall {
    const view = request.origin === 'setup' ? undefined : views.viewFor(request.caller)
    const entry = view ? visibleTool(request, view) : setupTool(request.name)
    const rawInput = request.input ?? {}
    const size = checkArguments(rawInput)
    if (request.readOnly && entry.tool.effect !== 'read')
      throw new PegboardError('E_READ_ONLY_CONTRACT', `A read-only tool may not call ${entry.tool.id}.`)
    const input = parse(entry, rawInput)
    const policy = view?.policy
    const approvalRule = policy && gate.check({ tool: entry.tool, input, caller: request.caller, policy })
    return { entry, input, size, policy, approvalRule }
  }

  function visibleTool(request: CallRequest, view: View): ViewTool {
    const inner = request.origin === 'module' ? view.findInternal(request.name) : undefined
    if (inner) return inner
    const found = view.resolve(request.name)
    if (found.kind === 'found') return found.tool
    if (found.kind === 'hidden') throw createHiddenError(found)
    if (found.kind === 'unknown' && found.down) throw createUnavailableError(found.down, request.name)
    const missing =
      found.kind === 'ambiguous'
        ? new PegboardError('E_NOT_FOUND', `'${request.name}' could be ${found.candidates.join(' or ')}.`, {
            hint: 'Use one of these full names.',
          })
        : createNotFoundError(
            request.name,
            found,
            request.finders ?? [],
            view.tools.map((entry) => entry.tool.id),
          )
    missing.unknownTool = request.name
    throw missing
  }

  function setupTool(name: string): ViewTool {
    const tool = options.anyTool(name)
    if (!tool) throw new PegboardError('E_NOT_FOUND', `Tool '${name}' not found.`)
    return { tool, description: tool.description, input: tool.input }
  }

  function combineApprovals(requests: readonly CallRequest[]): JointApproval | undefined {
    return gate.combineApprovals(
      requests.flatMap((request) => {
        try {
          const { entry, input, approvalRule: rule } = resolveCall(request)
          return rule ? [{ tool: entry.tool, input, caller: request.caller, rule }] : []
        } catch {
          // The call itself reports the error.
          return []
        }
      }),
    )
  }

  function runTool(input: unknown, toolRun: ToolRun): Promise<ToolResult> {
    const { tool, relay } = toolRun
    if (relay.task && tool.asTask !== true)
      throw new ProtocolFailure(-32601, `${tool.id} does not run as a task: call it without \`task\``)
    if (tool.origin === 'upstream') return tool.run(input, contexts.relayedContext(toolRun), relay)
    return contexts.runModule(input, toolRun)
  }

  return {
    check: resolveCall,
    combineApprovals,
    call: tracedCall,
    usage,
    load: () => ({
      running: globalSemaphore.running,
      waiting: globalSemaphore.waiting + [...toolSemaphores].reduce((sum, one) => sum + one.waiting, 0),
    }),
    async drain(graceMs) {
      stopped = true
      await waitUntilIdle(graceMs)
    },
    async stop() {
      stopped = true
      for (const abort of running.keys()) abort.abort(shuttingDown())
      await waitUntilIdle(ABORT_GRACE_MS)
      // The results of calls that ended last are sent one turn later.
      await new Promise((resolve) => setImmediate(resolve))
    },
  }

  async function waitUntilIdle(ms: number): Promise<void> {
    if (running.size === 0) return
    const ended = new Promise<void>((resolve) => {
      resolveIdle = resolve
    })
    await waitAtMost(ms, ended)
  }
}

/** Time for a tool to react after the grace period. */
const ABORT_GRACE_MS = 200

/** True if the server wants the client to open a page and to repeat the call. */
const wantsPage = (error: unknown): boolean => isProtocolFailure(error) && error.code === -32042

function toErrorOfRun(
  error: unknown,
  run: Run,
  tool: Tool,
  inspection: Inspection | undefined,
  secrets: KnownSecrets | undefined,
  pathReplacement: (path: string) => string | undefined,
): PegboardError {
  const first = removeHiddenTextFromError(tool, toPegboardError(error, idOf(run), tool.id, pathReplacement))
  const failure = inspectFailure(first, { tripwire: undefined, secrets })
  if (!inspection) return failure
  try {
    return inspectFailure(failure, inspection)
  } catch (blocked) {
    return toPegboardError(blocked, idOf(run), tool.id)
  }
}

/** A relay that stops the time limit during questions to the client. */
function createPausingRelay(
  relay: Relay,
  pauseCall: () => () => void,
  getInspection: () => Inspection | undefined,
): Relay {
  const send = relay.request
  if (!send) return relay
  const sendInspected = inspectServerRequests(send, (params) => {
    const inspection = getInspection()
    return inspection ? inspectQuestion(params, inspection) : params
  })
  // Copies member by member, because spreading takes ten times as long and every call runs this.
  const copy: { [Key in keyof Relay]-?: Relay[Key] | undefined } = {
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
    request: (method, params, signal) => sendInspected(method, params, signal).finally(pauseCall()),
    notify: relay.notify,
  }
  return copy as Relay
}

/**
 * Arguments must fit the schema that the caller saw, then that of the tool: a client with an old schema gets an error,
 * and `run` gets what its types say.
 */
function parse(entry: ViewTool, input: unknown): unknown {
  const { tool } = entry
  if (entry.input !== tool.input) {
    const listedInput = entry.input.parse(input)
    if (!listedInput.ok)
      throw tool.parse(input).ok
        ? createNotOfferedError(entry, input, listedInput.issues)
        : createInvalidArgumentsError(entry, listedInput.issues)
  }
  const parsed = tool.parse(input)
  if (!parsed.ok) throw createInvalidArgumentsError(entry, parsed.issues)
  return parsed.value
}
