import { PegboardError } from '../core/errors.ts'
import type { CallRequest } from '../exec/tool-calls.ts'
import type { ViewTool } from '../view/view.ts'
import { FINDERS } from './execute_tool.ts'
import type { MetaHost } from './meta-host.ts'

/** Many planned calls can wait at once, and all of them are read when they are listed. */
const MAX_PARAMS = 65_536

/**
 * Resolves the tool of a call that will run later, when nobody can be asked. The policy is checked again when the
 * call runs.
 * @throws PegboardError the error that the call would fail with now; E_CONFIRMATION_REQUIRED if every call needs
 * approval
 */
export function resolvePlannedCall(host: MetaHost, request: CallRequest): ViewTool {
  const bytes = Buffer.byteLength(JSON.stringify(request.input) ?? '')
  if (bytes > MAX_PARAMS)
    throw new PegboardError('E_TOO_LARGE', `The params have ${bytes} bytes; planned calls can have ${MAX_PARAMS}.`, {
      hint: 'Put long data into a file, and name the file.',
    })
  const { entry, approvalRule } = host.check({ ...request, finders: FINDERS })
  if (approvalRule)
    throw new PegboardError(
      'E_CONFIRMATION_REQUIRED',
      `${entry.tool.id} needs approval for each call, and nobody can be asked later.`,
      { hint: `Call it directly; see ${approvalRule.setting}.` },
    )
  return entry
}

/** A note for lists that may be shorter than the caller remembers, because damaged state was put aside. */
export function stateLossNote({ lostAt }: Pick<MetaHost, 'lostAt'>): { readonly note?: string } {
  const at = lostAt()
  if (at === undefined) return {}
  const time = new Date(at).toISOString()
  return {
    note: `State from before ${time} was damaged and moved aside; the operator has the file. Plan it again.`,
  }
}
