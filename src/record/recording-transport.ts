import { isPegboardError } from '../core/errors.ts'
import { isRecord, type Json } from '../core/is-record.ts'
import type { Message } from '../core/jsonrpc.ts'
import { changedList } from '../core/list-kinds.ts'
import { networkReason, sessionLost, statusOf } from '../upstream/error-reasons.ts'
import type { SendOptions, UpstreamTransport } from '../upstream/transport.ts'
import { isDefinitions, isHandshake, isList, type RecordedAnswer, type RecordedEvent, withoutMeta } from './cassette.ts'
import type { Tape } from './recorder.ts'
import type { Scrubber } from './scrubber.ts'

interface Open {
  readonly method: string
  readonly params: Json
  readonly before: RecordedEvent[]
  /** For a list: its version when it was asked for. */
  readonly version: number
}

/** Limit for the events of one call, because a server may send notifications without end. */
const MAX_EVENTS = 1_000
/** List changes have room after other events: a replay needs them. */
const MAX_WITH_CHANGES = 2 * MAX_EVENTS
/** Answered by Pegboard itself, or about the connection. */
const NOT_RECORDED = new Set(['ping', 'subscriptions/listen'])

/** Passes everything on unchanged, and writes requests with their answers to a tape. */
export function createRecordingTransport(
  transport: UpstreamTransport,
  tape: () => Tape,
  { all: scrub, known }: Scrubber,
): UpstreamTransport {
  const open = new Map<string, Open>()
  /** Requests of the server that wait for the client. */
  const openQuestions = new Map<string, RecordedEvent & { response?: Json | undefined }>()
  /** How often calls of this connection have changed each list. */
  const versions = new Map<string, number>()
  let closing = false
  let lastCall: RecordedAnswer | undefined

  const finish = (id: string, outcome: RecordedAnswer): void => {
    const one = open.get(id)
    if (!one) return
    open.delete(id)
    const { method, params, version, before } = one
    const answer: RecordedAnswer = {
      ...(before.length > 0 ? { before } : {}),
      ...(isDefinitions(method) ? known : scrub)(outcome),
    }
    if (isHandshake(method)) {
      if (answer.result) tape().handshake(method, answer.result)
    } else if (isList(method)) {
      if (!answer.failed) tape().list(method, params, version, answer)
    } else {
      lastCall = answer
      tape().call(method, params, answer)
    }
  }

  /** The call that a message belongs to: that of its stream, or else the latest one. */
  const callFor = (on: string | undefined): Open | undefined => {
    const isCall = (one: Open | undefined): boolean =>
      one !== undefined && !isHandshake(one.method) && !isList(one.method)
    const own = on === undefined ? undefined : open.get(on)
    return isCall(own) ? own : [...open.values()].findLast(isCall)
  }

  /** A server may report a change after the answer to the call that caused it. */
  const noteChange = (list: string, method: string, on: string | undefined): void => {
    const call = callFor(on)
    if (!call && lastCall) lastCall.after ??= []
    const events = call?.before ?? lastCall?.after
    if (!events || events.length >= MAX_WITH_CHANGES) return
    events.push({ notification: { method } })
    if (!call) tape().changed()
    versions.set(list, (versions.get(list) ?? 0) + 1)
  }

  const hear = ({ id, method, params, result, error }: Message, on?: string): void => {
    if (method === undefined) {
      if (id === undefined) return
      if (error !== undefined) finish(String(id), { error })
      else if (isRecord(result)) finish(String(id), { result })
      else open.delete(String(id))
      return
    }
    if (id !== undefined && NOT_RECORDED.has(method)) return
    const list = id === undefined ? changedList(method) : undefined
    if (list !== undefined) {
      noteChange(list, method, on)
      return
    }
    const token = method === 'notifications/progress' ? params?.['progressToken'] : undefined
    const call = token === undefined ? callFor(on) : open.get(String(token))
    if (!call || call.before.length >= MAX_EVENTS || method === 'notifications/cancelled') return
    const { progressToken: _token, ...rest } = withoutMeta(params)
    const message = { method, ...(Object.keys(rest).length > 0 ? { params: scrub(rest) } : {}) }
    if (id === undefined) call.before.push({ notification: message })
    else {
      const event = { request: message }
      openQuestions.set(String(id), event)
      call.before.push(event)
    }
  }

  const say = ({ id, method, params, result, error }: Message): void => {
    if (method === 'notifications/cancelled') open.delete(String(params?.['requestId']))
    if (id === undefined) return
    const key = String(id)
    if (method === undefined) {
      const event = openQuestions.get(key)
      openQuestions.delete(key)
      if (event) event.response = scrub(error === undefined ? { result } : { error })
    } else if (!NOT_RECORDED.has(method)) {
      const version = versions.get(method.split('/', 1)[0] as string) ?? 0
      open.set(key, { method, params: scrub(withoutMeta(params)), before: [], version })
    }
  }

  const fail = (id: string, error: unknown, options: SendOptions | undefined): void => {
    const status = statusOf(error)
    const reason = status === undefined ? networkReason(error) : `HTTP ${status}`
    const isKnown = status !== undefined || reason !== 'network error'
    // What policy refuses, what nobody waited for, and what is sent again is not an answer of the server.
    if (!isKnown || isPegboardError(error) || options?.requestSignal?.aborted || sessionLost(error, hasSession())) {
      open.delete(id)
      return
    }
    const body = (error as { data?: { text?: unknown } }).data?.text
    finish(id, {
      failed: {
        reason,
        ...(status === undefined ? {} : { status }),
        ...(typeof body === 'string' ? { body } : {}),
      },
    })
  }

  const hasSession = (): boolean => transport.sessionId !== undefined || transport.kind === 'sse'

  // Getters such as `sessionId` stay those of the transport.
  const own: Pick<UpstreamTransport, 'open' | 'send' | 'close'> = {
    async open(events) {
      // A recording that cannot be continued is reported before anything is called.
      tape()
      await transport.open({
        ...events,
        message(message, on) {
          hear(message, on)
          events.message(message, on)
        },
        closed(reason) {
          // Calls that end because Pegboard stops have no answer.
          for (const id of closing ? [] : [...open.keys()]) finish(id, { failed: { reason } })
          events.closed(reason)
        },
        oversize(id, bytes, why) {
          if (id !== undefined) open.delete(id)
          events.oversize(id, bytes, why)
        },
      })
    },
    send(message, options) {
      say(message)
      const sent = transport.send(message, options)
      const { id, method } = message
      if (id === undefined || method === undefined) return sent
      return sent?.catch((error: unknown) => {
        fail(String(id), error, options)
        throw error
      })
    },
    close(graceMs) {
      closing = true
      return transport.close(graceMs)
    },
  }
  return Object.assign(Object.create(transport) as UpstreamTransport, own)
}
