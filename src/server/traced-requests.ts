import { errorCatalogue } from '../core/errors.ts'
import { asRecord, isRecord } from '../core/is-record.ts'
import { type Observer, type Operation, RUN_OF_A_TOOL, type TraceContext } from '../core/observer-types.ts'
import { isProtocolFailure } from '../core/protocol-failure.ts'
import type { Relay } from '../core/tool.ts'
import type { McpResult } from '../core/tool-result.ts'
import type { CallRequest } from '../exec/tool-calls.ts'
import { META_NAMES } from '../meta/surface.ts'
import type { BaseHost } from './server-host.ts'

export function traceRequest<T>(
  host: BaseHost,
  method: string,
  relay: Relay | undefined,
  work: () => Promise<T>,
): Promise<T> {
  const { observer } = host
  return observer ? observer.run(operationOf(method), work, parentIn(host, relay)) : work()
}

/** Traces a list, which is available at once. */
export function traceList<T>(host: BaseHost, meta: unknown, list: () => T): T {
  const { observer } = host
  if (!observer) return list()
  return observer.runSync(operationOf('tools/list'), list, isRecord(meta) ? parentIn(host, { meta }) : undefined)
}

/** Traces a call, most of whose failures are results. */
export function traceToolCall(
  observer: Observer,
  host: BaseHost,
  request: CallRequest,
  call: () => Promise<McpResult>,
): Promise<McpResult> {
  const { caller, name, relay } = request
  const operation = operationOf('tools/call')
  operation.attributes['gen_ai.operation.name'] = RUN_OF_A_TOOL
  if (caller.session !== undefined) operation.attributes['mcp.session.id'] = caller.session
  // Only known names: a client can write anything.
  const isMeta = META_NAMES.includes(name)
  const found = isMeta ? undefined : host.view(caller).resolve(name)
  const toolName = found?.kind === 'found' ? found.tool.tool.name : isMeta ? name : undefined
  if (toolName !== undefined) {
    operation.name = `tools/call ${toolName}`
    operation.attributes['gen_ai.tool.name'] = toolName
  }
  const work = async (): Promise<McpResult> => {
    try {
      const result = await call()
      const { structuredContent: content } = result
      if (result.isError === true) operation.error = ownCode(asRecord(content)['error']) ?? 'tool_error'
      return result
    } catch (error) {
      const code = isProtocolFailure(error) ? ownCode(error.data) : undefined
      if (code !== undefined) operation.error = code
      throw error
    }
  }
  return observer.run(operation, work, parentIn(host, relay))
}

const operationOf = (method: string): Operation => ({
  kind: 'request',
  name: method,
  attributes: { 'mcp.method.name': method },
})

/** The trace that a request names, if `trustMeta` allows it. */
const parentIn = ({ trustMeta }: BaseHost, relay: Pick<Relay, 'meta'> | undefined): TraceContext | undefined =>
  trustMeta === 'none' || relay?.meta['traceparent'] === undefined ? undefined : relay.meta

/** The code of an error of Pegboard; undefined for errors of tools. */
function ownCode(error: unknown): string | undefined {
  const code = asRecord(error)['code']
  return typeof code === 'string' && Object.hasOwn(errorCatalogue, code) ? code : undefined
}
