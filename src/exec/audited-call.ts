import { monotonicMs } from '../core/clock.ts'
import { isPegboardError } from '../core/errors.ts'
import type { Observer } from '../core/observer-types.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import { toPrintable } from '../core/printable.ts'
import { sizeOf } from '../core/raw-result.ts'
import type { Tool } from '../core/tool.ts'
import type { ToolResult } from '../core/tool-result.ts'
import type { Audit, AuditEntry } from '../observe/audit-log.ts'
import type { View } from '../view/view.ts'
import type { OnGateEvent } from './approval-gate.ts'
import { idOf, type Run } from './call-context.ts'
import type { CallRequest } from './tool-calls.ts'

const MAX_NAME = 200

/** Tools that callers may not see. */
export interface HiddenTools {
  /** All tools in the catalog with this name, in any spelling. */
  named(name: string): readonly Tool[]
  /** A tool with this name that a setting of its server keeps out of the catalog. */
  leftOut(name: string): { readonly id: string; readonly setting: string } | undefined
}

export interface AuditedHost {
  readonly audit: Audit
  readonly viewOf: (request: CallRequest) => View
  readonly hiddenTools: HiddenTools
  readonly observer?: Observer | undefined
}

/**
 * Makes a call and writes one line to the audit log, whatever the result, and one line for each question to a person.
 */
export async function auditCall(
  host: AuditedHost,
  request: CallRequest,
  run: Run,
  call: (request: CallRequest, run: Run, onGate: OnGateEvent) => Promise<ToolResult>,
): Promise<ToolResult> {
  const { audit, observer } = host
  const { caller } = request
  const traceId = observer?.traceId
  const beganAt = monotonicMs()
  let decision = 'allow'
  let setting: string | undefined
  const describeCall = (
    tool: NamedTool | undefined = run.tool,
  ): Pick<AuditEntry, 'callId' | 'tool' | 'principal' | 'profile'> => ({
    callId: idOf(run),
    ...(traceId === undefined ? {} : { traceId }),
    tool: tool?.id ?? toPrintable(request.name).slice(0, MAX_NAME),
    ...omitUndefined({ module: tool?.module, effect: tool?.effect }),
    ...(tool?.origin === 'upstream' ? { server: tool.module.replace(/^mcp_/, '') } : {}),
    principal: caller.principal,
    profile: caller.profile,
    ...(request.depth ? { depth: request.depth } : {}),
    ...(request.origin === 'setup' ? { origin: 'setup' } : {}),
  })
  const writeCall = (outcome: string, { denial, result }: { denial?: Denial; result?: ToolResult } = {}): void =>
    audit.write({
      event: 'call',
      ...describeCall(denial?.tool),
      decision,
      ...(setting === undefined ? {} : { setting }),
      ...(denial === undefined ? {} : { reason: denial.reason }),
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
    writeCall(statusOfResult(result), { result })
    return result
  } catch (error) {
    const code = isPegboardError(error) ? error.code : 'E_INTERNAL'
    // A tool may have been removed while its call waited.
    const denial = run.tool === undefined || code === 'E_NOT_FOUND' ? findDenial(host, request, run) : undefined
    if (denial) decision = 'deny'
    else if (run.tool === undefined && code === 'E_NOT_FOUND') decision = 'unknown'
    writeCall(code, denial && { denial })
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
    // Sending the result will fail, too.
    return undefined
  }
}

/** A tool as the log names it. */
type NamedTool = Pick<Tool, 'id' | 'module' | 'origin'> & Partial<Pick<Tool, 'effect'>>

interface Denial {
  /** Undefined if the name means several denied tools. */
  readonly tool?: NamedTool | undefined
  readonly reason: string
}

/**
 * Why the caller cannot see the tool that it called; undefined if it can, or if there is no such tool. Records a visible
 * tool in `run`.
 */
function findDenial(
  { viewOf, hiddenTools }: Pick<AuditedHost, 'viewOf' | 'hiddenTools'>,
  request: CallRequest,
  run: Run,
): Denial | undefined {
  if (request.origin === 'setup') return undefined
  const view = viewOf(request)
  const toDenial = (tool: Tool): Denial[] => {
    const hidden = view.hidden.get((tool.itself ?? tool).id)
    return hidden?.kind === 'denied' ? [{ tool, reason: hidden.reason }] : []
  }
  const [ofTool] = run.tool ? toDenial(run.tool) : []
  if (ofTool) return ofTool
  const name = request.name.trim()
  const found = view.resolve(name)
  if (found.kind === 'found') {
    run.tool ??= found.tool.tool
    return undefined
  }
  const [first, ...others] = hiddenTools.named(name).flatMap(toDenial)
  if (first) return others.length === 0 ? first : { reason: first.reason }
  const leftOut = hiddenTools.leftOut(name)
  if (!leftOut) return undefined
  const { id, setting } = leftOut
  return { tool: { id, module: id.slice(0, id.indexOf('.')), origin: 'upstream' }, reason: `left out by ${setting}` }
}
