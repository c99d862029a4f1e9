import { isRecord } from '../../core/is-record.ts'
import type { Message } from '../../core/jsonrpc.ts'
import { omitUndefined } from '../../core/omit-undefined.ts'
import { revisionFor } from '../../core/protocol-revisions.ts'
import { rawBytes } from '../../core/raw-result.ts'
import { ShortLivedMap } from '../../core/short-lived-map.ts'
import type { McpResult } from '../../core/tool-result.ts'
import { createCancelledError } from '../../exec/refusals.ts'
import { claimsRevision } from '../jsonrpc-message.ts'
import type { RequestBuilder } from '../request-builder.ts'
import type { ClientQuestions } from './client-questions.ts'

export interface FastPathOptions {
  /** Has the client's `initialize` data. */
  readonly requests: RequestBuilder
  readonly questions: ClientQuestions
  /** Whether it answers `initialize`. Otherwise the SDK has, before the first `take`. */
  readonly initializes: boolean
  /** @param related the request that a notification belongs to */
  send(message: object, related?: string | number): void
  /** Gives a call to the SDK, with its first result: one that asks the client for input, or must be reshaped for this era. */
  handOver(message: Message, result: McpResult): void
  /** Called after a list was sent. */
  onListed?: () => void
}

/** Answers what 2025 clients send most without the SDK, which costs 100 ms to load and 50 µs a call. */
export function createFastPath(options: FastPathOptions) {
  const { requests, questions, send } = options
  const running = new ShortLivedMap<string | number, AbortController>()
  let opening: Message[] | undefined
  // A connection that begins with another message is the SDK's.
  let isBypassed = false

  const answer = (id: string | number, result: unknown): void => send({ jsonrpc: '2.0', id, result })

  function initialize(message: Message, id: string | number): boolean {
    const requestedVersion = message.params?.['protocolVersion']
    if (typeof requestedVersion !== 'string') return false
    opening = [message]
    answer(id, requests.initializeResult(revisionFor(requestedVersion)))
    return true
  }

  function callTool(message: Message, id: string | number): boolean {
    const { name, arguments: input, task, _meta: meta } = message.params ?? {}
    if (typeof name !== 'string' || running.has(id)) return false
    const abort = new AbortController()
    running.set(id, abort)
    const request = {
      meta,
      task,
      ask: questions.ask(id),
      notify: (method: string, params: unknown) => send({ jsonrpc: '2.0', method, params }, id),
    }
    requests.callTool(request, { name, input, abort, signal: abort.signal }).then(
      (result) => {
        // The protocol has no answer for a cancelled request.
        if (!finish(id, abort)) return
        if (
          result.resultType === 'input_required' ||
          // Lists that are cached as bytes have an object here; other results have none.
          (!rawBytes(result) && 'structuredContent' in result && !isRecord(result.structuredContent))
        )
          options.handOver(message, result)
        else answer(id, result)
      },
      (error: { readonly code?: unknown; readonly message?: string; readonly data?: unknown }) => {
        if (!finish(id, abort)) return
        const code = typeof error.code === 'number' ? error.code : -32603
        const message = error.message ?? 'Internal error'
        send({ jsonrpc: '2.0', id, error: { code, message, ...omitUndefined({ data: error.data }) } })
      },
    )
    return true
  }

  /** False for a call that has ended; its id may belong to another call now. */
  function finish(id: string | number, abort: AbortController): boolean {
    return running.get(id) === abort && running.delete(id)
  }

  function cancel(id: unknown): boolean {
    const abort = typeof id === 'string' || typeof id === 'number' ? running.get(id) : undefined
    if (!abort) return false
    running.delete(id as string | number)
    abort.abort(createCancelledError())
    return true
  }

  function begin(message: Message): boolean {
    const { id, method, params } = message
    if (method === 'initialize' && id !== undefined && !claimsRevision(params) && initialize(message, id)) return true
    isBypassed = true
    return false
  }

  return {
    /** Takes a message, or returns false to leave it to the SDK. */
    take(message: Message): boolean {
      const { id, method, params } = message
      if (method === undefined) return questions.takeAnswer(message)
      if (isBypassed) return false
      if (options.initializes && !opening) return begin(message)
      if (claimsRevision(params)) return false
      if (id === undefined) {
        if (method === 'notifications/initialized' && opening) {
          opening.push(message)
          return true
        }
        return method === 'notifications/cancelled' && cancel(params?.['requestId'])
      }
      if (method === 'tools/call') return callTool(message, id)
      if (method === 'ping') answer(id, {})
      else if (method === 'tools/list' && params?.['cursor'] == null) {
        answer(id, requests.listTools({ meta: params?.['_meta'] }))
        options.onListed?.()
      } else return false
      return true
    },
    /**
     * The messages that a full server must see to continue this session; undefined if this path did not answer
     * `initialize`.
     */
    opening: (): readonly Message[] | undefined => opening,
    close() {
      const left = [...running.values()]
      running.clear()
      for (const abort of left) abort.abort(createCancelledError())
      questions.close()
    },
  }
}
