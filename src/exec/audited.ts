import { monotonicMs } from '../core/clock.ts'
import { isPegboardError } from '../core/errors.ts'
import { plain } from '../core/plain.ts'
import type { ToolResult } from '../core/result.ts'
import type { Audit, AuditEntry } from '../observe/audit.ts'
import type { View } from '../view/view.ts'
import type { CallRequest } from './call.ts'
import { idOf, type Run } from './context.ts'
import type { OnGate } from './gate.ts'

const MAX_NAME = 200

/** Makes a call, and writes down what became of it: one line, whatever that was, and one for each question on the way. */
export async function recorded(
  audit: Audit,
  request: CallRequest,
  viewOf: (request: CallRequest) => View,
  call: (request: CallRequest, run: Run, told: OnGate) => Promise<ToolResult>,
): Promise<ToolResult> {
  const { caller } = request
  const run: Run = { id: undefined, tool: undefined }
  const beganAt = monotonicMs()
  let decision = 'allow'
  let setting: string | undefined
  const about = (): Pick<AuditEntry, 'callId' | 'tool' | 'principal' | 'profile'> => ({
    callId: idOf(run),
    tool: run.tool?.id ?? plain(request.name).slice(0, MAX_NAME),
    ...(run.tool ? { module: run.tool.module, effect: run.tool.effect } : {}),
    principal: caller.principal,
    profile: caller.profile,
    ...(request.depth ? { depth: request.depth } : {}),
    ...(request.origin === 'setup' ? { origin: 'setup' } : {}),
  })
  const end = (outcome: string, reason?: string): void =>
    audit.write({
      event: 'call',
      ...about(),
      decision,
      ...(setting === undefined ? {} : { setting }),
      ...(reason === undefined ? {} : { reason }),
      outcome,
      ms: Math.round(monotonicMs() - beganAt),
      ...audit.argumentsOf(request.input ?? {}),
    })
  try {
    const result = await call(request, run, (event, by) => {
      decision = event
      setting = by
      // The other two are told by the line of the call.
      if (event !== 'rate limit' && event !== 'unasked')
        audit.write({ event, ...about(), setting: by, ...audit.argumentsOf(request.input ?? {}) })
    })
    end(
      result.kind === 'value' ? 'ok' : result.kind === 'mcp' && result.result.isError !== true ? 'ok' : failed(result),
    )
    return result
  } catch (error) {
    const denied = run.tool === undefined ? whatWasMeant(request, run, viewOf) : undefined
    if (denied !== undefined) decision = 'deny'
    end(isPegboardError(error) ? error.code : 'E_INTERNAL', denied)
    throw error
  }
}

const failed = ({ kind }: ToolResult): string => (kind === 'mcp' ? 'error' : kind)

/** Which tool a call was of that did not come to run one; or why it is not there for this caller: for the operator alone. */
function whatWasMeant(request: CallRequest, run: Run, viewOf: (request: CallRequest) => View): string | undefined {
  if (request.origin === 'setup') return undefined
  const found = viewOf(request).resolve(request.name)
  if (found.kind === 'found') run.tool = found.tool.tool
  const name = request.name.toLowerCase()
  const bare = name.replaceAll(/__|[:/]/g, '.')
  for (const [id, { kind, reason }] of viewOf(request).hidden) {
    const known = id.toLowerCase()
    if (kind === 'denied' && (known === name || known === bare || known.replace(/^(?:mcp|api)_/, '') === bare))
      return reason
  }
  return undefined
}
