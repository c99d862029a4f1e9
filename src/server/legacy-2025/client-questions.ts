import type { Clock } from '../../core/clock.ts'
import { createDeferred, type Deferred } from '../../core/deferred.ts'
import type { Json } from '../../core/is-record.ts'
import type { Message } from '../../core/jsonrpc.ts'
import { ProtocolFailure } from '../../core/protocol-failure.ts'
import type { Relay } from '../../core/tool.ts'

/** Requests that Pegboard sends to the client of a 2025 connection. */
export interface ClientQuestions {
  /**
   * Sends requests on the stream of the request `related`. Rejects with the error of the client, with the reason of the
   * signal, and after an hour without an answer.
   */
  ask(related: string | number): NonNullable<Relay['request']>
  /** Takes the answer to one of them; false for any other message. */
  takeAnswer(message: Message): boolean
  close(): void
}

/** The most that `approvalTimeoutMs` allows a person. */
const MAX_WAIT_MS = 60 * 60_000

/** @param send throws where the client has no stream open for a request */
export function createClientQuestions(
  clock: Clock,
  send: (message: object, related?: string | number) => void,
): ClientQuestions {
  const waiting = new Map<string, Deferred<unknown>>()
  let count = 0

  return {
    ask: (requestId) => async (method, params, signal) => {
      signal?.throwIfAborted()
      const id = `pegboard:${++count}`
      const answer = createDeferred<unknown>()
      const withdraw = (reason: unknown): void => {
        answer.reject(reason)
        send({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: id } }, requestId)
      }
      const onAbort = (): void => withdraw(signal?.reason)
      const giveUp = (): void => withdraw(new ProtocolFailure(-32001, 'The client did not answer'))
      const stopTimer = clock.after(MAX_WAIT_MS, giveUp)
      signal?.addEventListener('abort', onAbort, { once: true })
      waiting.set(id, answer)
      try {
        send({ jsonrpc: '2.0', id, method, params }, requestId)
        return await answer.promise
      } finally {
        waiting.delete(id)
        stopTimer()
        signal?.removeEventListener('abort', onAbort)
      }
    },
    takeAnswer({ id, result, error }) {
      const question = typeof id === 'string' ? waiting.get(id) : undefined
      if (!question) return false
      if (error === undefined) question.resolve(result)
      else {
        const { code, message = 'The client refused', data } = error as Json
        question.reject(new ProtocolFailure(typeof code === 'number' ? code : -32603, String(message), data))
      }
      return true
    },
    close() {
      for (const question of [...waiting.values()]) question.reject(new Error('The client has disconnected'))
    },
  }
}
