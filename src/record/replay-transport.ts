import { toCanonicalJson } from '../core/canonical.ts'
import { PegboardError } from '../core/errors.ts'
import { asRecord, type Json } from '../core/is-record.ts'
import type { Message } from '../core/jsonrpc.ts'
import { changedList } from '../core/list-kinds.ts'
import { SUBSCRIPTION } from '../core/protocol-meta.ts'
import type { UpstreamTransport, UpstreamTransportEvents } from '../upstream/transport.ts'
import { isHandshake, isList, type RecordedAnswer, type RecordedEvent, withoutMeta } from './cassette.ts'
import { notRecorded } from './not-recorded.ts'
import type { Player } from './replay.ts'
import type { Scrub } from './scrubber.ts'

const METHOD_NOT_FOUND = -32601
/** Requests that change nothing here and need no recording. */
const ACCEPTED = new Set(['ping', 'logging/setLevel', 'resources/subscribe', 'resources/unsubscribe'])

/** A channel on which a recording answers instead of a server. */
export function createReplayTransport(player: Player, scrub: Scrub): UpstreamTransport {
  const { server, transport: kind, handshake } = player
  let events: UpstreamTransportEvents | undefined
  let isClosed = false
  let questions = 0
  /** Recorded questions that wait for the client. */
  const openQuestions = new Map<string, (answer: Message) => void>()
  /** How often calls of this connection have changed each list. */
  const versions = new Map<string, number>()

  // The receiver changes messages in place.
  const emit = (message: Json, on: string): void => {
    if (isClosed) return
    events?.message(structuredClone({ jsonrpc: '2.0', ...message }) as Message, kind === 'http' ? on : undefined)
  }

  function answerTo(method: string, params: Json): RecordedAnswer {
    if (isHandshake(method))
      return handshake?.method === method
        ? { result: handshake.result }
        : { error: { code: METHOD_NOT_FOUND, message: `${method} is not recorded` } }
    const version = versions.get(method.split('/', 1)[0] as string) ?? 0
    const found = isList(method) ? player.list(method, params, version) : player.next(method, params)
    if (found) return found
    if (ACCEPTED.has(method)) return { result: {} }
    throw notRecorded(server, method, params, player.calls)
  }

  async function play(id: string | number, method: string, params: Json): Promise<void> {
    // As with a real channel, nothing arrives before `send` has returned.
    await Promise.resolve()
    const on = String(id)
    if (method === 'subscriptions/listen') {
      const { notifications } = params
      return emit(
        {
          method: 'notifications/subscriptions/acknowledged',
          params: { notifications, _meta: { [SUBSCRIPTION]: id } },
        },
        on,
      )
    }
    const { _meta } = params
    const token = asRecord(_meta)['progressToken']
    const own = scrub(withoutMeta(params))
    const { before = [], result, error, failed, after = [] } = answerTo(method, own)
    for (const event of before) await playEvent(event, on, token)
    if (failed) throw failureOf(failed)
    emit({ id, ...(error === undefined ? { result: result ?? {} } : { error }) }, on)
    for (const event of after) await playEvent(event, on, token)
  }

  async function playEvent(event: RecordedEvent, on: string, token: unknown): Promise<void> {
    if ('notification' in event) {
      const { method, params } = event.notification
      const list = changedList(method)
      if (list !== undefined) versions.set(list, (versions.get(list) ?? 0) + 1)
      if (method !== 'notifications/progress') return emit({ method, ...(params && { params }) }, on)
      if (token !== undefined) emit({ method, params: { ...params, progressToken: token } }, on)
      return
    }
    const { request, response } = event
    const id = `replay:${++questions}`
    const answered = new Promise<Message>((resolve) => openQuestions.set(id, resolve))
    emit({ id, method: request.method, ...(request.params && { params: request.params }) }, on)
    const answer = await answered
    // A model answers in other words each time, and roots differ between machines. A person's answer decides the result.
    if (request.method !== 'elicitation/create' || response === undefined) return
    const given = scrub({ result: withoutMeta(answer.result as Json) })
    const recorded = { result: withoutMeta(response['result'] as Json) }
    if (toCanonicalJson(given) !== toCanonicalJson(recorded))
      throw new PegboardError('E_NOT_RECORDED', 'its question was answered in another way when it was recorded', {
        hint: `Recorded answer: ${toCanonicalJson(recorded.result)}`,
      })
  }

  return {
    kind,
    async open(wired) {
      events = wired
    },
    send({ id, method, params = {}, ...answer }) {
      if (id === undefined) return undefined
      if (method !== undefined) return play(id, method, params)
      openQuestions.get(String(id))?.({ id, ...answer } as Message)
      openQuestions.delete(String(id))
      return undefined
    },
    async close() {
      if (isClosed) return
      isClosed = true
      openQuestions.clear()
      events?.closed('closed')
    },
    stderrTail: () => '',
  }
}

/** The error that the live channel had, so that it is explained in the same way. */
function failureOf({ reason, status, body }: NonNullable<RecordedAnswer['failed']>): Error {
  if (status !== undefined)
    return Object.assign(new Error(reason), { data: { status, ...(body === undefined ? {} : { text: body }) } })
  if (/^[A-Z][A-Z\d_]+$/.test(reason)) return Object.assign(new Error(reason), { code: reason })
  return new PegboardError('E_UPSTREAM_UNAVAILABLE', reason)
}
