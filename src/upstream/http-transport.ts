import { setMaxListeners } from 'node:events'
import type { SSEClientTransport, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { PegboardError } from '../core/errors.ts'
import type { Message } from '../core/jsonrpc.ts'
import { parseRetryAfter } from '../core/retry-after.ts'
import { createSemaphore } from '../core/semaphore.ts'
import { waitAtMost } from '../core/wait-at-most.ts'
import { networkReason, pegboardCause, sessionLost, statusOf } from './error-reasons.ts'
import { withExactBody } from './exact-integers.ts'
import { answeredId } from './fast-requests.ts'
import type { Credentials } from './http-credentials.ts'
import { mediaTypeOf } from './media-type.ts'
import type { LongEvents } from './rewrite-events.ts'
import { serverRules } from './server-network-rules.ts'
import type { UpstreamTransport, UpstreamTransportEvents } from './transport.ts'
import type { HttpTarget, ServerSettings } from './upstream-settings.ts'

/** The same limit as for a line of a local server. */
const MAX_ANSWER = 16 * 1024 * 1024
/** Limit of an event while no answer is pending, as for a line of a local server. */
const MAX_UNASKED = 1024 * 1024

type Transport = StreamableHTTPClientTransport | SSEClientTransport

/** Streamable HTTP or HTTP+SSE, using the SDK's transports, which are loaded on first use. */
export async function createHttpTransport(
  settings: ServerSettings,
  target: HttpTarget,
  kind: 'http' | 'sse',
  credentials: Credentials,
  maxAnswerBytes = MAX_ANSWER,
): Promise<UpstreamTransport> {
  const invalidHeader = Object.keys(target.headers).find((name) => !isHeader(name, String(target.headers[name])))
  // Checked here, because a later error would quote the value.
  if (invalidHeader !== undefined)
    throw new PegboardError(
      'E_UPSTREAM_UNAVAILABLE',
      `its header ${invalidHeader.slice(0, 80)} has characters that no header can carry (${settings.where}.headers)`,
    )
  const [sdk, { createHttpClient }] = await Promise.all([
    import('@modelcontextprotocol/client'),
    import('./http-client.ts'),
  ])
  const bearer = await credentials.open()
  const client = await createHttpClient(serverRules(settings), MAX_ANSWER, Number.POSITIVE_INFINITY)
  let retryAfterMs: number | undefined
  let failed: unknown
  let currentEvents: UpstreamTransportEvents | undefined
  const maxEventBytes = { nothing: MAX_UNASKED, calls: Math.min(maxAnswerBytes, MAX_ANSWER), lists: MAX_ANSWER }
  const long: LongEvents = {
    isOver: (bytes) => bytes > MAX_UNASKED && bytes > maxEventBytes[currentEvents?.awaited() ?? 'lists'],
    dropped: (head, tail, bytes) => currentEvents?.oversize(answeredId(head, tail), bytes),
  }
  const fetch: typeof client.fetch = async (address, init) => {
    failed = undefined
    const answer = await client.fetch(address, init).catch((error: unknown) => {
      failed = error
      throw error
    })
    retryAfterMs = BUSY.has(answer.status) ? parseRetryAfter(answer.headers.get('retry-after'), Date.now()) : undefined
    const asksForEvents = kind === 'http' && init?.method === 'GET'
    const hasEvents = mediaTypeOf(answer.headers.get('content-type')) === 'text/event-stream'
    // The SDK would parse any response as events.
    if (asksForEvents && answer.ok && !hasEvents) return new Response(null, { status: 405 })
    return await withExactBody(answer, long)
  }
  const options = {
    fetch: bearer?.watched(fetch) ?? fetch,
    requestInit: { headers: { ...target.headers } },
    reconnectionScheduler: (open: () => void, wantedMs: number) => reopen(open, wantedMs, waiting),
    ...(bearer ? { authProvider: bearer.provider, onInsufficientScope: 'throw' as const } : {}),
  }
  const url = new URL(target.url)
  const transport: Transport =
    kind === 'sse' ? new sdk.SSEClientTransport(url, options) : new sdk.StreamableHTTPClientTransport(url, options)
  const waiting = new Set<NodeJS.Timeout>()
  let gone = false
  const limitAnswers = createAnswerLimit()

  const sessionId = (): string | undefined => ('sessionId' in transport ? transport.sessionId : undefined)

  return {
    kind,
    get sessionId() {
      return sessionId()
    },
    get retryAfterMs() {
      return retryAfterMs
    },
    async open(events: UpstreamTransportEvents) {
      const lost = (reason: string): void => {
        if (gone) return
        gone = true
        events.closed(reason)
      }
      currentEvents = events
      transport.onmessage = (message: unknown) => events.message(message as Message)
      transport.onclose = () => lost('closed')
      transport.onerror = (error: Error) => {
        events.error(error)
        const reason = lossOf(error, kind, sessionId() !== undefined)
        // Delayed, so that the failed call gets its own reason first.
        if (reason !== undefined) setImmediate(() => lost(reason))
      }
      await transport.start().catch((error: Error) => {
        // The event stream library keeps an error's message, which contains an address, and drops its cause.
        if ('event' in error && error.cause === undefined && failed !== undefined) error.cause = failed
        throw error
      })
    },
    async send(message, options) {
      try {
        const sender =
          kind === 'http' && hasOwnStream(message)
            ? withOwnStream(transport, String(message.id), currentEvents)
            : transport
        const post = () => (sender as StreamableHTTPClientTransport).send(message as never, options as never)
        await (message.method === undefined ? limitAnswers(post) : post())
      } catch (error) {
        throw pegboardCause(error) ?? (await bearer?.explain(error)) ?? error
      }
    },
    setProtocolVersion: (version) => transport.setProtocolVersion(version),
    async close(graceMs = 500) {
      const wasOpen = !gone
      gone = true
      if (wasOpen && 'terminateSession' in transport && sessionId() !== undefined)
        await waitAtMost(
          graceMs,
          transport.terminateSession().catch(() => undefined),
        )
      for (const timer of waiting) clearTimeout(timer)
      await transport.close()
      await client.close()
    },
    stderrTail: () => '',
  }
}

/**
 * Answers to the server's requests. Each uses a connection that the server may keep open, so their number is limited.
 */
const ANSWERS = { maxConcurrent: 32, maxQueued: 1_000, setting: '' }

function createAnswerLimit(): (work: () => Promise<void>) => Promise<void> {
  const slots = createSemaphore(ANSWERS)
  const never = new AbortController().signal
  // One listener for each queued answer.
  setMaxListeners(0, never)
  return async (work) => {
    try {
      await slots.acquire(never)
    } catch {
      // Dropped silently, because the server asks without end.
      return
    }
    try {
      await work()
    } finally {
      slots.release()
    }
  }
}

/**
 * A server may choose when a closed stream is reopened: zero would be a loop, and a huge value would overflow a
 * timer.
 */
const REOPEN = { soonestMs: 250, latestMs: 30_000 }

function reopen(open: () => void, wantedMs: number, waiting: Set<NodeJS.Timeout>): void {
  const timer = setTimeout(
    () => {
      waiting.delete(timer)
      open()
    },
    Math.min(Math.max(wantedMs, REOPEN.soonestMs), REOPEN.latestMs),
  )
  waiting.add(timer)
}

// The SDK stores the session in the object that `initialize` is sent with.
const hasOwnStream = ({ id, method }: Message): boolean =>
  id !== undefined && method !== undefined && method !== 'initialize'

/**
 * The SDK does not tell on which stream a message arrived, but calls `onmessage` of the object that sent the request,
 * even after resuming. So each request is sent with its own object derived from the transport.
 */
function withOwnStream(transport: Transport, id: string, events: UpstreamTransportEvents | undefined): Transport {
  const derived = Object.create(transport) as Transport
  derived.onmessage = (message: unknown) => events?.message(message as Message, id)
  return derived
}

const isHeader = (name: string, value: string): boolean =>
  /^[\w!#$%&'*+.^`|~-]+$/.test(name) && /^[\t\x20-\x7e\x80-\xff]*$/.test(value.trim())

const BUSY = new Set([429, 503])

/** Why an error means that the connection is lost; undefined if it does not. */
function lossOf(error: Error, kind: 'http' | 'sse', hasSession: boolean): string | undefined {
  // Rejected by Pegboard, or a missing login: the connection itself is fine.
  if (pegboardCause(error) !== undefined) return undefined
  // Answers arrive on this stream; a new one would belong to a session that does not know the requests.
  if (kind === 'sse' && 'event' in error) return 'the event stream ended'
  if (sessionLost(error, hasSession || kind === 'sse')) return 'it lost the session'
  if (statusOf(error) !== undefined || error.name === 'AbortError') return undefined
  const network = networkReason(error)
  return network === 'network error' ? undefined : network
}
