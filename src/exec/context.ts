import { randomUUID } from 'node:crypto'
import {
  type Answer,
  type CallContext,
  type Caller,
  originOf,
  type Question,
  type ServicesFor,
} from '../core/context.ts'
import { type EndedContext, type Ending, offEnd, onEnd } from '../core/ending.ts'
import { PegboardError } from '../core/errors.ts'
import type { Fetch } from '../core/fetch.ts'
import type { Log } from '../core/log.ts'
import type { Profile } from '../core/profile.ts'
import type { ToolResult } from '../core/result.ts'
import type { Relay, Tool } from '../core/tool.ts'
import type { CallRequest } from './call.ts'
import { type Inspection, inspectFile, inspectValue } from './inspect.ts'
import { createOutput, notInjectable, type Part } from './output.ts'
import { readOnlyContext } from './read-only.ts'

/** What contexts are made of. */
export interface ContextHost {
  readonly servicesFor: ServicesFor
  /** Told at the end of a client's call which tools it wants at hand; answers with those nobody knows. */
  readonly onInjected?: ((caller: Caller, names: readonly string[]) => readonly string[]) | undefined
  readonly fetch: Fetch
  readonly log: Log
  shared(): Readonly<Record<string, unknown>>
  profileOf(caller: Caller): Profile
  call(request: CallRequest): Promise<ToolResult>
}

/** A run by its name in the log, which few need. */
export interface Run {
  id: string | undefined
  /** Which tool it is of, once that is known. */
  tool: Tool | undefined
  /** What kinds of secrets its result may hold, where the tripwire is to warn. */
  secrets?: readonly string[]
}
export const idOf = (run: Pick<Run, 'id'>): string => {
  run.id ??= randomUUID()
  return run.id
}

/** One run of a tool, and what comes with it. */
export interface ToolRun {
  readonly tool: Tool
  readonly request: CallRequest
  readonly relay: Relay
  readonly run: Run
  readonly ending: Ending
  readonly depth: number
  readonly inspection: Inspection | undefined
}

type Writable<T> = { -readonly [Key in keyof T]: T[Key] }

/** A context as relayed calls have it. */
type Relayed = EndedContext & ToolRun & { readonly caller: Caller }

export interface Contexts {
  /** Runs a module's tool, with what it sends and warns of beside its result. */
  runModule(input: unknown, of: ToolRun): Promise<ToolResult>
  /** The context of a call that is handed on. */
  relayed(of: ToolRun): CallContext
}

/** Makes what `run` receives. */
export function createContexts(host: ContextHost): Contexts {
  function contextFor(of: ToolRun, part: Part) {
    const { tool, request, relay, ending, inspection } = of
    const readOnly = tool.readOnly === true || request.readOnly === true
    const warnings: string[] = []
    const { caller } = request
    const { module } = tool
    const loop = request.loop ?? null
    const profile = host.profileOf(caller)
    const ctx: CallContext = {
      config: undefined,
      caller,
      profile,
      callId: idOf(of.run),
      setup: request.origin === 'setup',
      origin: originOf(caller, profile),
      services: host.servicesFor({ module, caller, profile, relay, ending, loop }),
      loop,
      signal: ending.signal,
      // A module's own log is made once by the loader; this one only serves tools that have none.
      log: host.log,
      shared: host.shared(),
      fetch: host.fetch,
      sentFiles: part.output.files,
      injectedTools: part.output.injected,
      progress: (done, total, message) =>
        request.onProgress?.(done, total, inspection ? inspectValue(message, inspection) : message),
      // All that is sent is shared with the calls around this one: it has to be fit for that at once.
      sendFile: inspection
        ? (file) => part.sendFile(file, (one) => inspectFile(one, inspection))
        : (file) => part.sendFile(file),
      injectTool: part.injectTool,
      warn: (message) => warnings.push(message),
      background: () => request.onBackground?.(),
      ask: (question) => ask(of, question),
      call: (id, input) => callInner(id, input, of, part, readOnly),
    }
    return { ctx, warnings }
  }

  function callInner(id: string, input: unknown, of: ToolRun, part: Part | undefined, readOnly = false) {
    const { request, relay, ending, depth } = of
    const { caller, loop } = request
    return host.call({
      name: id,
      input,
      caller,
      origin: 'module',
      within: ending,
      depth: depth + 1,
      relay,
      ...(readOnly ? { readOnly } : {}),
      ...(loop === undefined ? {} : { loop }),
      ...(part === undefined ? {} : { part: part.output.part() }),
    })
  }

  // Relayed calls have no use for most of a context: they share what is the same for all, and the rest is made when asked for.
  const relayed: Omit<CallContext, 'caller'> & ThisType<Relayed> = {
    config: undefined,
    get setup() {
      return this.request.origin === 'setup'
    },
    get profile() {
      return host.profileOf(this.caller)
    },
    get origin() {
      return originOf(this.caller, host.profileOf(this.caller))
    },
    get services() {
      const { tool, caller, profile, relay, ending, request } = this as unknown as Relayed & CallContext
      return host.servicesFor({ module: tool.module, caller, profile, relay, ending, loop: request.loop ?? null })
    },
    get loop() {
      return this.request.loop ?? null
    },
    fetch: host.fetch,
    sentFiles: [],
    injectedTools: [],
    log: host.log,
    get callId() {
      return idOf(this.run)
    },
    get signal() {
      return this.ending.signal
    },
    get shared() {
      return host.shared()
    },
    progress(done, total, message) {
      this.request.onProgress?.(done, total, sayable(message, this.inspection))
    },
    sendFile() {},
    injectTool() {},
    warn() {},
    background() {},
    ask(question) {
      return ask(this, question)
    },
    call(id, input) {
      const { part, readOnly } = this.request
      return callInner(id, input, this, part, readOnly)
    },
  }

  function relayedContext(of: ToolRun): CallContext {
    const ctx: Writable<Relayed> = Object.create(relayed)
    ctx.inspection = of.inspection
    ctx.caller = of.request.caller
    ctx.tool = of.tool
    ctx.request = of.request
    ctx.relay = of.relay
    ctx.run = of.run
    ctx.ending = of.ending
    ctx.depth = of.depth
    return ctx
  }

  /** A result with what the tool sent beside it: the client's own call has what all inner ones sent. */
  async function withExtras(
    work: Promise<ToolResult>,
    { caller, part: given }: CallRequest,
    { output, index }: Part,
    warnings: string[],
  ): Promise<ToolResult> {
    const result = await work
    if (given === undefined && output.injected.length > 0)
      for (const name of host.onInjected?.(caller, output.injected) ?? []) warnings.push(notInjectable(name))
    if (result.kind !== 'value' || (output.files.length === 0 && warnings.length === 0)) return result
    const files = given === undefined ? output.files : output.files.filter(({ callIndex }) => callIndex === index)
    return { ...result, files: [...result.files, ...files], warnings: [...result.warnings, ...warnings] }
  }

  return {
    runModule(input, of) {
      const { tool, request, relay, ending } = of
      // Upstream calls listen to the signal themselves; a module may be deaf to it.
      if (tool.takesContext?.() === false) return raceEnd(tool.run(input, relayedContext(of), relay), ending)
      const part = request.part ?? createOutput().part()
      const { ctx, warnings } = contextFor(of, part)
      const handed = tool.readOnly ? readOnlyContext(ctx, tool) : ctx
      return withExtras(raceEnd(tool.run(input, handed, relay), ending), request, part, warnings)
    },
    relayed: relayedContext,
  }
}

/** Asks the person behind the client. @throws PegboardError E_CANNOT_ASK */
async function ask({ tool, request: { caller }, relay, ending }: ToolRun, question: Question): Promise<Answer> {
  const send = relay.request
  if (!send || !caller.supports.elicitation)
    throw new PegboardError('E_CANNOT_ASK', `${tool.id} has a question: ${question.message}`)
  return (await send(
    'elicitation/create',
    { mode: 'form', message: question.message, requestedSchema: question.schema },
    ending.signal,
  )) as Answer
}

function raceEnd<T>(work: Promise<T>, ending: Ending): Promise<T> {
  if (ending.aborted) {
    work.catch(() => undefined)
    return Promise.reject(ending.reason)
  }
  return new Promise((resolve, reject) => {
    const give = (): void => reject(ending.reason)
    onEnd(ending, give)
    work.then(resolve, reject).finally(() => offEnd(ending, give))
  })
}

/** What a server says on the way, or nothing where it must not be said: its call goes on. */
function sayable(message: string | undefined, inspection: Inspection | undefined): string | undefined {
  if (!inspection || message === undefined) return message
  try {
    return inspectValue(message, inspection)
  } catch {
    return undefined
  }
}
