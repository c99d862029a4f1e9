import type { PromptSection } from '../core/module.ts'
import { isRecord } from '../core/record.ts'
import type { JsonSchema } from '../core/schema.ts'
import type { Step } from '../meta/host.ts'
import type { Guide, Surface } from '../meta/surface.ts'
import type { Exposure } from '../view/exposure.ts'
import type { ListedTool } from '../view/listing.ts'
import type { View } from '../view/view.ts'
import type { ToolUseMode } from './mode.ts'

export type { PromptSection } from '../core/module.ts'

/** What a prompt tells of the tools. */
export interface Told {
  readonly view: View
  readonly exposure: Exposure
  readonly surface: Pick<Surface, 'guide' | 'list'>
  readonly sections?: readonly PromptSection[]
}

export interface PromptOptions extends Told {
  /** Default `native`. */
  readonly mode?: ToolUseMode
  /** Default `assistant`. */
  readonly agentId?: string
  /** Default `assistant`. */
  readonly role?: string
  /** Comes last. */
  readonly userPrompt?: string
}

/** Categories named; the rest are found by looking. */
const SHOWN = 12
const NOTICES = 3

/**
 * What a model is told of itself and its tools. Native: who it is, how many tools there are, how to get at those that are
 * not listed. Text: the same, how to write a call, and every listed tool with its parameters.
 */
export function systemPrompt(options: PromptOptions): string {
  const { agentId = 'assistant', role = 'assistant', userPrompt } = options
  const identity = `You are ${oneLine(agentId)}, role: ${oneLine(role)}.`
  const [before, after] = ordered(options.sections)
  const tools = options.mode === 'text' ? [counted(options), ...asText(options)] : [counted(options), guidance(options)]
  const parts = [
    ...before,
    `${identity}\n${tools[0]}`,
    ...tools.slice(1),
    ...notices(options.view),
    ...after,
    userPrompt,
  ]
  return parts.filter((part) => part !== undefined && part !== '').join('\n\n')
}

/**
 * What `systemPrompt` tells of the tools in native mode, without who the model is. At most `maxChars` long: where there is
 * too little room the descriptions of tools about tools are left out, then what others write, the last of it first.
 */
export function toolsPrompt(told: Told, maxChars: number): string {
  const [before, after] = ordered(told.sections)
  const lines = (...parts: readonly string[]): string => [...before, ...parts, ...after].filter(Boolean).join('\n')
  let text = ''
  for (const detail of DETAILS) {
    const known = detail === 'none' ? [counted(told, 0)] : [counted(told), ...notices(told.view)]
    text = lines(...known.slice(0, 1), guidance(told, detail), ...known.slice(1))
    if (text.length <= maxChars) return text
  }
  const head = [counted(told, 0), guidance(told, 'none')].join('\n')
  return fitted(before, head, [...notices(told.view), ...after], maxChars)
}

/** What is cut shorter than this says nothing. */
const MIN_CUT = 80

/** As many texts as there is room for, in their order; the first that is too long is cut on a word, and says so. */
function fitted(before: readonly string[], head: string, after: readonly string[], maxChars: number): string {
  const kept: string[] = []
  let room = maxChars - head.length
  for (const text of [...before, ...after]) {
    room -= text.length + 1
    if (room >= 0) kept.push(text)
    else {
      const cut = text.slice(0, Math.max(0, text.length + room - 1))
      const space = cut.lastIndexOf(' ')
      if (cut.length >= MIN_CUT) kept.push(`${space > cut.length / 2 ? cut.slice(0, space) : cut}…`)
      break
    }
  }
  const first = Math.min(before.length, kept.length)
  return [...kept.slice(0, first), head, ...kept.slice(first)].join('\n').slice(0, maxChars)
}

/** Which tools about tools are described. They are listed anyway: what leads to the others is told first. */
const DETAILS = ['all', 'steps', 'none'] as const
type Detail = (typeof DETAILS)[number]

const oneLine = (text: string): string => text.replaceAll(/\s+/g, ' ').trim().slice(0, 200)

/** Those before everything, and the others; each text once. */
function ordered(sections: readonly PromptSection[] = []): readonly [readonly string[], readonly string[]] {
  const inOrder = sections.toSorted((a, b) => a.priority - b.priority)
  const texts = new Map<string, number>()
  for (const { text, priority } of inOrder) if (!texts.has(text.trim())) texts.set(text.trim(), priority)
  const all = [...texts]
  return [
    all.filter(([, priority]) => priority < 0).map(([text]) => text),
    all.filter(([, priority]) => priority >= 0).map(([text]) => text),
  ]
}

function counted({ view }: Told, shown = SHOWN): string {
  const domains = view.owners.filter((owner) => view.count(owner.id) > 0)
  const named = [...domains.slice(0, shown).map(({ id }) => id), ...(domains.length > shown ? ['…'] : [])]
  const names = shown === 0 || named.length === 0 ? '' : `: ${named.join(', ')}`
  return `Pegboard gathers ${amount(view.size, 'tool')} across ${amount(domains.length, 'domain')}${names}.`
}

const amount = (count: number, what: string): string => `${count} ${what}${count === 1 ? '' : 's'}`

/** Servers whose tools wait for the operator: a person should know. */
function notices(view: View): readonly string[] {
  const waiting = view.owners.flatMap(({ notice }) => notice ?? []).slice(0, NOTICES)
  return waiting.length === 0
    ? []
    : [`Some tools are kept out until the operator has looked at them. Tell the user: ${waiting.join('; ')}.`]
}

/** How the tools are got at, in the way they are shown. */
function guidance({ view, exposure, surface }: Told, detail: Detail = 'all'): string {
  if (exposure.mode === 'direct') return 'They are all listed; call them by name.'
  const guide = surface.guide(view.caller)
  const shown = guide.filter(({ step }) => detail === 'all' || (detail === 'steps' && step !== undefined))
  const doors =
    shown.length === 0
      ? []
      : [`You have ${guide.length} tools about tools:`, ...shown.map(({ name, about }) => `- ${name}: ${about}`)]
  return [...doors, ...steps(exposure, guide)].join('\n')
}

function steps({ mode }: Exposure, guide: readonly Guide[]): readonly string[] {
  const of = (step: Step): readonly string[] => guide.flatMap((one) => (one.step === step ? [one.name] : []))
  const [first, ...others] = of('discover')
  const [schema, execute] = [of('schema').join(' or '), of('execute').join(' or ')]
  if (mode === 'compact')
    return [
      `The others are listed by name without schemas: ask ${schema} for the parameters first, or use ${execute} with name and params.`,
    ]
  const also = others.length > 0 ? ` (or ${others.join(', ')})` : ''
  return [
    'Most tools are not listed. To use one:',
    `1. Discover it: ${first} with what you want to do, in any words${also}.`,
    `2. Get its schema: ${schema}, when the parameters in the answer are not enough.`,
    `3. Execute it: ${execute} with name and params.`,
  ]
}

/** Tools for a model that can only write: what a call looks like, and a section for each tool. */
function asText(told: Told): readonly string[] {
  const { view, exposure, surface } = told
  const listed = surface.list(view.caller, exposure.mode)
  const [first] = listed
  if (!first) return ['There are no tools.']
  const example = exampleOf(listed, view) ?? { name: first.name, arguments: sampleArguments(first.inputSchema) }
  return [
    'AVAILABLE TOOLS',
    [
      'To call a tool, write the call as JSON in an element of its own, and nothing after it:',
      '<tool_call>',
      JSON.stringify(example),
      '</tool_call>',
      'Several calls are several such elements. The results come in the next message. When you need no tool, answer in plain text.',
    ].join('\n'),
    ...(exposure.mode === 'direct' ? [] : [steps(exposure, surface.guide(view.caller)).join('\n')]),
    ...listed.map(section),
  ]
}

const section = ({ name, description, inputSchema }: ListedTool): string =>
  `## ${name}\n${description}\nParameters (JSON Schema): ${JSON.stringify(inputSchema)}`

/** A call that an author wrote as an example. */
function exampleOf(listed: readonly ListedTool[], view: View) {
  for (const { name } of listed) {
    const found = view.resolve(name)
    const example = found.kind === 'found' ? found.tool.tool.examples[0] : undefined
    if (example) return { name, arguments: example.input }
  }
  return undefined
}

/** What the schema requires, filled with anything of the right type. */
function sampleArguments({ properties, required }: JsonSchema): Readonly<Record<string, unknown>> {
  const names = Array.isArray(required) ? required.map(String) : []
  return Object.fromEntries(names.map((name) => [name, sample(isRecord(properties) ? properties[name] : undefined)]))
}

const SAMPLES: Readonly<Record<string, unknown>> = {
  string: '…',
  integer: 1,
  number: 1,
  boolean: true,
  array: [],
  null: null,
}

function sample(schema: unknown): unknown {
  if (!isRecord(schema)) return '…'
  const { default: fallback, const: only, enum: values, type } = schema
  if (only !== undefined) return only
  if (fallback !== undefined) return fallback
  if (Array.isArray(values)) return values[0]
  return type === 'object' ? sampleArguments(schema) : (SAMPLES[String(type)] ?? '…')
}
