import type { Clock } from '../core/clock.ts'
import { attributeErrors } from '../core/error-attribution.ts'
import { asRecord, type Json } from '../core/is-record.ts'
import type { ToolResult } from '../core/tool-result.ts'
import { resultOf } from './api-answer.ts'
import type { Auth } from './api-auth.ts'
import { baseOf, buildRequest } from './build-request.ts'
import type { ApiSettings } from './openapi-options.ts'
import type { OperationRecord } from './operations.ts'
import type { OperationDefinition } from './plan-operation.ts'
import type { Send } from './send-request.ts'

export interface OperationCallOptions {
  readonly id: string
  readonly settings: ApiSettings
  readonly clock: Clock
  readonly auth: Auth
  readonly send: Send
}

/** Sends one call to the API, with credentials, and converts the response. @throws PegboardError */
export async function callOperation(
  { id, settings, clock, auth, send }: OperationCallOptions,
  { name, path, method }: OperationRecord,
  { plan, output }: OperationDefinition,
  input: unknown,
  document: Json,
  signal: AbortSignal,
): Promise<ToolResult> {
  const timeoutMs = settings.tools[name]?.timeoutMs ?? settings.timeoutMs
  const base = baseOf(id, plan, settings.baseUrl, settings.document)
  const sendRequest = async () => {
    const draft = buildRequest(path, plan, base, asRecord(input))
    for (const [header, value] of Object.entries(settings.headers)) draft.headers[header.toLowerCase()] = value
    await auth.sign(draft, plan, document, signal)
    const maxBytes = settings.maxResponseBytes
    return await send({ ...draft, method: method.toUpperCase(), timeoutMs, maxBytes, signal })
  }
  let response = await sendRequest()
  // The API did not execute the request, so it can be repeated safely.
  if (response.status === 401 && auth.discardTokens()) response = await sendRequest()
  const result = resultOf(`${id} ${name}`, response, auth.redact, output !== undefined, clock.now())
  attributeErrors(id, result)
  return { kind: 'mcp', result }
}
