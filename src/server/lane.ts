import type { Caller } from '../core/context.ts'
import { createEnding, type Ending } from '../core/ending.ts'
import { asksForGateways, gatewaysAnswer } from '../core/gateways.ts'
import type { Message } from '../core/jsonrpc.ts'
import { isWanted } from '../core/levels.ts'
import { createNumbered } from '../core/numbered.ts'
import { rawBytes } from '../core/raw.ts'
import { isRecord } from '../core/record.ts'
import type { McpResult } from '../core/result.ts'
import { revisionFor, SESSION_REVISIONS } from '../core/revisions.ts'
import type { Relay } from '../core/tool.ts'
import { cancelled } from '../exec/refusals.ts'
import { callerOf, type Entrant } from './caller.ts'
import { withTasks } from './capabilities.ts'
import { type Claims, withoutClaims } from './claims.ts'
import type { ServerHost } from './host.ts'
import { sayable } from './inspected.ts'
import { instructionsFor } from './instructions.ts'
import { claimsRevision } from './message.ts'
import { toldOfList } from './observed.ts'

/** What 2025-era stdio clients ask all day, answered without the SDK: it costs 100 ms to load and 50 µs a call. */
export interface Lane {
  /** Takes the message, or leaves it to the SDK by answering false. */
  take(message: Message): boolean
  /** Takes part in a session that somebody else opens: tells what the client said of itself in `initialize`. */
  join(message: Message): void
  /** Everything a full server needs to carry on this session; undefined before `initialize`. */
  opening(): readonly Message[] | undefined
  /** Who speaks on this connection, and as whom else some of its requests did. */
  callers(): readonly Caller[]
  /** Says that the listed tools may have changed. */
  toolsChanged(): void
  /** Aborts what runs. */
  close(): void
}

export interface LaneOptions {
  readonly host: ServerHost
  readonly entrant: Entrant
  /** What its requests say of themselves. */
  readonly claims: Claims
  readonly session: string
  readonly capabilities: Readonly<Record<string, unknown>>
  /** @param related the request it belongs to, where it answers none itself. May throw for a question nobody hears */
  send(message: object, related?: string | number): void
  /** Runs a tool call. Loaded with the rest of the call path. */
  call(params: {
    readonly name: string
    readonly input: unknown
    readonly caller: Caller
    readonly abort: Ending
    readonly relay: Relay
    readonly progressToken?: string | number
    readonly sendProgress: (params: Readonly<Record<string, unknown>>) => void
  }): Promise<McpResult>
  /** A first answer that needs the full server: it asks the client something, or must be reshaped for this era. */
  handOver(message: Message, result: McpResult): void
  /** After the first list was sent. */
  onListed?: () => void
}

const LOG_LEVEL = 'io.modelcontextprotocol/logLevel'

export function createLane(options: LaneOptions): Lane {
  const { host, send, claims, entrant } = options
  const connection = { era: 'legacy', entrant, session: options.session } as const
  // By their numbers: a map that held them would hold those that ended too, until the memory is cleaned thoroughly.
  const endings = createNumbered<Ending>()
  const running = new Map<string | number, number>()
  const asked = new Map<string, { resolve(value: unknown): void; reject(error: Error): void }>()
  let opening: Message[] | undefined
  let caller = callerOf(connection, undefined, undefined)
  let capabilities: Readonly<Record<string, unknown>> = {}
  let logLevel: unknown
  let asks = 0
  let joined = false

  const answer = (id: string | number, result: unknown): void => send({ jsonrpc: '2.0', id, result })

  function initialize(message: Message, id: string | number): boolean {
    const params = message.params ?? {}
    const wanted = params.protocolVersion
    if (
      typeof wanted !== 'string' ||
      typeof params.clientInfo !== 'object' ||
      typeof params.capabilities !== 'object' ||
      params.capabilities === null
    )
      return false
    begin(message)
    const asking = claims.of(caller, params._meta)
    const instructions = instructionsFor(host, asking)
    const protocolVersion = revisionFor(wanted)
    answer(id, {
      protocolVersion,
      capabilities:
        protocolVersion === SESSION_REVISIONS[0]
          ? withTasks(options.capabilities, host.view(asking).owners)
          : options.capabilities,
      serverInfo: { name: host.name, version: host.version },
      instructions,
    })
    return true
  }

  function join(message: Message): void {
    joined = true
    begin(message)
  }

  function begin(message: Message): void {
    const { clientInfo, capabilities: declared } = message.params ?? {}
    opening = [message]
    capabilities = isRecord(declared) ? declared : {}
    caller = callerOf(connection, clientInfo, capabilities)
  }

  // One function for all calls: by it servers know that two callers are the same client.
  const ask = (method: string, params: unknown, signal?: AbortSignal): Promise<unknown> =>
    new Promise((resolve, reject) => {
      const related = [...running.keys()].at(-1)
      const id = `pegboard:${++asks}`
      const cancel = (): void => {
        asked.delete(id)
        send({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: id } }, related)
        reject(signal?.reason instanceof Error ? signal.reason : new Error('cancelled'))
      }
      if (signal?.aborted) return cancel()
      signal?.addEventListener('abort', cancel, { once: true })
      const settle =
        <T>(then: (value: T) => void) =>
        (value: T): void => {
          signal?.removeEventListener('abort', cancel)
          then(value)
        }
      asked.set(id, { resolve: settle(resolve), reject: settle(reject) })
      try {
        send({ jsonrpc: '2.0', id, method, params }, related)
      } catch (error) {
        asked.delete(id)
        settle(reject)(error as Error)
      }
    })

  function callTool(message: Message, id: string | number): boolean {
    const params = message.params ?? {}
    const name = params.name
    if (typeof name !== 'string' || running.has(id)) return false
    const abort = createEnding()
    const number = endings.add(abort)
    running.set(id, number)
    let progressed = false
    const given = isRecord(params._meta) ? params._meta : {}
    const { progressToken, ...meta } = withoutClaims(given) as Record<string, unknown>
    const token = typeof progressToken === 'string' || typeof progressToken === 'number' ? progressToken : undefined
    options
      .call({
        name,
        input: params.arguments,
        caller: params._meta === undefined ? caller : claims.of(caller, given),
        abort,
        relay: {
          meta: logLevel === undefined ? meta : { ...meta, [LOG_LEVEL]: logLevel },
          clientCapabilities: capabilities,
          wantsProgress: token !== undefined,
          ...(isRecord(params.task) ? { task: params.task } : {}),
          request: ask,
          notify(method, notified) {
            if (method === 'notifications/message' && logLevel !== undefined && !isWanted(notified, logLevel)) return
            const said = isRecord(notified) ? sayable(host, caller, notified) : notified
            if (said !== undefined) send({ jsonrpc: '2.0', method, params: said }, id)
          },
        },
        ...(token === undefined ? {} : { progressToken: token }),
        sendProgress(progress) {
          progressed = true
          send({ jsonrpc: '2.0', method: 'notifications/progress', params: progress }, id)
        },
      })
      .then(
        (result) => {
          // A cancelled request is no longer there, and gets no answer.
          if (!over(id, number)) return
          if (
            result.resultType === 'input_required' ||
            // Bytes have been looked at: their structured content is an object.
            (!rawBytes(result) && 'structuredContent' in result && !isRecord(result.structuredContent))
          )
            options.handOver(message, result)
          // Clients drop progress that arrives in one piece with the result, so the result leaves a write later.
          else if (progressed) setImmediate(() => answer(id, result))
          else answer(id, result)
        },
        (error: { readonly code?: unknown; readonly message?: string; readonly data?: unknown }) => {
          if (!over(id, number)) return
          send({
            jsonrpc: '2.0',
            id,
            error: {
              code: typeof error.code === 'number' ? error.code : -32603,
              message: error.message ?? 'Internal error',
              ...(error.data === undefined ? {} : { data: error.data }),
            },
          })
        },
      )
    return true
  }

  /** Answers false when it was over before; its id may be another call's by now. */
  function over(id: string | number, number: number): boolean {
    return endings.delete(number) && running.delete(id)
  }

  function cancel(params: Readonly<Record<string, unknown>> | undefined): boolean {
    const id = params?.requestId
    const number = typeof id === 'string' || typeof id === 'number' ? running.get(id) : undefined
    const abort = number === undefined ? undefined : endings.get(number)
    if (number === undefined || !abort) return false
    over(id as string | number, number)
    abort.abort(cancelled())
    return true
  }

  function answered(message: Message): boolean {
    const waiting = typeof message.id === 'string' ? asked.get(message.id) : undefined
    if (!waiting) return false
    asked.delete(message.id as string)
    if (message.error !== undefined)
      waiting.reject(
        Object.assign(new Error(String((message.error as { message?: unknown }).message ?? 'refused')), {
          code: (message.error as { code?: unknown }).code,
        }),
      )
    else waiting.resolve(message.result)
    return true
  }

  return {
    take(message) {
      const { id, method } = message
      if (method === undefined) return answered(message)
      if (claimsRevision(message.params)) return false
      if (opening === undefined) return method === 'initialize' && id !== undefined && initialize(message, id)
      if (id === undefined) {
        if (method === 'notifications/initialized' && !joined) {
          opening.push(message)
          return true
        }
        return method === 'notifications/cancelled' && cancel(message.params)
      }
      if (method === 'tools/call') return callTool(message, id)
      // The SDK answers it; calls of this lane carry it to upstreams that want it with every request.
      if (method === 'logging/setLevel') logLevel = message.params?.level
      if (method === 'ping') answer(id, {})
      else if (method === 'tools/list' && message.params?.cursor == null) {
        const meta = message.params?._meta
        const tools = toldOfList(host, meta, () => host.lists.of(claims.of(caller, meta)))
        answer(id, asksForGateways(meta) ? { tools, _meta: gatewaysAnswer(host.gateways()) } : { tools })
        options.onListed?.()
      } else return false
      return true
    },
    join,
    opening: () => opening,
    callers: () => [caller, ...claims.others()],
    toolsChanged: () => send({ jsonrpc: '2.0', method: 'notifications/tools/list_changed' }),
    close() {
      const left = endings.values()
      for (const [id, number] of [...running]) over(id, number)
      for (const abort of left) abort.abort(cancelled())
      for (const waiting of asked.values()) waiting.reject(new Error('the client has gone'))
      asked.clear()
    },
  }
}
