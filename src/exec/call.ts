import { randomUUID } from 'node:crypto'
import type { Answer, CallContext, Caller, Question, SentFile, Services } from '../core/context.ts'
import { noOrigin, noServices } from '../core/context.ts'
import { createCountdown } from '../core/countdown.ts'
import { createCrowd } from '../core/crowd.ts'
import { createEnding, type EndedContext, type Ending } from '../core/ending.ts'
import { isPegboardError, PegboardError } from '../core/errors.ts'
import { isProtocolFailure, ProtocolFailure } from '../core/failure.ts'
import { checkArguments } from '../core/guard.ts'
import type { Log } from '../core/log.ts'
import { sizeOf } from '../core/raw.ts'
import type { ToolResult } from '../core/result.ts'
import type { Issue } from '../core/schema.ts'
import { scrub } from '../core/scrub.ts'
import { signatureOf } from '../core/signature.ts'
import { type Capacity, noRelay, type Relay, type Tool } from '../core/tool.ts'
import type { Views, ViewTool } from '../view/view.ts'
import { refusalOf } from '../view/visible.ts'
import { createSlots, type Slots } from './limits.ts'
import type { ExecutionSettings } from './options.ts'

/** One wish to run a tool, whoever has it. */
export interface CallRequest {
  /** Any spelling a view resolves. */
  readonly name: string
  readonly input: unknown
  readonly caller: Caller
  /** Fires when the client no longer wants the answer. */
  readonly signal?: AbortSignal
  /** What ends the run, where whoever calls has one already: aborted on time limit and shutdown too. */
  readonly abort?: Ending
  readonly relay?: Relay
  readonly onProgress?: (done: number, total?: number, message?: string) => void
  /** Calls made by tools inside calls; at most three deep. */
  readonly depth?: number
  /** `setup` steps of the operator's own configuration pass policy and availability. */
  readonly origin?: 'client' | 'setup'
  /** Names a model can call for help, in "not found" answers. Empty when no meta-tool is listed. */
  readonly finders?: readonly string[]
}

export interface Calls {
  /** Runs a tool. @throws PegboardError for every refusal and failure; nothing else ever leaves */
  call(request: CallRequest): Promise<ToolResult>
  /** How often each tool ran successfully; ranking uses it. */
  usage(id: string): number
  /** Refuses new calls and waits for those that run, `graceMs` at most. */
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
  readonly missing?: (name: string) => Promise<boolean>
  /** What modules may use of the host; default nothing. */
  readonly services?: Services
}

const MAX_DEPTH = 3
/** Nothing runs longer, whatever a tool says of itself. */
const MAX_CALL_MS = 600_000
const MISSED: ReadonlySet<string> = new Set(['E_NOT_FOUND', 'E_UPSTREAM_UNAVAILABLE'])

/** A run by its name in the log, which few need. */
interface Run {
  id: string | undefined
}
const idOf = (run: Run): string => {
  run.id ??= randomUUID()
  return run.id
}

/** A context as relayed calls have it. */
interface Relayed extends EndedContext {
  caller: Caller
  tool: Tool
  request: CallRequest
  relay: Relay
  run: Run
  ending: Ending
  depth: number
}

/** The one way to run a tool: resolve, decide, check, run, normalise, record. */
export function createCalls(options: CallsOptions): Calls {
  const { views, settings, log } = options
  const { maxConcurrent, maxQueued } = settings
  const everywhere = createSlots({ maxConcurrent, maxQueued, setting: 'execution.maxQueued' })
  const places = new WeakMap<Capacity, Slots>()
  const counts = new Map<string, number>()
  const running = createCrowd<Ending>()
  let stopped = false
  let drained: (() => void) | undefined

  async function call(request: CallRequest): Promise<ToolResult> {
    if (stopped) throw new PegboardError('E_SHUTTING_DOWN', 'The server is stopping.')
    const depth = request.depth ?? 0
    if (depth > MAX_DEPTH)
      throw new PegboardError('E_LOOP_DETECTED', `Tools called each other more than ${MAX_DEPTH} deep.`)
    const first = found(request)
    // Without a wait, so that calls take their places in the order they came.
    let wanted = first instanceof Promise ? await first : first
    const run: Run = { id: undefined }
    const startedAt = performance.now()
    const abort = request.abort ?? createEnding()
    const cancel = (): void => abort.abort(cancelled())
    if (request.signal?.aborted) cancel()
    else request.signal?.addEventListener('abort', cancel, { once: true })
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
    try {
      let waited = false
      for (const slots of slotsFor(wanted.entry.tool, depth)) {
        const wait = slots.take(abort)
        if (wait) await wait
        held.push(slots)
        waited ||= wait !== undefined
      }
      if (waited) {
        // The operator may have changed their mind meanwhile.
        if (stopped) throw new PegboardError('E_SHUTTING_DOWN', 'The server is stopping.')
        wanted = ready(request)
      }
      if (abort.aborted) throw abort.reason
      const { entry, input } = wanted
      const result = await runTool(
        entry.tool,
        input,
        request,
        asking(request.relay ?? noRelay, aside),
        run,
        abort,
        depth,
      )
      if (result.kind === 'mcp') checkSize(entry.tool, result.result, settings.maxResultBytes)
      counts.set(entry.tool.id, (counts.get(entry.tool.id) ?? 0) + 1)
      if (!log.terse)
        log.debug('call', {
          callId: idOf(run),
          tool: entry.tool.id,
          principal: request.caller.principal,
          ms: Math.round(performance.now() - startedAt),
          outcome: 'ok',
        })
      return result
    } catch (error) {
      const failure = refusal(error, idOf(run), wanted.entry.tool.id)
      log[failure.code === 'E_INTERNAL' ? 'error' : 'debug']('call', {
        callId: run.id,
        tool: wanted.entry.tool.id,
        principal: request.caller.principal,
        ms: Math.round(performance.now() - startedAt),
        outcome: failure.code,
        ...(failure.code === 'E_INTERNAL' ? { error } : {}),
      })
      throw failure
    } finally {
      limit.stop()
      running.leave(place)
      if (running.places.length === 0) drained?.()
      request.signal?.removeEventListener('abort', cancel)
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
    let own = places.get(capacity)
    if (!own) {
      own = createSlots(capacity)
      places.set(capacity, own)
    }
    return depth === 0 ? [own, everywhere] : [own]
  }

  /** The same as `ready`, with a second look at a name nobody knows: its server may have got it since. */
  function found(request: CallRequest): ReturnType<typeof ready> | Promise<ReturnType<typeof ready>> {
    try {
      return ready(request)
    } catch (error) {
      if (!options.missing || !isPegboardError(error) || !MISSED.has(error.code) || request.origin === 'setup')
        throw error
      return options.missing(request.name).then((again) => {
        if (!again) throw error
        return ready(request)
      })
    }
  }

  /** Which tool is meant, and its arguments checked. */
  function ready(request: CallRequest): { readonly entry: ViewTool; readonly input: unknown } {
    const entry = request.origin === 'setup' ? setupTool(request.name) : visibleTool(request)
    const input = request.input ?? {}
    checkArguments(input)
    return { entry, input: parse(entry, input) }
  }

  function visibleTool(request: CallRequest): ViewTool {
    const view = views.viewFor(request.caller)
    const found = view.resolve(request.name)
    if (found.kind === 'found') return found.tool
    if (found.kind === 'ambiguous')
      throw new PegboardError('E_NOT_FOUND', `'${request.name}' could be ${found.candidates.join(' or ')}.`, {
        hint: 'Use one of these full names.',
      })
    if (found.kind === 'hidden') throw refusalOf(found)
    if (found.down) {
      const { id, state, reason } = found.down
      // Never seen, because only a person can open it: waiting would not help.
      if (reason !== undefined && /^it wants (?:a login|authorization|a token)/.test(reason))
        throw new PegboardError('E_AUTH_REQUIRED', `${id}: ${reason}.`)
      throw new PegboardError(
        'E_UPSTREAM_UNAVAILABLE',
        `${id} is ${state}${reason ? ` (${reason})` : ''}, so '${request.name.slice(0, 80)}' is not there.`,
      )
    }
    throw notFound(
      request.name,
      found.suggestions,
      found.sameModule,
      request.finders ?? [],
      view.tools.map((entry) => entry.tool.id),
    )
  }

  function setupTool(name: string): ViewTool {
    const tool = options.anyTool(name)
    if (!tool) throw new PegboardError('E_NOT_FOUND', `Tool '${name}' not found.`)
    return { tool, description: tool.description, input: tool.input }
  }

  function runTool(
    tool: Tool,
    input: unknown,
    request: CallRequest,
    relay: Relay,
    run: Run,
    ending: Ending,
    depth: number,
  ): Promise<ToolResult> {
    if (relay.task && tool.asTask !== true)
      throw new ProtocolFailure(-32601, `${tool.id} does not run as a task: call it without \`task\``)
    if (tool.origin === 'upstream')
      return tool.run(input, relayedContext(tool, request, relay, run, ending, depth), relay)
    const { ctx, files, warnings } = contextFor(tool, request, relay, idOf(run), ending, depth)
    // Upstream calls listen to the signal themselves; a module may be deaf to it.
    return withExtras(raceAbort(tool.run(input, ctx, relay), ctx.signal), files, warnings)
  }

  function contextFor(tool: Tool, request: CallRequest, relay: Relay, callId: string, ending: Ending, depth: number) {
    const files: SentFile[] = []
    const warnings: string[] = []
    const ctx: CallContext = {
      config: undefined,
      caller: request.caller,
      callId,
      origin: noOrigin,
      services: options.services ?? noServices,
      signal: ending.signal,
      // A module's own log is made once by the loader; this one only serves tools that have none.
      log,
      shared: options.shared?.() ?? {},
      progress: (done, total, message) => request.onProgress?.(done, total, message),
      sendFile: (file) => files.push(file),
      warn: (message) => warnings.push(message),
      ask: (question) => ask(tool, request.caller, relay, ending, question),
      call: (id, input) => callInner(id, input, request.caller, relay, ending, depth),
    }
    return { ctx, files, warnings }
  }

  async function ask(tool: Tool, caller: Caller, relay: Relay, ending: Ending, question: Question): Promise<Answer> {
    const send = relay.request
    if (!send || !caller.supports.elicitation)
      throw new PegboardError('E_CANNOT_ASK', `${tool.id} has a question: ${question.message}`)
    return (await send(
      'elicitation/create',
      { mode: 'form', message: question.message, requestedSchema: question.schema },
      ending.signal,
    )) as Answer
  }

  function callInner(id: string, input: unknown, caller: Caller, relay: Relay, ending: Ending, depth: number) {
    return call({ name: id, input, caller, signal: ending.signal, depth: depth + 1, relay })
  }

  // Relayed calls have no use for most of a context: they share what is the same for all, and the rest is made when asked for.
  const relayed: Omit<CallContext, 'caller'> & ThisType<Relayed> = {
    config: undefined,
    origin: noOrigin,
    services: options.services ?? noServices,
    log,
    get callId() {
      return idOf(this.run)
    },
    get signal() {
      return this.ending.signal
    },
    get shared() {
      return options.shared?.() ?? {}
    },
    progress(done, total, message) {
      this.request.onProgress?.(done, total, message)
    },
    sendFile() {},
    warn() {},
    ask(question) {
      return ask(this.tool, this.caller, this.relay, this.ending, question)
    },
    call(id, input) {
      return callInner(id, input, this.caller, this.relay, this.ending, this.depth)
    },
  }

  function relayedContext(
    tool: Tool,
    request: CallRequest,
    relay: Relay,
    run: Run,
    ending: Ending,
    depth: number,
  ): CallContext {
    const ctx = Object.create(relayed) as Relayed
    ctx.caller = request.caller
    ctx.tool = tool
    ctx.request = request
    ctx.relay = relay
    ctx.run = run
    ctx.ending = ending
    ctx.depth = depth
    return ctx
  }

  return {
    call,
    usage: (id) => counts.get(id) ?? 0,
    async drain(graceMs) {
      stopped = true
      if (running.places.length === 0) return
      let timer: NodeJS.Timeout | undefined
      await new Promise<void>((resolve) => {
        drained = resolve
        timer = setTimeout(resolve, graceMs)
      })
      clearTimeout(timer)
      // What ended last is answered a turn later.
      await new Promise((resolve) => setImmediate(resolve))
    },
    stop() {
      stopped = true
      for (const { value } of [...running.places])
        value.abort(new PegboardError('E_SHUTTING_DOWN', 'The server is stopping.'))
    },
  }
}

/** The relay, with questions to the client put `aside` of what bounds the call. */
function asking(relay: Relay, aside: () => () => void): Relay {
  const send = relay.request
  if (!send) return relay
  // Member by member: spreading costs ten times as much, and every call comes through here.
  const whole: { [Key in keyof Relay]-?: Relay[Key] | undefined } = {
    principal: relay.principal,
    wantsProgress: relay.wantsProgress,
    meta: relay.meta,
    inputResponses: relay.inputResponses,
    requestState: relay.requestState,
    clientCapabilities: relay.clientCapabilities,
    task: relay.task,
    connection: relay.connection ?? send,
    request: (method, params, signal) => send(method, params, signal).finally(aside()),
    notify: relay.notify,
  }
  return whole as Relay
}

/** Why a call ends that its client no longer wants. */
export const cancelled = (): PegboardError => new PegboardError('E_CANCELLED', 'The call was cancelled by the client.')

function timedOut({ id, timeoutMs, timeoutSetting }: Tool, after: number): PegboardError {
  const setting = timeoutSetting ?? (timeoutMs === undefined ? 'execution.timeoutMs' : undefined)
  return new PegboardError('E_TIMEOUT', `${id} took longer than ${after} ms.`, {
    hint: setting === undefined || after === MAX_CALL_MS ? 'Ask for less.' : `Ask for less, or raise ${setting}.`,
  })
}

/** A result with what the tool sent beside it. */
async function withExtras(
  work: Promise<ToolResult>,
  files: readonly SentFile[],
  warnings: readonly string[],
): Promise<ToolResult> {
  const result = await work
  if (result.kind !== 'value' || (files.length === 0 && warnings.length === 0)) return result
  return { ...result, files: [...result.files, ...files], warnings: [...result.warnings, ...warnings] }
}

/** @throws PegboardError E_TOO_LARGE */
function checkSize({ id }: Tool, result: object, maxBytes: number): void {
  const bytes = sizeOf(result)
  if (bytes > maxBytes)
    throw new PegboardError('E_TOO_LARGE', `${id} answered with ${bytes} bytes; up to ${maxBytes} are handed on.`, {
      hint: 'Ask for a part, or raise execution.maxResultBytes.',
    })
}

/** Arguments pass what the caller was shown, then what the tool really accepts: a stale client is refused, `run`'s types stay true. */
function parse(entry: ViewTool, input: unknown): unknown {
  const { tool } = entry
  if (entry.input !== tool.input) {
    const shown = entry.input.parse(input)
    if (!shown.ok) throw invalid(entry, shown.issues)
  }
  const parsed = tool.parse(input)
  if (!parsed.ok) throw invalid(entry, parsed.issues)
  return parsed.value
}

function invalid(entry: ViewTool, issues: readonly Issue[]): PegboardError {
  const lines = issues.slice(0, 5).map(({ path, message }) => (path ? `${path}: ${message}` : message))
  return new PegboardError('E_VALIDATION', `Invalid params for ${entry.tool.id}: ${lines.join('; ')}`, {
    hint: `Call ${entry.tool.id}(${signatureOf(entry.input.json)}).`,
  })
}

function notFound(
  name: string,
  suggestions: readonly string[],
  sameModule: readonly string[],
  finders: readonly string[],
  all: readonly string[],
): PegboardError {
  const shown = name.length > 80 ? `${name.slice(0, 80)}…` : name
  const message = `Tool '${shown}' not found.`
  const [first, ...others] = suggestions
  if (first) {
    const also = others.length > 0 ? ` Or ${others.map((id) => `'${id}'`).join(', ')}.` : ''
    return new PegboardError('E_NOT_FOUND', `${message} Did you mean '${first}'?${also}`, {
      hint: `Call it again as '${first}'.`,
    })
  }
  if (sameModule.length > 0)
    return new PegboardError('E_NOT_FOUND', `${message} Near it: ${sameModule.join(', ')}.`, {
      hint: 'Use one of these names.',
    })
  if (finders.length > 0)
    return new PegboardError('E_NOT_FOUND', message, { hint: `Find the right name with ${finders.join(' or ')}.` })
  return new PegboardError('E_NOT_FOUND', `${message} There is: ${all.slice(0, 15).join(', ')}.`, {
    hint: 'Use one of these names.',
  })
}

/** Whatever was thrown, as what a client may read. */
function refusal(error: unknown, callId: string, tool: string): PegboardError {
  const failure = isPegboardError(error) ? error : translated(error, callId, tool)
  failure.correlationId ??= callId
  return failure
}

/** What the author said with a plain Error is told; a bug is not; an upstream's own error stays the cause for whoever relays it. */
function translated(error: unknown, callId: string, tool: string): PegboardError {
  if (isProtocolFailure(error)) {
    const code = error.code === -32602 ? 'E_VALIDATION' : 'E_TOOL_FAILED'
    return new PegboardError(code, `Tool '${tool}' failed: ${scrub(error.message)}`, { cause: error })
  }
  if (isPlain(error))
    return new PegboardError('E_TOOL_FAILED', `Tool '${tool}' failed: ${scrub(error.message)}`, { cause: error })
  const hint = `The operator finds the details in the log under ${callId}.`
  return new PegboardError('E_INTERNAL', `Tool '${tool}' failed: internal error.`, { cause: error, hint })
}

// System errors (ENOENT and the like) carry paths and addresses; subclasses are mostly bugs.
const isPlain = (error: unknown): error is Error =>
  error instanceof Error && error.name === 'Error' && !('code' in error)

function raceAbort<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  if (signal.aborted) {
    work.catch(() => undefined)
    return Promise.reject(signal.reason)
  }
  return new Promise((resolve, reject) => {
    const give = (): void => reject(signal.reason)
    signal.addEventListener('abort', give, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', give))
  })
}
