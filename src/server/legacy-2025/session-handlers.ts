import { ProtocolError, type Server } from '@modelcontextprotocol/server'
import type { Owner } from '../../catalog/owner.ts'
import { ownerOfResource } from '../../catalog/resource-owner.ts'
import type { Json } from '../../core/is-record.ts'
import { noRelay, type Relay, relayOf } from '../../core/tool.ts'
import { type RequestReader, servePassThrough } from '../pass-through.ts'
import type { RequestBuilder } from '../request-builder.ts'
import type { ServerHost } from '../server-host.ts'
import { MAX_SUBSCRIPTIONS, MAX_URI_CHARS } from '../subscription-limits.ts'
import { serveLegacyTasks } from './legacy-tasks.ts'

/** Time limit for requests to servers that no client waits for, in milliseconds. */
const SHORT_MS = 5_000

/**
 * Serves what 2025 clients send besides calls and lists of tools: resources, prompts, subscriptions, log levels and tasks.
 * @returns what to call when the session ends
 */
export function serveSession(
  server: Server,
  host: ServerHost,
  requests: RequestBuilder,
  reader: RequestReader,
): () => void {
  const { connection, subscribed } = requests
  const missed = new Set<string | number>()
  const toResource = servePassThrough(server, host, { ...reader, missed: (id) => void missed.add(id) })
  changeAnswers(server, requests, missed)
  serveLegacyTasks(server, host, reader)

  /** Sends a request to a server that no client waits for. */
  const ask = (owner: Owner | undefined, method: string, params: Json, relay: Relay): void =>
    void owner?.endpoints
      ?.request(method, params, relay, AbortSignal.timeout(SHORT_MS))
      .catch((error) => host.log.debug(`${method} failed`, { owner: owner.id, error }))

  server.setRequestHandler('logging/setLevel', ({ params: { level } }, ctx) => {
    requests.logLevel = level
    // A server sends messages at the lowest level that any client requested, and each session filters its own. A server
    // that does not answer must not delay the response.
    for (const owner of host.view(reader.caller(ctx)).owners)
      ask(owner, 'logging/setLevel', { level }, reader.relay(ctx))
    return {}
  })
  server.setRequestHandler('resources/subscribe', async ({ params }, ctx) => {
    const { uri } = params
    // Its owner counts each session once, even for requests that arrive together.
    if (subscribed.has(uri)) return {}
    if (uri.length > MAX_URI_CHARS || subscribed.size >= MAX_SUBSCRIPTIONS)
      throw new ProtocolError(
        -32602,
        `A client may subscribe to ${MAX_SUBSCRIPTIONS} resources, with URIs of up to ${MAX_URI_CHARS} characters`,
      )
    subscribed.set(uri, reader.caller(ctx))
    try {
      await toResource('resources/subscribe', params, ctx)
    } catch (error) {
      subscribed.delete(uri)
      throw error
    }
    return {}
  })
  server.setRequestHandler('resources/unsubscribe', async ({ params }, ctx) => {
    // The owner would count down the subscription of another client.
    if (subscribed.delete(params.uri)) await toResource('resources/unsubscribe', params, ctx)
    return {}
  })

  return () => {
    // Servers count subscribers, and a client that disconnects seldom unsubscribes.
    if (requests.logLevel !== undefined)
      for (const owner of host.view(requests.callerFor()).owners)
        ask(owner, 'logging/setLevel', {}, { ...noRelay, connection })
    for (const [uri, caller] of subscribed)
      ask(ownerOfResource(host.view(caller).owners, uri), 'resources/unsubscribe', { uri }, relayOf(caller))
  }
}

/** Changes answers of the SDK: that to `initialize`, and the error code for a resource that does not exist. */
function changeAnswers(server: Server, requests: RequestBuilder, missed: Set<string | number>): void {
  const connect = server.connect.bind(server)
  server.connect = (transport) => {
    const send = transport.send.bind(transport)
    let isOpen = false
    transport.send = (message, options) => {
      if ('result' in message && !isOpen) {
        isOpen = true
        const { protocolVersion } = message.result as { readonly protocolVersion?: unknown }
        if (typeof protocolVersion === 'string')
          return send({ ...message, result: requests.initializeResult(protocolVersion) }, options)
      }
      // The SDK writes -32602, which is the code of 2026.
      if ('error' in message && missed.delete(message.id as string | number))
        return send({ ...message, error: { ...message.error, code: -32002 } }, options)
      return send(message, options)
    }
    return connect(transport)
  }
}
