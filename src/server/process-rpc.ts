import { randomBytes, randomUUID } from 'node:crypto'
import type { Clock } from '../core/clock.ts'
import { createDeferred, type Deferred } from '../core/deferred.ts'
import { type ErrorCode, isPegboardError, PegboardError } from '../core/errors.ts'
import type { FailureClass } from '../core/failure-class.ts'
import type { Json } from '../core/is-record.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import { isProtocolFailure, ProtocolFailure } from '../core/protocol-failure.ts'
import type { SharedState } from '../state/shared-state.ts'
import type { RequestContext } from './parked-questions.ts'

type Failure =
  | { readonly protocol: number; readonly message: string; readonly data: unknown }
  | {
      readonly code: ErrorCode
      readonly class: FailureClass | undefined
      readonly message: string
      readonly hint: string
      readonly retryable: boolean
      readonly unknownTool?: string | undefined
    }

/** A message between processes about a request that one of them serves. */
type RpcMessage = { readonly requestId: string } & (
  | {
      // A process of the previous version reads these two names, too.
      readonly kind: 'ask'
      readonly what: string
      readonly of: Json
      readonly relay: Pick<
        RequestContext['relay'],
        'principal' | 'wantsProgress' | 'meta' | 'inputResponses' | 'clientCapabilities'
      >
    }
  | { readonly kind: 'here' }
  | { readonly kind: 'progress'; readonly progress: Parameters<NonNullable<RequestContext['onProgress']>> }
  | { readonly kind: 'notify'; readonly method: string; readonly params: unknown }
  | { readonly kind: 'done'; readonly outcome: Json }
  | { readonly kind: 'failed'; readonly failure: Failure }
  | { readonly kind: 'gone' }
)

const TOPIC = 'ask'
const INTERNAL = -32603
/** The process that serves a request sends a sign of life at once, and then at this interval. In milliseconds. */
const FIRST_ANSWER_MS = 1_500
const KEEP_ALIVE_MS = 2_000
const SILENCE_MS = 6_000

interface PendingRequest extends Omit<Deferred<Json | undefined>, 'promise'> {
  readonly context: RequestContext
  keepAlive(): void
}

type Answer = (of: Json, context: RequestContext) => Promise<Json> | undefined

/** Calls to any other process that can serve them. */
export interface ProcessRpc {
  readonly processId: string
  /**
   * Undefined if no process can serve it. Rejects as that process does, or with E_SHUTTING_DOWN if it sends nothing for six
   * seconds.
   */
  ask(what: string, of: Json, context: RequestContext): Promise<Json | undefined>
  /** Sets the handler for requests of other processes. @param answer returns undefined for what it cannot serve */
  answer(what: string, answer: Answer): void
}

export function createProcessRpc(shared: Pick<SharedState, 'publish' | 'subscribe'>, clock: Clock): ProcessRpc {
  const answers = new Map<string, Answer>()
  const waiting = new Map<string, PendingRequest>()
  const running = new Map<string, AbortController>()
  const send = (message: RpcMessage): void => shared.publish(TOPIC, JSON.stringify(message))

  function serve({ requestId, what: topic, of: params, relay }: RpcMessage & { readonly kind: 'ask' }): void {
    const ending = new AbortController()
    const outcome = answers.get(topic)?.(params, {
      relay: { ...relay, notify: (method, params) => send({ requestId, kind: 'notify', method, params }) },
      signal: ending.signal,
      onProgress: (...progress) => send({ requestId, kind: 'progress', progress }),
    })
    if (!outcome) return
    running.set(requestId, ending)
    let cancel: () => void = () => undefined
    const keepAlive = (): void => {
      send({ requestId, kind: 'here' })
      cancel = clock.after(KEEP_ALIVE_MS, keepAlive)
    }
    keepAlive()
    outcome
      .then(
        (done) => send({ requestId, kind: 'done', outcome: done }),
        (error: unknown) => send({ requestId, kind: 'failed', failure: failureOf(error) }),
      )
      .finally(() => {
        cancel()
        running.delete(requestId)
      })
  }

  shared.subscribe(TOPIC, (text) => {
    const message = JSON.parse(text) as RpcMessage
    if (message.kind === 'ask') return serve(message)
    if (message.kind === 'gone') return running.get(message.requestId)?.abort()
    const request = waiting.get(message.requestId)
    if (!request) return
    request.keepAlive()
    if (message.kind === 'progress') request.context.onProgress?.(...message.progress)
    else if (message.kind === 'notify') request.context.relay.notify?.(message.method, message.params)
    else if (message.kind === 'done') request.resolve(message.outcome)
    else if (message.kind === 'failed') request.reject(errorOf(message.failure))
  })

  const ask: ProcessRpc['ask'] = async (topic, params, context) => {
    context.signal?.throwIfAborted()
    const requestId = randomUUID()
    const { promise, resolve, reject } = createDeferred<Json | undefined>()
    const onAbort = (): void => {
      send({ requestId, kind: 'gone' })
      reject(context.signal?.reason)
    }
    const failSilent = (): void =>
      reject(new PegboardError('E_SHUTTING_DOWN', 'The process that served this request has stopped.'))
    let cancel = clock.after(FIRST_ANSWER_MS, () => resolve(undefined))
    const keepAlive = (): void => {
      cancel()
      cancel = clock.after(SILENCE_MS, failSilent)
    }
    context.signal?.addEventListener('abort', onAbort, { once: true })
    waiting.set(requestId, { context, keepAlive, resolve, reject })
    const { principal, wantsProgress, meta, inputResponses, clientCapabilities } = context.relay
    const relay = { ...omitUndefined({ principal, wantsProgress }), meta, inputResponses, clientCapabilities }
    try {
      send({ requestId, kind: 'ask', what: topic, of: params, relay })
      return await promise
    } finally {
      cancel()
      waiting.delete(requestId)
      context.signal?.removeEventListener('abort', onAbort)
    }
  }
  return { processId: randomBytes(6).toString('hex'), ask, answer: (what, answer) => void answers.set(what, answer) }
}

function failureOf(error: unknown): Failure {
  if (isProtocolFailure(error)) return { protocol: error.code, message: error.message, data: error.data }
  if (isPegboardError(error)) {
    const { code, class: failureClass, message, hint, retryable, unknownTool } = error
    return { code, class: failureClass, message, hint, retryable, unknownTool }
  }
  // Its message may contain paths and addresses, and a client reads it.
  return { protocol: INTERNAL, message: 'Internal error', data: undefined }
}

function errorOf(failure: Failure): Error {
  if ('protocol' in failure) return new ProtocolFailure(failure.protocol, failure.message, failure.data)
  const { code, class: failureClass, message, hint, retryable, unknownTool } = failure
  const error = new PegboardError(code, message, { hint, class: failureClass, retryable })
  if (unknownTool !== undefined) error.unknownTool = unknownTool
  return error
}
