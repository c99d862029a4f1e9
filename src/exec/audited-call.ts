import { monotonicMs } from '../core/clock.ts'
import { isPegboardError } from '../core/errors.ts'
import type { Observer } from '../core/observer-types.ts'
import { toPrintable } from '../core/printable.ts'
import { sizeOf } from '../core/raw-result.ts'
import { removeOwnerPrefix } from '../core/tool-names.ts'
import type { ToolResult } from '../core/tool-result.ts'
import type { Audit, AuditEntry } from '../observe/audit-log.ts'
import type { View } from '../view/view.ts'
import type { OnGateEvent } from './approval-gate.ts'
import { idOf, type Run } from './call-context.ts'
import type { CallRequest } from './tool-calls.ts'

const MAX_NAME = 200

export interface AuditedHost {
  readonly audit: Audit
  readonly viewOf: (request: CallRequest) => View
  readonly observer?: Observer | undefined
}

/**
 * Makes a call and writes one line to the audit log, whatever the result, and one line for each question to a person.
 */
export async function auditCall(
  { audit, viewOf, observer }: AuditedHost,
  request: CallRequest,
  call: (request: CallRequest, run: Run, onGate: OnGateEvent) => Promise<ToolResult>,
  run: Run = { id: request.callId, tool: undefined },
): Promise<ToolResult> {
  const { caller } = request
  const traceId = observer?.traceId
  const beganAt = monotonicMs()
  let decision = 'allow'
  let setting: string | undefined
  const describeCall = (): Pick<AuditEntry, 'callId' | 'tool' | 'principal' | 'profile'> => ({
    callId: idOf(run),
    ...(traceId === undefined ? {} : { traceId }),
    tool: run.tool?.id ?? toPrintable(request.name).slice(0, MAX_NAME),
    ...(run.tool ? { module: run.tool.module, effect: run.tool.effect } : {}),
    ...(run.tool?.origin === 'upstream' ? { server: run.tool.module.replace(/^mcp_/, '') } : {}),
    principal: caller.principal,
    profile: caller.profile,
    ...(request.depth ? { depth: request.depth } : {}),
    ...(request.origin === 'setup' ? { origin: 'setup' } : {}),
  })
  const writeCall = (outcome: string, reason?: string, result?: ToolResult): void =>
    audit.write({
      event: 'call',
      ...describeCall(),
      decision,
      ...(setting === undefined ? {} : { setting }),
      ...(reason === undefined ? {} : { reason }),
      outcome,
      ...(run.failure === undefined ? {} : { class: run.failure }),
      ...(run.secrets === undefined ? {} : { secrets: run.secrets }),
      ms: Math.round(monotonicMs() - beganAt),
      ...(result ? { bytesOut: bytesOf(result) } : {}),
      ...audit.argumentsOf(request.input ?? {}),
    })
  try {
    const result = await call(request, run, (event, gateSetting) => {
      decision = event
      setting = gateSetting
      // A rate limit or a missing approval ends the call, so the line of the call reports it.
      if (event !== 'rate limit' && event !== 'unasked')
        audit.write({ event, ...describeCall(), setting: gateSetting, ...audit.argumentsOf(request.input ?? {}) })
    })
    writeCall(statusOfResult(result), undefined, result)
    return result
  } catch (error) {
    // A tool may have been removed while its call waited.
    const isGone = isPegboardError(error) && error.code === 'E_NOT_FOUND'
    const denied = run.tool === undefined || isGone ? reasonOfDenial(request, run, viewOf) : undefined
    if (denied !== undefined) decision = 'deny'
    writeCall(isPegboardError(error) ? error.code : 'E_INTERNAL', denied)
    throw error
  }
}

export function statusOfResult(result: ToolResult): string {
  if (result.kind === 'input_required') return result.kind
  return result.kind === 'mcp' && result.result.isError === true ? 'error' : 'ok'
}

/** Size of what the client receives; `undefined` if JSON cannot express it. */
export function bytesOf(result: ToolResult): number | undefined {
  if (result.kind !== 'value') return sizeOf(result.result)
  try {
    return Buffer.byteLength(JSON.stringify(result.value) ?? '')
  } catch {
    // Sending it will fail.
    return undefined
  }
}

/**
 * Why the caller cannot see the tool that it called; undefined if it can, or if there is no such tool. Records a visible
 * tool in `run`.
 */
function reasonOfDenial(request: CallRequest, run: Run, viewOf: (request: CallRequest) => View): string | undefined {
  if (request.origin === 'setup') return undefined
  const { tool } = run
  const hiddenTool = tool && viewOf(request).hidden.get((tool.itself ?? tool).id)
  if (hiddenTool?.kind === 'denied') return hiddenTool.reason
  const found = viewOf(request).resolve(request.name)
  if (found.kind === 'found') run.tool ??= found.tool.tool
  const name = request.name.toLowerCase()
  const dotted = name.replaceAll(/__|[:/]/g, '.')
  for (const [id, { kind, reason }] of viewOf(request).hidden) {
    const lowerId = id.toLowerCase()
    if (kind === 'denied' && (lowerId === name || lowerId === dotted || removeOwnerPrefix(lowerId) === dotted))
      return reason
  }
  return undefined
}
