import { PegboardError } from '../core/errors.ts'
import { toPrintable } from '../core/printable.ts'
import type { Tool } from '../core/tool.ts'
import { visibleJson, visibleText } from '../core/visible-text.ts'
import type { ApprovalRule } from '../policy/policy.ts'
import { shortOwnerName } from '../policy/policy-rules.ts'

/** Characters of a page. Clients show a question in a dialog, where long text is easily missed. */
const MAX_PAGE_CHARS = 4_000
/** A 2026 client answers each page in a round of its own, and the SDK's client stops after ten rounds. */
const MAX_PAGES = 8

const EFFECTS = { read: 'reads', write: 'changes something', destructive: 'may destroy something' } as const

/** A call that a person is asked about. */
export interface ApprovalRequest {
  readonly tool: Tool
  readonly input: unknown
  readonly rule: ApprovalRule
}

/**
 * The messages that ask a person to approve these calls. Together they show all arguments. The person accepts each
 * message; there is no form to fill in.
 * @param hide removes known secrets
 * @throws PegboardError E_CONFIRMATION_REQUIRED if the arguments are too long to show
 */
export function createConfirmation(
  calls: readonly ApprovalRequest[],
  hide: (text: string) => string,
): readonly string[] {
  const [first] = calls
  const isOne = calls.length === 1
  const title = isOne ? `May ${toPrintable(first?.tool.id ?? '')} run?` : `May these ${calls.length} calls run?`
  const body = isOne
    ? describeCall(first as ApprovalRequest, hide)
    : calls.map((call, at) => `${at + 1}. ${toPrintable(call.tool.id)}\n${describeCall(call, hide)}`).join('\n\n')
  const pages = splitIntoPages(body)
  if (pages.length > MAX_PAGES)
    throw new PegboardError(
      'E_CONFIRMATION_REQUIRED',
      `${isOne ? `The arguments of ${first?.tool.id}` : `The arguments of these ${calls.length} calls`} take ${body.length} characters to show. An approval request can show at most ${MAX_PAGE_CHARS * MAX_PAGES}.`,
      { hint: `Split the call into smaller ones. ${first?.rule.setting} requires the approval.` },
    )
  if (pages.length === 1) return [`${title}\n${body}`]
  return pages.map((page, at) => {
    const part = `Part ${at + 1} of ${pages.length}. Nothing runs until you accept all parts.`
    return `${title}\n${part}\n${page}`
  })
}

function describeCall({ tool, input, rule }: ApprovalRequest, hide: (text: string) => string): string {
  const owner =
    tool.origin === 'upstream' ? `of the server ${shortOwnerName(tool.module)}` : `of the module ${tool.module}`
  return [
    `It is a tool ${toPrintable(owner)} and ${EFFECTS[tool.effect]}.`,
    ...(rule.reason === undefined ? [] : [`Why you are asked: ${visibleText(rule.reason)}`]),
    `Arguments: ${hide(visibleJson(input))}`,
  ].join('\n')
}

/** Splits at the end of a line if one is near. */
function splitIntoPages(text: string): readonly string[] {
  const pages: string[] = []
  let start = 0
  while (text.length - start > MAX_PAGE_CHARS) {
    const line = text.lastIndexOf('\n', start + MAX_PAGE_CHARS)
    let end = line > start + MAX_PAGE_CHARS / 2 ? line + 1 : start + MAX_PAGE_CHARS
    // Does not split a surrogate pair.
    if ((text.charCodeAt(end - 1) & 0xfc00) === 0xd800) end--
    pages.push(text.slice(start, end))
    start = end
  }
  pages.push(text.slice(start))
  return pages
}
