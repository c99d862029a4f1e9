import { randomUUID } from 'node:crypto'
import { raceAbort } from '../core/abort.ts'
import {
  type Answer,
  type CallContext,
  type Caller,
  originOf,
  type Question,
  type ServicesFor,
} from '../core/caller.ts'
import { PegboardError } from '../core/errors.ts'
import type { FailureClass } from '../core/failure-class.ts'
import type { Fetch } from '../core/fetch-types.ts'
import type { Log } from '../core/log.ts'
import type { Profile } from '../core/profile.ts'
import type { Relay, Tool } from '../core/tool.ts'
import type { ToolResult } from '../core/tool-result.ts'
import { createOutput, notInjectable, type OutputPart } from './call-output.ts'
import { type Inspection, inspectFile, inspectValue } from './inspect-data.ts'
import { readOnlyContext } from './read-only-context.ts'
import type { CallRequest } from './tool-calls.ts'

export interface ContextHost {
  readonly servicesFor: ServicesFor
  /** Called at the end of a client's call with the names of the tools that it injected. Returns the unknown names. */
  readonly onInjected: (caller: Caller, names: readonly string[]) => readonly string[]
  readonly fetch: Fetch
  readonly log: Log
  shared(): Readonly<Record<string, unknown>>
  profileOf(caller: Caller): Profile
  call(request: CallRequest): Promise<ToolResult>
}

/** What is known about one run of a tool. Filled while the tool runs; `idOf` creates the id. */
export interface Run {
  id: string | undefined
  /** Set when the tool is known. */
  tool: Tool | undefined
  /** Kinds of secrets in the result, if the tripwire only warns. */
  secrets?: readonly string[]
  failure?: FailureClass | undefined
  /** Number of characters of text in the arguments, once they were checked. */
  size?: number
  /** File and line where it failed, if a drop-in has a bug. */
  place?: string
}
export const idOf = (run: Pick<Run, 'id'>): string => {
  run.id ??= randomUUID()
  return run.id
}

export interface ToolRun {
  readonly tool: Tool
  readonly request: CallRequest
  readonly relay: Relay
  readonly run: Run
  readonly signal: AbortSignal
  readonly depth: number
  readonly inspection: Inspection | undefined
}

export function createCallContexts(host: ContextHost) {
  function contextFor(toolRun: ToolRun, part: OutputPart) {
    const { tool, request, relay, signal, inspection } = toolRun
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
      callId: idOf(toolRun.run),
      setup: request.origin === 'setup',
      origin: originOf(caller, profile),
      services: host.servicesFor({ module, caller, profile, relay, signal, loop }),
      loop,
      signal,
      // The loader gives modules a log of their own; this one is for tools without a module.
      log: host.log,
      shared: host.shared(),
      fetch: host.fetch,
      sentFiles: part.output.files,
      injectedTools: part.output.injected,
      progress: (done, total, message) =>
        request.onProgress?.(done, total, inspection ? inspectValue(message, inspection) : message),
      // Files are shared with the calls around this one, so inspect them now.
      sendFile: inspection
        ? (file) => part.sendFile(file, (one) => inspectFile(one, inspection))
        : (file) => part.sendFile(file),
      injectTool: part.injectTool,
      warn: (message) => warnings.push(message),
      background: () => request.onBackground?.(),
      ask: (question) => ask(toolRun, question),
      call: (id, input) => callInner(id, input, toolRun, part, readOnly),
    }
    return { ctx, warnings }
  }

  function callInner(id: string, input: unknown, toolRun: ToolRun, part: OutputPart, readOnly: boolean) {
    const { request, relay, signal, depth } = toolRun
    const { caller, loop } = request
    return host.call({
      name: id,
      input,
      caller,
      origin: 'module',
      outerSignal: signal,
      depth: depth + 1,
      relay,
      ...(readOnly ? { readOnly } : {}),
      ...(loop === undefined ? {} : { loop }),
      part: part.output.part(),
    })
  }

  /** The context of a call that is relayed to a server. */
  function relayedContext(toolRun: ToolRun): CallContext {
    const { request, inspection } = toolRun
    const { ctx } = contextFor(toolRun, request.part ?? createOutput().part())
    return {
      ...ctx,
      progress: (done, total, message) => request.onProgress?.(done, total, inspectMessage(message, inspection)),
    }
  }

  /** Adds what the tool sent to its result. The client's own call gets the files of all inner calls. */
  async function addOutput(
    work: Promise<ToolResult>,
    { caller, part: outerPart }: CallRequest,
    { output, index }: OutputPart,
    warnings: string[],
  ): Promise<ToolResult> {
    const result = await work
    if (outerPart === undefined && output.injected.length > 0)
      for (const name of host.onInjected(caller, output.injected)) warnings.push(notInjectable(name))
    if (result.kind !== 'value' || (output.files.length === 0 && warnings.length === 0)) return result
    const files = outerPart === undefined ? output.files : output.files.filter(({ callIndex }) => callIndex === index)
    return { ...result, files: [...result.files, ...files], warnings: [...result.warnings, ...warnings] }
  }

  return {
    /** Runs a tool of a module, and adds its files and warnings to the result. */
    runModule(input: unknown, toolRun: ToolRun): Promise<ToolResult> {
      const { tool, request, relay, signal } = toolRun
      // Upstream calls listen to the signal; modules may ignore it.
      if (tool.takesContext?.() === false) return raceAbort(tool.run(input, relayedContext(toolRun), relay), signal)
      const part = request.part ?? createOutput().part()
      const { ctx, warnings } = contextFor(toolRun, part)
      const moduleContext = tool.readOnly ? readOnlyContext(ctx, tool) : ctx
      return addOutput(raceAbort(tool.run(input, moduleContext, relay), signal), request, part, warnings)
    },
    relayedContext,
  }
}

/** Asks the person behind the client. @throws PegboardError E_CANNOT_ASK */
async function ask({ tool, request: { caller }, relay, signal }: ToolRun, question: Question): Promise<Answer> {
  const send = relay.request
  if (!send || !caller.supports.elicitation)
    throw new PegboardError('E_CANNOT_ASK', `${tool.id} has a question: ${question.message}`)
  return (await send(
    'elicitation/create',
    { mode: 'form', message: question.message, requestedSchema: question.schema },
    signal,
  )) as Answer
}

/** A progress message of a server; `undefined` if it contains a secret. The call continues. */
function inspectMessage(message: string | undefined, inspection: Inspection | undefined): string | undefined {
  if (!inspection || message === undefined) return message
  try {
    return inspectValue(message, inspection)
  } catch {
    return undefined
  }
}
