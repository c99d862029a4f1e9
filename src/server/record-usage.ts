import type { Caller } from '../core/caller.ts'
import { sizeOf } from '../core/raw-result.ts'
import { estimateLongText } from '../core/text-tokens.ts'
import type { McpResult } from '../core/tool-result.ts'
import type { CallRequest } from '../exec/tool-calls.ts'
import { bareName, calledName } from '../meta/execute_tool.ts'
import { readByModel } from '../meta/fit-result.ts'
import { purposeOf } from '../meta/surface.ts'
import type { UsageKind } from '../receipts/daily-counts.ts'
import type { Definitions, Entry } from '../receipts/receipts.ts'
import { type ListedTool, listTool } from '../view/listed-tools.ts'
import type { View, ViewTool } from '../view/view.ts'
import { instructionsFor } from './instructions.ts'
import type { CallHost, ServerHost } from './server-host.ts'

/** The name of everything that is no tool of this caller. */
const UNKNOWN = 'unknown'
/** Maximum number of tools to count. The result is scaled to the whole list. */
const MAX_SAMPLED = 500

export function recordList(host: ServerHost, caller: Caller, tools: readonly ListedTool[]): void {
  host.receipts?.list(caller, () => {
    const shown = definitionsOf(tools, tools, (tool) => tool)
    const isAll = host.exposure(caller).mode === 'direct'
    const all = (): Definitions => {
      const view = host.view(caller)
      return isAll ? shown : definitionsOf(view, view.tools, listTool)
    }
    return { kind: 'menu', tool: '', texts: [instructionsFor(host, caller)], list: { shown, all } }
  })
}

function definitionsOf<T>(key: object, tools: readonly T[], toListed: (tool: T) => ListedTool): Definitions {
  const step = Math.max(1, tools.length / MAX_SAMPLED)
  const sample = Array.from(
    { length: Math.min(MAX_SAMPLED, tools.length) },
    (_, at) => tools[Math.floor(at * step)] as T,
  )
  return { key, texts: () => sample.map((tool) => definitionText(toListed(tool))), scale: step }
}

/** What a model reads of a tool. */
const definitionText = ({ name, description, inputSchema }: ListedTool): string =>
  JSON.stringify({ name, description, inputSchema })

/**
 * Notes what a call cost the model.
 * @param whole the result before it was made to fit; absent: nothing was cut
 */
export function recordCall(host: CallHost, request: CallRequest, shown: McpResult, whole?: McpResult): void {
  const { receipts } = host
  if (!receipts || shown['resultType'] !== undefined) return
  const { reads } = host.view(request.caller).limits
  const wholeTokens = whole === undefined || whole === shown ? undefined : tokensOfWhole(whole, reads)
  const { name, input, caller } = request
  receipts.call(caller, sizeOf(shown), () => {
    const { texts, media } = readByModel(shown, reads)
    const called = describeCall(host.view(caller), name, input)
    const isFailure = shown.isError === true
    const kind = isFailure ? 'retries' : called.kind
    const written = kind === 'results' ? [] : [JSON.stringify({ name, arguments: input ?? {} })]
    return {
      kind,
      tool: called.tool,
      isOwn: called.isOwn,
      definition: called.definition,
      texts: [...written, ...texts],
      more: media,
      isCall: true,
      isFailure,
      whole: wholeTokens,
    }
  })
}

/** Notes what a script read in place of the model. */
export function recordScriptCall(
  host: Pick<ServerHost, 'receipts' | 'view'>,
  caller: Caller,
  name: string,
  data: unknown,
) {
  if (!host.receipts) return
  const text = typeof data === 'string' ? data : (JSON.stringify(data) ?? '')
  const whole = estimateLongText(text)
  host.receipts.call(caller, 0, () => {
    const { tool, definition } = describeCall(host.view(caller), name, undefined)
    return { tool, texts: [], isCall: true, whole, ...(definition ? { definition } : {}) }
  })
}

interface CallDescription extends Pick<Entry, 'tool' | 'isOwn' | 'definition'> {
  readonly kind: UsageKind
}

function describeCall(view: View, name: string, input: unknown): CallDescription {
  const called = calledName(name, input)
  const purpose = purposeOf(called)
  if (purpose) return { kind: purpose, tool: bareName(called), isOwn: purpose !== 'results' }
  const found = view.resolve(called)
  return found.kind === 'found'
    ? { kind: 'results', tool: found.tool.tool.id, definition: definitionOf(found.tool) }
    : { kind: 'results', tool: UNKNOWN }
}

const definitionOf = (entry: ViewTool): Definitions => ({
  key: entry.tool,
  texts: () => [definitionText(listTool(entry))],
  scale: 1,
})

function tokensOfWhole(whole: McpResult, reads: 'content' | 'structured' | undefined): number {
  const { texts, media } = readByModel(whole, reads)
  return texts.reduce((sum, text) => sum + estimateLongText(text), media)
}
