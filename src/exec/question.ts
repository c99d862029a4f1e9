import { PegboardError } from '../core/errors.ts'
import { plain } from '../core/plain.ts'
import type { Tool } from '../core/tool.ts'
import { visibleJson, visibleText } from '../core/visible-text.ts'
import type { Asking } from '../policy/policy.ts'
import { shortOf } from '../policy/rules.ts'

/** Characters of a page. Clients show a question in a dialog, and what is beyond its end is easily missed. */
const PAGE = 4_000
/** A 2026 client answers each page in a round of its own, and the SDK's client gives up after ten rounds. */
const MAX_PAGES = 8

const EFFECTS = { read: 'reads', write: 'changes something', destructive: 'may destroy something' } as const

/** One call that a person is asked about. */
export interface Asked {
  readonly tool: Tool
  readonly input: unknown
  readonly asking: Asking
}

/**
 * The messages that ask a person whether these calls may run. Together they show all arguments. The person accepts
 * each message; there is no form to fill in.
 * @param hide takes out what is known to be secret
 * @throws PegboardError E_CONFIRMATION_REQUIRED when there is more than a person can be shown
 */
export function confirmation(calls: readonly Asked[], hide: (text: string) => string): readonly string[] {
  const [first] = calls
  const isOne = calls.length === 1
  const title = isOne ? `May ${plain(first?.tool.id ?? '')} run?` : `May these ${calls.length} calls run?`
  const body = isOne
    ? describe(first as Asked, hide)
    : calls.map((call, at) => `${at + 1}. ${plain(call.tool.id)}\n${describe(call, hide)}`).join('\n\n')
  const pages = pagesOf(body)
  if (pages.length > MAX_PAGES)
    throw new PegboardError(
      'E_CONFIRMATION_REQUIRED',
      `${isOne ? `The arguments of ${first?.tool.id}` : `The arguments of these ${calls.length} calls`} take ${body.length} characters to show. A person is asked about ${PAGE * MAX_PAGES} characters at most.`,
      { hint: `Call it with less at a time; ${first?.asking.setting} decides that a person is asked.` },
    )
  if (pages.length === 1) return [`${title}\n${body}`]
  return pages.map((page, at) => {
    const part = `Part ${at + 1} of ${pages.length}. Nothing runs until you accept all parts.`
    return `${title}\n${part}\n${page}`
  })
}

function describe({ tool, input, asking }: Asked, hide: (text: string) => string): string {
  const owner = tool.origin === 'upstream' ? `of the server ${shortOf(tool.module)}` : `of the module ${tool.module}`
  return [
    `It is a tool ${plain(owner)} and ${EFFECTS[tool.effect]}.`,
    ...(asking.reason === undefined ? [] : [`Why you are asked: ${visibleText(asking.reason)}`]),
    `Arguments: ${hide(visibleJson(input))}`,
  ].join('\n')
}

/** Split at the end of a line where one is near. */
function pagesOf(text: string): readonly string[] {
  const pages: string[] = []
  let start = 0
  while (text.length - start > PAGE) {
    const line = text.lastIndexOf('\n', start + PAGE)
    let end = line > start + PAGE / 2 ? line + 1 : start + PAGE
    // A character of two units stays whole.
    if ((text.charCodeAt(end - 1) & 0xfc00) === 0xd800) end--
    pages.push(text.slice(start, end))
    start = end
  }
  pages.push(text.slice(start))
  return pages
}
