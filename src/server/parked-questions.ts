import { randomUUID } from 'node:crypto'
import type { Clock } from '../core/clock.ts'
import { createDeferred, type Deferred } from '../core/deferred.ts'
import { PegboardError, shuttingDown } from '../core/errors.ts'
import { isRecord, type Json } from '../core/is-record.ts'
import { refuseServerRequest, toModernServerRequest } from '../core/server-requests.ts'
import type { Relay } from '../core/tool.ts'

/** One request of a client. A call with questions takes several. */
export interface RequestContext {
  readonly relay: Relay
  readonly signal?: AbortSignal | undefined
  readonly onProgress?: ((done: number, total?: number, message?: string) => void) | undefined
}

/** The answer to one request: the result, or questions for the client. */
export type RoundResult<Result> =
  | { readonly kind: 'done'; readonly result: Result }
  | { readonly kind: 'asks'; readonly id: string; readonly round: number; readonly requests: Json }

export interface ParkedQuestionsOptions {
  readonly clock: Clock
  /** How long a call waits for the next request of its client, in milliseconds. */
  readonly ttlMs: number
  readonly perPrincipal: number
  readonly total: number
}

interface Question extends Omit<Deferred<unknown>, 'promise'> {
  readonly method: string
  readonly params: unknown
}

interface Call {
  readonly id: string
  readonly principal: string
  readonly abort: AbortController
  readonly questions: Map<string, Question>
  round: number
  context?: RequestContext | undefined
  settled?: Promise<Json>
  wake: () => void
  cancelExpiry: () => void
}

/** Questions that arrive within this many milliseconds of each other are sent together. */
const GATHER_MS = 50

/**
 * Keeps calls open whose server asks something, for clients that can be asked only by an answer: the answer holds the
 * questions, and the client repeats the request with its answers.
 */
export function createParkedQuestions({ clock, ttlMs, perPrincipal, total }: ParkedQuestionsOptions) {
  const parked = new Map<string, Call>()

  const hasRoom = (call: Call): boolean =>
    parked.has(call.id) ||
    (parked.size < total &&
      [...parked.values()].filter(({ principal }) => principal === call.principal).length < perPrincipal)

  function ask(call: Call): NonNullable<Relay['request']> {
    let questionCount = 0
    return async (method, params, signal) => {
      if (!hasRoom(call)) return await refuseServerRequest(method, 'too many calls wait for an answer')
      const key = `${method.split('/', 1)[0]}-${++questionCount}`
      const { promise, resolve, reject } = createDeferred<unknown>()
      const withdraw = (): void => {
        if (call.questions.delete(key)) reject(signal?.reason)
      }
      signal?.addEventListener('abort', withdraw, { once: true })
      call.questions.set(key, { method, params, resolve, reject })
      call.wake()
      try {
        return await promise
      } finally {
        signal?.removeEventListener('abort', withdraw)
      }
    }
  }

  /** Waits until the call ends or asks something. */
  async function serve(call: Call, context: RequestContext): Promise<RoundResult<Json>> {
    const onAbort = (): void => end(call, context.signal?.reason)
    call.context = context
    if (context.signal?.aborted) onAbort()
    context.signal?.addEventListener('abort', onAbort, { once: true })
    let gathered: () => void = () => undefined
    try {
      const asks = new Promise<undefined>((resolve) => {
        call.wake = () => {
          if (call.questions.size === 0) return
          gathered()
          gathered = clock.after(GATHER_MS, () => resolve(undefined))
        }
        call.wake()
      })
      const result = await Promise.race([asks, call.settled as Promise<Json>])
      return result ? { kind: 'done', result } : park(call)
    } finally {
      gathered()
      call.context = undefined
      call.wake = () => undefined
      context.signal?.removeEventListener('abort', onAbort)
    }
  }

  function park(call: Call): RoundResult<Json> {
    parked.set(call.id, call)
    call.round++
    call.cancelExpiry = clock.after(ttlMs, () =>
      end(call, new PegboardError('E_CANCELLED', 'The question of the server was not answered in time.')),
    )
    const requests = Object.fromEntries(
      [...call.questions].map(([key, { method, params }]) => [key, toModernServerRequest(method, params)]),
    )
    return { kind: 'asks', id: call.id, round: call.round, requests }
  }

  function end(call: Call, reason: unknown): void {
    call.cancelExpiry()
    parked.delete(call.id)
    call.abort.abort(reason)
    for (const question of call.questions.values()) question.reject(reason)
    call.questions.clear()
  }

  return {
    start<Result extends Json>(
      principal: string,
      context: RequestContext,
      work: (context: RequestContext) => Promise<Result>,
    ): Promise<RoundResult<Result>> {
      const call: Call = {
        id: randomUUID(),
        principal,
        abort: new AbortController(),
        questions: new Map(),
        round: 0,
        context,
        wake: () => undefined,
        cancelExpiry: () => undefined,
      }
      const { relay } = context
      const request = ask(call)
      call.settled = work({
        relay: {
          ...relay,
          request,
          connection: relay.connection ?? call,
          notify: (method, params) => call.context?.relay.notify?.(method, params),
        },
        signal: call.abort.signal,
        onProgress: (done, of, message) => call.context?.onProgress?.(done, of, message),
      })
      // It may end between two requests: the next one gets the error.
      call.settled.catch(() => undefined)
      return serve(call, context) as Promise<RoundResult<Result>>
    },
    /** Continues a call; undefined if it has ended, or is in a later round. */
    resume(
      principal: string,
      id: string,
      round: number,
      context: RequestContext,
    ): Promise<RoundResult<Json>> | undefined {
      const call = parked.get(id)
      if (!call || call.principal !== principal || call.round !== round) return undefined
      call.cancelExpiry()
      parked.delete(id)
      const answers = context.relay.inputResponses
      for (const [key, question] of [...call.questions]) {
        const answer = isRecord(answers) && Object.hasOwn(answers, key) ? answers[key] : undefined
        // Questions without an answer are asked again.
        if (!isRecord(answer)) continue
        call.questions.delete(key)
        question.resolve(answer)
      }
      return serve(call, context)
    },
    close() {
      for (const call of [...parked.values()]) end(call, shuttingDown())
    },
  }
}
