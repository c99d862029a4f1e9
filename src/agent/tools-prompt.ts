import { formatCount } from '../core/format-count.ts'
import { isRecord } from '../core/is-record.ts'
import type { PromptSection } from '../core/module.ts'
import type { JsonSchema } from '../core/schema.ts'
import type { MetaStep } from '../meta/meta-host.ts'
import type { MetaToolSummary, Surface } from '../meta/surface.ts'
import type { Exposure } from '../view/exposure.ts'
import type { ListedTool } from '../view/listed-tools.ts'
import { unreadServers } from '../view/unread-servers.ts'
import type { View } from '../view/view.ts'
import type { ToolUseMode } from './tool-use-mode.ts'

/** Input of `systemPrompt`. */
export interface PromptContext {
  readonly view: View
  readonly exposure: Exposure
  readonly surface: Pick<Surface, 'guide' | 'list'>
  readonly sections?: readonly PromptSection[]
}

export interface PromptOptions extends PromptContext {
  /** Default `native`. */
  readonly mode?: ToolUseMode
  /** Default `assistant`. */
  readonly agentId?: string
  /** Default `assistant`. */
  readonly role?: string
  /** Text at the end of the prompt. */
  readonly userPrompt?: string
}

/** Maximum number of modules, and of servers and APIs, that the prompt names. */
const SHOWN = 12
const NOTICES = 3

/**
 * The system prompt that describes the agent and its tools. Native mode: the identity, the number of tools, and how to
 * find tools that are not listed. Text mode: the same, the format of a call, and every listed tool with its parameters.
 */
export function systemPrompt(options: PromptOptions): string {
  const { agentId = 'assistant', role = 'assistant', userPrompt } = options
  const identity = `You are ${oneLine(agentId)}, role: ${oneLine(role)}.`
  const [before, after] = orderSections(options.sections)
  const access = options.mode === 'text' ? asText(options) : [describeAccess(options)]
  const parts = [
    ...before,
    `${identity}\n${summarizeTools(options)}`,
    ...access,
    ...collectNotices(options.view),
    ...after,
    userPrompt,
  ]
  return parts.filter((part) => part !== undefined && part !== '').join('\n\n')
}

/**
 * The tool description of `systemPrompt` in native mode, without the identity. At most `maxChars` long: the meta-tool
 * descriptions are dropped first, then texts of other authors, the last one first.
 */
export function toolsPrompt(context: PromptContext, maxChars: number): string {
  const [before, after] = orderSections(context.sections)
  const lines = (...parts: readonly string[]): string => [...before, ...parts, ...after].filter(Boolean).join('\n')
  for (const detail of DETAILS) {
    const isShort = detail === 'none'
    const notices = isShort ? [] : collectNotices(context.view)
    const text = lines(summarizeTools(context, isShort ? 0 : SHOWN), describeAccess(context, detail), ...notices)
    if (text.length <= maxChars) return text
  }
  const head = [summarizeTools(context, 0), describeAccess(context, 'none')].join('\n')
  return fitTexts(before, head, [...collectNotices(context.view), ...after], maxChars)
}

/** A text that is cut to fewer characters is dropped. */
const MIN_CUT = 80

/** The texts that fit, in order. The first text that does not fit is cut at a word and ends with a mark. */
function fitTexts(before: readonly string[], head: string, after: readonly string[], maxChars: number): string {
  const fittingTexts: string[] = []
  let room = maxChars - head.length
  for (const text of [...before, ...after]) {
    room -= text.length + 1
    if (room >= 0) fittingTexts.push(text)
    else {
      const cut = text.slice(0, Math.max(0, text.length + room - 1))
      const space = cut.lastIndexOf(' ')
      if (cut.length >= MIN_CUT) fittingTexts.push(`${space > cut.length / 2 ? cut.slice(0, space) : cut}…`)
      break
    }
  }
  const first = Math.min(before.length, fittingTexts.length)
  return [...fittingTexts.slice(0, first), head, ...fittingTexts.slice(first)].join('\n').slice(0, maxChars)
}

/** The meta-tools to describe. They are listed anyway, so the prompt describes only how to reach the other tools. */
const DETAILS = ['all', 'steps', 'none'] as const
type Detail = (typeof DETAILS)[number]

const oneLine = (text: string): string => text.replaceAll(/\s+/g, ' ').trim().slice(0, 200)

/** The sections before the rest of the prompt, and the other sections; each text once. */
function orderSections(sections: readonly PromptSection[] = []): readonly [readonly string[], readonly string[]] {
  const inOrder = sections.toSorted((a, b) => a.priority - b.priority)
  const texts = new Map<string, number>()
  for (const { text, priority } of inOrder) if (!texts.has(text.trim())) texts.set(text.trim(), priority)
  const all = [...texts]
  return [
    all.filter(([, priority]) => priority < 0).map(([text]) => text),
    all.filter(([, priority]) => priority >= 0).map(([text]) => text),
  ]
}

function summarizeTools({ view }: PromptContext, shown = SHOWN): string {
  const domains = view.owners.filter((owner) => view.count(owner.id) > 0)
  const modules = domains.filter(({ origin }) => origin === 'module')
  const servers = domains
    .filter(({ origin }) => origin === 'upstream')
    .sort((a, b) => view.count(b.id) - view.count(a.id))
  const named = [...modules.slice(0, shown), ...servers.slice(0, shown)].map(({ id }) => id)
  const names = named.length === 0 ? '' : `: ${[...named, ...(named.length < domains.length ? ['…'] : [])].join(', ')}`
  const unread = unreadServers(view).length
  const more = unread > 0 ? ` ${formatCount(unread, 'server')} still connecting.` : ''
  return `Pegboard has ${formatCount(view.size, 'tool')} across ${formatCount(domains.length, 'domain')}${names}.${more}`
}

/** Notices about servers whose tools wait for a review, so that the model can tell the user. */
function collectNotices(view: View): readonly string[] {
  const waiting = view.owners.flatMap((owner) => view.reviewNotice(owner) ?? []).slice(0, NOTICES)
  return waiting.length === 0
    ? []
    : [`Some tools are hidden until the operator reviews them. Tell the user: ${waiting.join('; ')}.`]
}

/** How the model calls tools in the given exposure mode. */
function describeAccess({ view, exposure, surface }: PromptContext, detail: Detail = 'all'): string {
  if (exposure.mode === 'direct') return 'They are all listed; call them by name.'
  const guide = surface.guide(view.caller)
  const shown = guide.filter(({ step }) => detail === 'all' || (detail === 'steps' && step !== undefined))
  const intro =
    shown.length === 0
      ? []
      : [
          `You have ${formatCount(guide.length, 'tool')} about tools:`,
          ...shown.map(({ name, about }) => `- ${name}: ${about}`),
        ]
  return [...intro, ...describeSteps(exposure, guide)].join('\n')
}

function describeSteps({ mode }: Exposure, guide: readonly MetaToolSummary[]): readonly string[] {
  const of = (step: MetaStep): readonly string[] => guide.flatMap((one) => (one.step === step ? [one.name] : []))
  const [first, ...others] = of('discover')
  const [schema, execute] = [of('schema').join(' or '), of('execute').join(' or ')]
  if (mode === 'compact')
    return [
      `The others are listed by name without schemas: ask ${schema} for the parameters first, or use ${execute} with name and params.`,
    ]
  if (mode === 'code')
    return [
      'Tools are not listed. To use them:',
      `1. Discover them: ${first} with what you want to do, in any words; the answer declares them in TypeScript.`,
      `2. Write one script for ${execute} that calls them and returns only what you need.`,
    ]
  const also = others.length > 0 ? ` (or ${others.join(', ')})` : ''
  return [
    'Most tools are not listed. To use one:',
    `1. Discover it: ${first} with what you want to do, in any words${also}.`,
    `2. Get its schema: ${schema}, when the parameters in the answer are not enough.`,
    `3. Execute it: ${execute} with name and params.`,
  ]
}

/** Tools for a model without native tool calls: the format of a call, and a section for each tool. */
function asText(context: PromptContext): readonly string[] {
  const { view, exposure, surface } = context
  const listed = surface.list(view.caller, exposure.mode)
  const [first] = listed
  if (!first) return ['There are no tools.']
  const example = exampleOf(listed, view) ?? { name: first.name, arguments: sampleArguments(first.inputSchema) }
  return [
    'AVAILABLE TOOLS',
    [
      'To call a tool, write the call as JSON in a separate element, and write nothing after it:',
      '<tool_call>',
      JSON.stringify(example),
      '</tool_call>',
      'For several calls, write several elements. The next message has the results. When you need no tool, answer in plain text.',
    ].join('\n'),
    ...(exposure.mode === 'direct' ? [] : [describeSteps(exposure, surface.guide(view.caller)).join('\n')]),
    ...listed.map(formatTool),
  ]
}

const formatTool = ({ name, description, inputSchema }: ListedTool): string =>
  `## ${name}\n${description}\nParameters (JSON Schema): ${JSON.stringify(inputSchema)}`

/** An example call from the author of the tool. */
function exampleOf(listed: readonly ListedTool[], view: View) {
  for (const { name } of listed) {
    const found = view.resolve(name)
    const example = found.kind === 'found' ? found.tool.tool.examples[0] : undefined
    if (example) return { name, arguments: example.input }
  }
  return undefined
}

/** An example value for each required parameter. */
function sampleArguments({ properties, required }: JsonSchema): Readonly<Record<string, unknown>> {
  const names = Array.isArray(required) ? required.map(String) : []
  return Object.fromEntries(
    names.map((name) => [name, createSample(isRecord(properties) ? properties[name] : undefined)]),
  )
}

const SAMPLES: Readonly<Record<string, unknown>> = {
  string: '…',
  integer: 1,
  number: 1,
  boolean: true,
  array: [],
  null: null,
}

function createSample(schema: unknown): unknown {
  if (!isRecord(schema)) return '…'
  const { default: fallback, const: only, enum: values, type } = schema
  if (only !== undefined) return only
  if (fallback !== undefined) return fallback
  if (Array.isArray(values)) return values[0]
  return type === 'object' ? sampleArguments(schema) : (SAMPLES[String(type)] ?? '…')
}
