import type { Caller } from '../core/caller.ts'
import { asksForGateways, gatewaysAnswer } from '../core/gateways.ts'
import { asRecord, isRecord, type Json } from '../core/is-record.ts'
import { isWanted } from '../core/log-levels.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import { CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL } from '../core/protocol-meta.ts'
import type { Relay, RequestOwner } from '../core/tool.ts'
import type { McpResult } from '../core/tool-result.ts'
import type { CallRequest } from '../exec/tool-calls.ts'
import type { ListedTool } from '../view/listed-tools.ts'
import { callTool } from './call-tool.ts'
import { capabilitiesFor } from './capabilities.ts'
import { type Connection, callerOf } from './identity.ts'
import { inspectNotification } from './inspect-answers.ts'
import { instructionsFor } from './instructions.ts'
import { recordList } from './record-usage.ts'
import { createRequestClaims, type RequestClaims, withoutClaims } from './request-claims.ts'
import type { ServerHost } from './server-host.ts'
import { traceList } from './traced-requests.ts'

/** A request of a client, however it was read. */
export interface ClientRequest {
  /** Its `_meta`, as the client sent it. */
  readonly meta: unknown
  /** 2026: the part of `_meta` that describes the client. */
  readonly envelope?: Json | undefined
  readonly inputResponses?: unknown
  readonly requestState?: unknown
  /** 2025-11-25: how the client wants its call to run as a task. */
  readonly task?: unknown
  /** Sends a request to the client, on the stream of this one. Absent in 2026, which has no such channel. */
  readonly ask?: Relay['request']
  /** Sends a notification, on the stream of this request. */
  notify(method: string, params: unknown): void
}

export interface ToolCall {
  readonly name: string
  readonly input: unknown
  readonly signal: AbortSignal
  /** Controller of `signal`, if the run may have it: then it needs none of its own. */
  readonly abort?: AbortController
}

/**
 * Turns the requests of one connection into calls of the host. The fast path and the SDK path both use it, so that they
 * can differ only in how they read and write messages.
 */
export interface RequestBuilder {
  readonly connection: Connection
  /** 2025: the level of `logging/setLevel`. */
  logLevel: string | undefined
  /** 2025: the URIs this client is subscribed to, and the caller of each subscription. */
  readonly subscribed: Map<string, Caller>
  /** 2025: records the parameters of `initialize`. */
  introduce(params: Json | undefined): void
  initializeResult(protocolVersion: string): Json
  /** The caller of a request; without one, the connection's own. */
  callerFor(request?: Pick<ClientRequest, 'meta' | 'envelope'>): Caller
  /** The connection's own caller, and one for each other profile that its requests named. */
  callers(): readonly Caller[]
  /** @param caller default `callerFor(request)` */
  relayFor(request: ClientRequest, caller?: Caller): Relay
  listTools(request: Pick<ClientRequest, 'meta' | 'envelope'>): {
    readonly tools: readonly ListedTool[]
    readonly _meta?: Json
  }
  /** The result of `tools/call`. @throws ProtocolFailure as `callTool` does */
  callTool(request: ClientRequest, call: ToolCall): Promise<McpResult>
  /** Whether a message for `owner` is for this connection; without an owner it is for all connections. */
  isFor(owner: RequestOwner | undefined): boolean
  /**
   * A log message that belongs to no request, as this client may see it.
   * @param from the server that sent it; absent: Pegboard itself
   * @returns undefined where the client did not ask for it, or must not see it
   */
  logMessage(params: Json, from: string | undefined): Json | undefined
}

/** @param claims shared by all builders of one connection; default new */
export function createRequestBuilder(
  host: ServerHost,
  connection: Connection,
  claims: RequestClaims = createRequestClaims(host, connection.identity),
): RequestBuilder {
  const { era, session, identity, perRequest } = connection
  let initializeParams: Json = {}
  // Kept, because views are cached by caller.
  let ownCaller = callerOf(connection, undefined, undefined)
  let capabilities: Json = {}

  const builder: RequestBuilder = {
    connection,
    logLevel: undefined,
    subscribed: new Map(),
    introduce(params = {}) {
      initializeParams = params
      capabilities = asRecord(params['capabilities'])
      ownCaller = callerOf(connection, params['clientInfo'], capabilities)
    },
    initializeResult: (protocolVersion) => ({
      protocolVersion,
      capabilities: capabilitiesFor(protocolVersion),
      serverInfo: { name: host.name, version: host.version },
      instructions: instructionsFor(host, claims.of(ownCaller, initializeParams['_meta'])),
    }),
    callerFor(request) {
      if (request?.envelope)
        ownCaller = callerOf(connection, request.envelope[CLIENT_INFO], request.envelope[CLIENT_CAPABILITIES])
      return request ? claims.of(ownCaller, request.meta) : ownCaller
    },
    callers: () => [ownCaller, ...claims.others()],
    relayFor(request, caller = builder.callerFor(request)) {
      const { envelope, inputResponses, requestState, task, ask } = request
      const requestMeta = asRecord(request.meta)
      const { progressToken, ...meta } = withoutClaims(requestMeta) as Record<string, unknown>
      const declared = envelope?.[CLIENT_CAPABILITIES]
      const level = (): unknown => envelope?.[LOG_LEVEL] ?? builder.logLevel
      const levelNow = level()
      return {
        principal: caller.principal,
        session,
        wantsProgress: progressToken !== undefined,
        ...(perRequest ? {} : { connection }),
        meta: levelNow === undefined ? meta : { ...meta, [LOG_LEVEL]: levelNow },
        ...(inputResponses === undefined ? {} : { inputResponses }),
        ...(requestState === undefined ? {} : { requestState }),
        ...(era === 'legacy' && isRecord(task) ? { task } : {}),
        clientCapabilities: isRecord(declared) ? declared : capabilities,
        ...(ask ? { request: ask } : {}),
        notify(method, params) {
          // The server may send what another client's level asks for.
          if (method === 'notifications/message') {
            const requestedLevel = level()
            if (requestedLevel === undefined ? era === 'modern' : !isWanted(params, requestedLevel)) return
          }
          const inspected = isRecord(params) ? inspectNotification(host, caller, params) : params
          if (inspected !== undefined) request.notify(method, inspected)
        },
      }
    },
    listTools(request) {
      const { meta } = request
      const caller = builder.callerFor(request)
      const tools = traceList(host, meta, () => host.lists.of(caller))
      recordList(host, caller, tools)
      return asksForGateways(meta) ? { tools, _meta: gatewaysAnswer(host.gateways()) } : { tools }
    },
    async callTool(request, call) {
      const caller = builder.callerFor(request)
      const token = isRecord(request.meta) ? request.meta['progressToken'] : undefined
      let hasProgress = false
      // The spread is last, because members after it cost 4 µs on Node 20.
      const result = await callTool(host, {
        caller,
        relay: builder.relayFor(request, caller),
        ...call,
        ...(typeof token === 'string' || typeof token === 'number'
          ? {
              onProgress: createProgress((progress) => {
                hasProgress = true
                request.notify('notifications/progress', { progressToken: token, ...progress })
              }),
            }
          : {}),
      })
      // Clients drop progress that arrives in one piece with the result, so the result leaves one write later.
      if (hasProgress) await new Promise((resolve) => setImmediate(resolve))
      return result
    },
    isFor: (owner) =>
      owner === undefined ||
      (owner.session === undefined ? owner.principal === identity.principal : owner.session === session),
    logMessage(params, from) {
      const { logLevel } = builder
      if (logLevel === undefined || !isWanted(params, logLevel)) return undefined
      const readers = builder
        .callers()
        .filter((caller) => from === undefined || host.view(caller).owners.some(({ id }) => id === from))
      if (readers.length === 0) return undefined
      // Which of the profiles will read it is not known: the rules of all of them apply.
      let message: Json | undefined = params
      for (const caller of readers) message = message && inspectNotification(host, caller, message, from)
      return message
    },
  }
  return builder
}

/** Strictly increasing, as the protocol demands, whatever the tool reports. */
function createProgress(send: (progress: Json) => void): NonNullable<CallRequest['onProgress']> {
  let last = Number.NEGATIVE_INFINITY
  return (progress, total, message) => {
    if (!(progress > last)) return
    last = progress
    send({ progress, ...omitUndefined({ total, message }) })
  }
}
