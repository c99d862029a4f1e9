import { errorCatalogue } from '../core/errors.ts'
import { type Observer, type Operation, RUN_OF_A_TOOL, type TraceContext } from '../core/observer.ts'
import { isRecord } from '../core/record.ts'
import type { McpResult } from '../core/result.ts'
import type { Relay } from '../core/tool.ts'
import type { CallRequest } from '../exec/call.ts'
import { META_NAMES } from '../meta/surface.ts'
import type { ServerHost } from './host.ts'

/** Answers a request of a client as an operation. */
export function toldOfRequest<T>(
  host: ServerHost,
  method: string,
  relay: Relay | undefined,
  work: () => Promise<T>,
): Promise<T> {
  const { observer } = host
  return observer ? observer.run(operationOf(method), work, parentIn(host, relay)) : work()
}

/** The same of a list, which is there at once. */
export function toldOfList<T>(host: ServerHost, meta: unknown, list: () => T): T {
  const { observer } = host
  if (!observer) return list()
  return observer.note(operationOf('tools/list'), list, isRecord(meta) ? parentIn(host, { meta }) : undefined)
}

/** The same of a call, whose failures are answers. */
export function toldOfCall(
  observer: Observer,
  host: ServerHost,
  request: CallRequest,
  call: () => Promise<McpResult>,
): Promise<McpResult> {
  const { caller, name, relay } = request
  const operation = operationOf('tools/call')
  operation.attributes['gen_ai.operation.name'] = RUN_OF_A_TOOL
  if (caller.session !== undefined) operation.attributes['mcp.session.id'] = caller.session
  // Any other name is what a client wrote.
  const found = META.has(name) ? undefined : host.view(caller).resolve(name)
  const known = found?.kind === 'found' ? found.tool.tool.name : META.has(name) ? name : undefined
  if (known !== undefined) {
    operation.name = `tools/call ${known}`
    operation.attributes['gen_ai.tool.name'] = known
  }
  const work = async (): Promise<McpResult> => {
    const result = await call()
    if (result.isError === true) operation.error = codeIn(result)
    return result
  }
  return observer.run(operation, work, parentIn(host, relay))
}

const META: ReadonlySet<string> = new Set(META_NAMES)

const operationOf = (method: string): Operation => ({
  kind: 'request',
  name: method,
  attributes: { 'mcp.method.name': method },
})

/** Which trace a request belongs to is one of the things it says of itself. */
const parentIn = ({ trustMeta }: ServerHost, relay: Pick<Relay, 'meta'> | undefined): TraceContext | undefined =>
  trustMeta === 'none' || relay?.meta['traceparent'] === undefined ? undefined : relay.meta

/** One of our codes; whatever else a tool says of its failure is its own. */
function codeIn({ structuredContent }: McpResult): string {
  const error = isRecord(structuredContent) ? structuredContent['error'] : undefined
  const code = isRecord(error) ? error['code'] : undefined
  return typeof code === 'string' && Object.hasOwn(errorCatalogue, code) ? code : 'tool_error'
}
