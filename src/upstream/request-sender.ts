import { isPegboardError } from '../core/errors.ts'
import type { Json } from '../core/is-record.ts'
import { type Observer, type Operation, RUN_OF_A_TOOL } from '../core/observer-types.ts'
import type { RequestOptions } from './connection.ts'
import { SESSION_LOST } from './fast-requests.ts'
import type { ReconnectingLink } from './reconnecting-link.ts'
import type { CallsHost } from './server-calls.ts'

/** Sends a request on one connection of the server. Connects first if necessary. */
export type SendRequest = (
  via: ReconnectingLink,
  method: string,
  params: Json,
  options: RequestOptions,
) => Promise<Json>

/**
 * Creates the function that sends all requests of clients to one server. It reports the result of each request to the
 * connection and to telemetry, and repeats a request once if the server has forgotten the session.
 */
export function createRequestSender(host: CallsHost): SendRequest {
  const { id, settings, link, idle } = host
  const { observer } = host.shared

  const send: SendRequest = (via, ...request) =>
    // Other connections count their own use.
    via === link ? idle.during(() => sendAndReport(via, ...request)) : sendAndReport(via, ...request)

  async function sendAndReport(
    via: ReconnectingLink,
    method: string,
    params: Json,
    options: RequestOptions,
  ): Promise<Json> {
    const { signal } = options
    const connection = via.live() ?? (await via.ready(signal))
    try {
      const result = await connection.request(method, params, options)
      via.worked()
      if (via === link) host.recovered()
      return result
    } catch (error) {
      const why = rejectedLogin(error)
      if (via === link && why !== undefined) host.refused(why)
      if (!isPegboardError(error) || error.code !== 'E_UPSTREAM_UNAVAILABLE') throw error
      if (error.cause !== SESSION_LOST) {
        // The request may have run, so Pegboard does not repeat it. A child process reports a failure by its exit.
        if (error.retryable && connection.transport !== 'stdio') via.troubled(connection, error)
        throw error
      }
      // The server did not process the request, so repeating it is safe.
      via.lost(connection, 'it lost the session', 0)
      return await (await via.ready(signal)).request(method, params, options)
    }
  }

  function sendObserved(
    observer: Observer,
    via: ReconnectingLink,
    method: string,
    params: Json,
    options: RequestOptions,
  ): Promise<Json> {
    const { target } = settings()
    const operation = describeRequest(id, target.kind === 'stdio' ? undefined : new URL(target.url), method, params)
    return observer.run(operation, async () => {
      const { relay } = options
      const tracedRelay = relay && { ...relay, meta: observer.addTraceContext(relay.meta) }
      const result = await send(via, method, params, { ...options, relay: tracedRelay })
      if (result['isError'] === true) operation.error = 'tool_error'
      return result
    })
  }

  return observer ? (...request) => sendObserved(observer, ...request) : send
}

/** The request as an operation for telemetry. @param url of a remote server */
function describeRequest(id: string, url: URL | undefined, method: string, { name }: Json): Operation {
  const isToolCall = method === 'tools/call'
  return {
    kind: 'upstream',
    name: isToolCall ? `${method} ${name}` : method,
    attributes: {
      'mcp.method.name': method,
      'pegboard.server': id,
      'network.transport': url ? 'tcp' : 'pipe',
      ...(url ? { 'server.address': url.hostname } : {}),
      ...(url?.port ? { 'server.port': Number(url.port) } : {}),
      ...(isToolCall ? { 'gen_ai.operation.name': RUN_OF_A_TOOL, 'gen_ai.tool.name': String(name) } : {}),
    },
  }
}

/**
 * Why the server rejected the login; undefined for other errors. A scope that is missing for one call does not count,
 * because the login still works for other calls.
 */
export function rejectedLogin(error: unknown): string | undefined {
  if (!isPegboardError(error) || error.code !== 'E_AUTH_REQUIRED') return undefined
  return isPegboardError(error.cause) && error.cause.data === undefined ? error.cause.message : undefined
}
