import type { Caller } from '../core/caller.ts'
import { type Clock, monotonicMs, systemClock } from '../core/clock.ts'
import { PegboardError } from '../core/errors.ts'
import type { KnownSecrets } from '../core/known-secrets.ts'
import type { Observer } from '../core/observer-types.ts'
import { isProtocolFailure, ProtocolFailure } from '../core/protocol-failure.ts'
import { knownPaths } from '../core/scrub.ts'
import { inspectServerRequests } from '../core/server-requests.ts'
import { noRelay, type Relay, type Tool } from '../core/tool.ts'
import type { ToolLoop } from '../core/tool-loop.ts'
import { isFailedResult, type McpResult, type ToolResult } from '../core/tool-result.ts'
import type { Audit } from '../observe/audit-log.ts'
import type { JointApproval, OnGateEvent } from './approval-gate.ts'
import { auditCall, type HiddenTools } from './audited-call.ts'
import { type ContextHost, createCallContexts, idOf, type Run } from './call-context.ts'
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
import type { RecentCalls } from './recent-calls.ts'
import { checkResultSize, explainStop, findAuthoredFrames, placeOf, toPegboardError } from './refusals.ts'
import { removeHiddenText, removeHiddenTextFromError } from './remove-hidden-text.ts'
import { checkUnchanged, createCallResolver, type ResolvedCall, type ResolverOptions } from './resolve-call.ts'
import { type CallResources, createRunningCalls, type RunningCalls } from './running-calls.ts'
import { traceCall } from './traced-call.ts'
import { createUsage, type Usage } from './usage.ts'

export interface CallRequest {
  /** Name of the tool, in any spelling that a view resolves. */
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
  /** The call's part of the output of the outer call (default: an output of its own). */
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

export interface Calls extends Pick<RunningCalls, 'load' | 'drain' | 'stop'> {
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
}

export interface CallsOptions extends Omit<ContextHost, 'profileOf' | 'call'>, ResolverOptions {
  readonly settings: ExecutionSettings
  /** Clock of the time limits (default: the system's). */
  readonly clock?: Clock
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

type CallInRun = (request: CallRequest, run: Run) => Promise<ToolResult>

/** A call from its resolution to its end. */
interface ActiveCall {
  readonly request: CallRequest
  readonly run: Run
  readonly onGate: OnGateEvent | undefined
  readonly startedAt: number
  readonly resources: CallResources
  /** Asks the client; the call is paused meanwhile. */
  readonly relay: Relay
  /** The call with the current tool and policy: the operator may change them while it waits. */
  resolved: ResolvedCall
  /** The call that a person approved, now or before its client repeated it. */
  approved: ResolvedCall | undefined
  /** True if the person approved it before the client repeated it. Such an approval is not kept again. */
  approvedBefore: boolean
  inspection: Inspection | undefined
  hasStarted: boolean
}

/** Creates the only function that runs tools. */
export function createCalls(options: CallsOptions): Calls {
  const { views, settings, log, gate, audit, hiddenTools, observer, recent, inspections, clock = systemClock } = options
  const { resolve, resolveOrAwait } = createCallResolver(options)
  const runningCalls = createRunningCalls(settings, clock)
  const usage = createUsage()
  const recordedCall: typeof call = recent
    ? (request, run, onGate) => recent.run(request, run, () => call(request, run, onGate))
    : call
  const auditedCall: CallInRun = audit
    ? (request, run) => {
        const host = { audit, viewOf: ({ caller }: CallRequest) => views.viewFor(caller), hiddenTools, observer }
        return auditCall(host, request, run, recordedCall)
      }
    : recordedCall
  const tracedCall: CallInRun = observer
    ? (request, run) => traceCall(observer, request, run, auditedCall)
    : auditedCall
  const callTool = (request: CallRequest): Promise<ToolResult> =>
    tracedCall(request, { id: request.callId, tool: undefined })
  const contexts = createCallContexts({
    ...options,
    profileOf: (caller) => views.viewFor(caller).profile,
    call: callTool,
  })

  async function call(request: CallRequest, run: Run, onGate?: OnGateEvent): Promise<ToolResult> {
    runningCalls.checkAccepted(request)
    checkDepth(request)
    const resolving = resolveOrAwait(request)
    // Not awaited if it is no promise, so that calls queue in the order they arrived.
    const resolved = resolving instanceof Promise ? await resolving : resolving
    const active = startCall(request, resolved, run, onGate)
    try {
      countCall(active)
      const approval = askForApproval(active)
      if (approval) await approval
      const hasWaited = await active.resources.takeSlots(active.resolved.entry.tool)
      if (hasWaited) await checkAgain(active)
      const result = inspectResult(active, await runTool(active))
      recordResult(active, result)
      return result
    } catch (error) {
      throw recordFailure(active, error)
    } finally {
      active.resources.release()
    }
  }

  function startCall(
    request: CallRequest,
    resolved: ResolvedCall,
    run: Run,
    onGate: OnGateEvent | undefined,
  ): ActiveCall {
    const { tool } = resolved.entry
    run.tool = tool
    run.size = resolved.size
    const resources = runningCalls.start(request, tool, resolved.size)
    const active: ActiveCall = {
      request,
      run,
      onGate,
      startedAt: monotonicMs(),
      resources,
      relay: request.relay ? createPausingRelay(request.relay, resources.pause, () => active.inspection) : noRelay,
      resolved,
      approved: undefined,
      approvedBefore: false,
      inspection: undefined,
      hasStarted: false,
    }
    return active
  }

  /** Counts the call against its rate limits. @throws PegboardError E_RATE_LIMITED */
  function countCall({ request: { caller }, resolved: { entry, input, policy }, onGate }: ActiveCall): void {
    if (policy) gate.count({ tool: entry.tool, input, caller, policy }, onGate)
  }

  /** Returns `undefined` if the call needs no approval, or has one. @throws PegboardError */
  function askForApproval(active: ActiveCall): Promise<void> | undefined {
    const { request, resolved, relay, resources, onGate } = active
    const { entry, input, policy, approvalRule } = resolved
    if (!policy || !approvalRule || active.approved) return undefined
    const { caller, approval } = request
    const paused = <T>(answer: Promise<T>): Promise<T> => answer.finally(resources.pause())
    const answer = gate.ask(
      { tool: entry.tool, input, caller, policy, relay, signal: resources.signal, approval, paused },
      approvalRule,
      onGate,
    )
    if (!answer) {
      active.approved = resolved
      active.approvedBefore = true
      return undefined
    }
    return answer.then(() => {
      active.approved = resolved
      resolveAgain(active)
    })
  }

  function resolveAgain(active: ActiveCall): void {
    const current = resolve(active.request)
    if (active.approved) checkUnchanged(active.approved, current)
    active.resolved = current
  }

  /** For a call that has waited for its slots: meanwhile, the server may have stopped, and the policy may have changed. */
  async function checkAgain(active: ActiveCall): Promise<void> {
    runningCalls.checkAccepted(active.request)
    resolveAgain(active)
    await askForApproval(active)
  }

  function runTool(active: ActiveCall): Promise<ToolResult> {
    const { request, relay, run, resolved } = active
    const { input, policy } = resolved
    const { tool } = resolved.entry
    const { signal } = active.resources
    signal.throwIfAborted()
    active.inspection = policy && inspections.of(policy.tripwire(tool), tool.opaque)
    active.hasStarted = true
    if (relay.task && tool.asTask !== true)
      throw new ProtocolFailure(-32601, `${tool.id} does not run as a task: call it without \`task\``)
    const toolRun = { tool, request, relay, run, signal, depth: request.depth ?? 0, inspection: active.inspection }
    if (tool.origin === 'upstream') return tool.run(input, contexts.relayedContext(toolRun), relay)
    return contexts.runModule(input, toolRun)
  }

  /** The result as the client may see it. @throws PegboardError E_TOO_LARGE, E_SECRET_BLOCKED */
  function inspectResult(active: ActiveCall, toolResult: ToolResult): ToolResult {
    const { tool } = active.resolved.entry
    const visible = removeHiddenText(tool, toolResult)
    if (visible.kind === 'mcp') checkResultSize(tool, visible.result, settings.maxResultBytes)
    if (visible.kind === 'input_required') keepApproval(active)
    const inspected = active.inspection ? inspect(visible, active.inspection) : visible
    if (inspected.kind !== 'mcp' || inspected.result.isError !== true) return inspected
    const explained = explainFailure(inspected.result)
    active.run.failure = explained.class
    return { kind: 'mcp', result: explained.result }
  }

  /** Keeps the approval for a client that repeats the call with an answer for the server. */
  function keepApproval({ request: { caller }, approved, approvedBefore }: ActiveCall): void {
    if (approved && !approvedBefore) gate.keepApproval({ tool: approved.entry.tool, input: approved.input, caller })
  }

  function recordResult(active: ActiveCall, result: ToolResult): void {
    const { run, startedAt } = active
    const { tool } = active.resolved.entry
    const { caller } = active.request
    if (active.inspection?.warns && result.kind === 'mcp') warnOfSecrets(run, tool, result.result)
    const ms = monotonicMs() - startedAt
    const hasFailed = isFailedResult(result)
    // A call that asks for input is made again.
    if (result.kind !== 'input_required')
      usage.add(tool.id, caller.principal, ms, hasFailed ? 'E_TOOL_FAILED' : undefined)
    if (tool.intent !== undefined) views.recordIntent(caller, tool.intent)
    if (log.terse) return
    log.debug('call', {
      callId: idOf(run),
      tool: tool.id,
      principal: caller.principal,
      ms: Math.round(ms),
      ...(hasFailed ? { outcome: 'error', class: run.failure } : { outcome: 'ok' }),
    })
  }

  function warnOfSecrets(run: Run, tool: Tool, result: McpResult): void {
    const secrets = secretsIn(result)
    if (secrets.length === 0) return
    run.secrets = secrets
    log.warn('a result may hold secrets', { tool: tool.id, callId: idOf(run), secrets })
  }

  /** Returns the error as the client may see it. */
  function recordFailure(active: ActiveCall, thrown: unknown): PegboardError {
    const { request, run, hasStarted, startedAt } = active
    const { tool } = active.resolved.entry
    const error = hasStarted ? explainStop(thrown, tool) : thrown
    if (wantsPage(error)) keepApproval(active)
    const failure = inspectError(active, error)
    run.failure = failure.class
    const ms = monotonicMs() - startedAt
    usage.add(tool.id, request.caller.principal, ms, failure.code)
    logFailure(active, failure, error, ms)
    return failure
  }

  function inspectError({ run, resolved, inspection }: ActiveCall, error: unknown): PegboardError {
    const { tool } = resolved.entry
    const ownError = toPegboardError(error, idOf(run), tool.id, knownPaths(resolved.input, options.roots()))
    const visible = removeHiddenTextFromError(tool, ownError)
    const failure = inspectFailure(visible, { tripwire: undefined, secrets: options.secrets() })
    if (!inspection) return failure
    try {
      return inspectFailure(failure, inspection)
    } catch (blocked) {
      return toPegboardError(blocked, idOf(run), tool.id)
    }
  }

  function logFailure(
    { request, run, resolved }: ActiveCall,
    failure: PegboardError,
    error: unknown,
    ms: number,
  ): void {
    const isBug = failure.code === 'E_INTERNAL'
    const authored = isBug ? findAuthoredFrames(error, options.dropIns()) : undefined
    if (authored) run.place = authored.at
    const at = authored?.at ?? placeOf(error)
    let level: 'error' | 'info' | 'debug' = at === undefined ? 'debug' : 'info'
    if (isBug) level = 'error'
    log[level]('call', {
      callId: run.id,
      tool: resolved.entry.tool.id,
      principal: request.caller.principal,
      ms: Math.round(ms),
      outcome: failure.code,
      class: failure.class,
      ...(at === undefined ? {} : { at }),
      ...(isBug ? { error: authored?.error ?? error } : {}),
    })
  }

  function combineApprovals(requests: readonly CallRequest[]): JointApproval | undefined {
    return gate.combineApprovals(
      requests.flatMap((request) => {
        try {
          const { entry, input, approvalRule: rule } = resolve(request)
          return rule ? [{ tool: entry.tool, input, caller: request.caller, rule }] : []
        } catch {
          // The call itself reports the error.
          return []
        }
      }),
    )
  }

  const { load, drain, stop } = runningCalls
  return { check: resolve, combineApprovals, call: callTool, usage, load, drain, stop }
}

function checkDepth({ depth = 0 }: CallRequest): void {
  if (depth > MAX_DEPTH)
    throw new PegboardError('E_LOOP_DETECTED', `Tools called each other more than ${MAX_DEPTH} deep.`)
}

/** True if the server wants the client to open a page and to repeat the call. */
const wantsPage = (error: unknown): boolean => isProtocolFailure(error) && error.code === -32042

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
