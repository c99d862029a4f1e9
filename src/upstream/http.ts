import type { SSEClientTransport, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { PegboardError } from '../core/errors.ts'
import type { Message } from '../core/jsonrpc.ts'
import type { Credentials } from './credentials.ts'
import { forgetDerived } from './derived.ts'
import { withExactBody } from './exact.ts'
import { serverRules } from './reach.ts'
import { networkReason, pegboardCause, sessionLost, statusOf } from './reasons.ts'
import type { HttpTarget, ServerSettings } from './settings.ts'
import type { Wire, WireEvents } from './wire.ts'

type Transport = StreamableHTTPClientTransport | SSEClientTransport

/** Streamable HTTP or HTTP+SSE, by the SDK's transports. Loads them, and the HTTP library, when called. */
export async function createHttpWire(
  settings: ServerSettings,
  target: HttpTarget,
  kind: 'http' | 'sse',
  credentials?: Credentials,
): Promise<Wire> {
  const unsent = Object.keys(target.headers).find((name) => !isHeader(name, String(target.headers[name])))
  // Whoever refuses it later says its value, too.
  if (unsent !== undefined)
    throw new PegboardError(
      'E_UPSTREAM_UNAVAILABLE',
      `its header ${unsent.slice(0, 80)} has characters that no header can carry (${settings.where}.headers)`,
    )
  const [sdk, { createHttpClient }] = await Promise.all([import('@modelcontextprotocol/client'), import('./fetch.ts')])
  const bearer = await credentials?.open()
  const client = await createHttpClient(serverRules(settings))
  let retryAfterMs: number | undefined
  let failed: unknown
  const fetch: typeof client.fetch = async (address, init) => {
    failed = undefined
    const answer = await client.fetch(address, init).catch((error: unknown) => {
      failed = error
      throw error
    })
    retryAfterMs = BUSY.has(answer.status) ? readRetryAfter(answer.headers.get('retry-after')) : undefined
    return await withExactBody(answer)
  }
  const options = {
    fetch: bearer?.watched(fetch) ?? fetch,
    requestInit: { headers: { ...target.headers } },
    reconnectionScheduler: reopen,
    ...(bearer ? { authProvider: bearer.provider, onInsufficientScope: 'throw' as const } : {}),
  }
  const url = new URL(target.url)
  const transport: Transport =
    kind === 'sse' ? new sdk.SSEClientTransport(url, options) : new sdk.StreamableHTTPClientTransport(url, options)
  let gone = false
  let sent = 0

  const sessionId = (): string | undefined => ('sessionId' in transport ? transport.sessionId : undefined)

  return {
    kind,
    streamPerRequest: kind === 'http',
    get sessionId() {
      return sessionId()
    },
    get retryAfterMs() {
      return retryAfterMs
    },
    async open(events: WireEvents) {
      const lost = (reason: string): void => {
        if (gone) return
        gone = true
        events.closed(reason)
      }
      transport.onmessage = (message: unknown) => events.message(message as Message)
      transport.onclose = () => lost('closed')
      transport.onerror = (error: Error) => {
        events.error(error)
        const reason = lossOf(error, kind, sessionId() !== undefined)
        // Later, so that the call that failed hears its own reason first.
        if (reason !== undefined) setImmediate(() => lost(reason))
      }
      await transport.start().catch((error: Error) => {
        // The library for event streams keeps of an error what it says, which is an address, and not what it is.
        if ('event' in error && error.cause === undefined && failed !== undefined) error.cause = failed
        throw error
      })
    },
    async send(message, options) {
      sent++
      if (sent % FORGET_EVERY === 0) forget(transport)
      try {
        await (transport as StreamableHTTPClientTransport).send(message as never, options as never)
      } catch (error) {
        throw pegboardCause(error) ?? (await bearer?.explain(error)) ?? error
      }
    },
    setProtocolVersion: (version) => transport.setProtocolVersion(version),
    async close(graceMs = 500) {
      const wasOpen = !gone
      gone = true
      if (wasOpen && 'terminateSession' in transport && sessionId() !== undefined)
        await Promise.race([
          transport.terminateSession().catch(() => undefined),
          new Promise((resolve) => setTimeout(resolve, graceMs).unref()),
        ])
      await transport.close()
      await client.close()
    },
    tail: () => '',
  }
}

const FORGET_EVERY = 1_000

/** Its signal is private to the library. */
function forget(transport: object): void {
  const { signal } = (transport as { readonly _abortController?: AbortController })._abortController ?? {}
  if (signal) forgetDerived(signal)
}

/** A server may say when a stream that ended is to be opened again: at once would be in a loop, and so would what no timer can count. */
const REOPEN = { soonestMs: 250, latestMs: 30_000 }

function reopen(open: () => void, wantedMs: number): () => void {
  const timer = setTimeout(open, Math.min(Math.max(wantedMs, REOPEN.soonestMs), REOPEN.latestMs))
  return () => clearTimeout(timer)
}

const isHeader = (name: string, value: string): boolean =>
  /^[\w!#$%&'*+.^`|~-]+$/.test(name) && /^[\t\x20-\x7e\x80-\xff]*$/.test(value.trim())

const BUSY = new Set([429, 503])

/** Seconds, or a date. */
function readRetryAfter(value: string | null): number | undefined {
  if (value === null) return undefined
  const ms = /^\d+$/.test(value.trim()) ? Number(value) * 1_000 : Date.parse(value) - Date.now()
  return ms > 0 ? ms : undefined
}

/** Why an error means that the connection is of no more use, if it does. */
function lossOf(error: Error, kind: 'http' | 'sse', hasSession: boolean): string | undefined {
  // Refused by us, or without a login: the connection itself is well.
  if (pegboardCause(error) !== undefined) return undefined
  // Answers come on this stream; the library would open another, to a session that does not know us.
  if (kind === 'sse' && 'event' in error) return 'the event stream ended'
  if (sessionLost(error, hasSession || kind === 'sse')) return 'it forgot the session'
  if (statusOf(error) !== undefined || error.name === 'AbortError') return undefined
  const network = networkReason(error)
  return network === 'network error' ? undefined : network
}
