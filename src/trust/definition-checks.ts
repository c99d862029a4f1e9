import { getOrInsert } from '../core/get-or-insert.ts'
import { groupBy } from '../core/group-by.ts'
import type { Json } from '../core/is-record.ts'
import { looksLike, mixedWord, skeleton } from '../core/lookalike.ts'
import { once } from '../core/once.ts'
import { findClone } from './copied-descriptions.ts'
import { escapeInvisible, findHidden, hasNoHiddenText } from './find-hidden-text.ts'
import type { Finding, FindingLevel } from './finding.ts'
import { findInstructions } from './instruction-wording.ts'
import type { KnownToolNames, NameSet } from './steering.ts'

/** What a definition is checked against. */
export interface CheckContext extends KnownToolNames {
  /** Names that no upstream tool may resemble: those of the meta-tools. */
  readonly reserved: ReadonlySet<string>
  /** Names of other servers' tools with this skeleton. */
  lookalikes(skeleton: string): readonly string[]
  /** Descriptions of other servers' tools with this name. */
  descriptionsOf?: ((name: string) => readonly string[]) | undefined
}

/**
 * In bytes. Lists show the first 4 KiB of a description, `get_tool` shows the rest. Above the second limit it is not
 * a plausible description; the longest known one has 34,527.
 */
const SIZES = { listed: 4 * 1024, most: 128 * 1024 } as const
/** Maximum share of a text that may consist of one repeated word. Lists of one vendor's packages reach two fifths. */
const WORD_SHARE = 0.6
// Keys whose values are expressions or identifiers, not prose.
const NOT_PROSE = new Set(['pattern', 'format', 'type', '$schema', '$id', '$ref', 'required'])

/** Several words in a row, where no prose belongs. Models read schemas whole. */
const SENTENCE = /(?:\p{L}{1,20}[\s,.:;!]{1,3}){4}/u

// Keys that models read; clients use the others.
const READ_OF_ENTRY = new Set(['name', 'title', 'description', 'arguments'])

/**
 * Checks a definition as the server sent it, before anything is shortened or cleaned. Findings are ordered by level
 * only.
 * @param json the definition as JSON
 */
export function checkDefinition(definition: Json, around: CheckContext, json = JSON.stringify(definition)): Finding[] {
  const found: Finding[] = []
  const { own, isOther, onUnknownTool: nobodys } = around
  const here: KnownToolNames = { own, isOther, onUnknownTool: nobodys, words: once(() => wordsOf(definition)) }
  if (hasNoHiddenText(json)) {
    // `get_tool` shows a model all that a server says of a tool.
    for (const [key, value] of Object.entries(definition)) walkProse(value, key.slice(0, 80), found, here)
  } else
    for (const [key, value] of Object.entries(definition)) {
      const shown = escapeInvisible(key).slice(0, 80)
      found.push(...findHidden(key, `${shown} (the name itself)`))
      walk(value, shown, found, here, true)
    }
  const { name, description } = definition
  if (typeof name === 'string') found.push(...checkName(name, around))
  if (typeof description === 'string') {
    found.push(...checkResultSize(description))
    if (typeof name === 'string') found.push(...findClone(description, around.descriptionsOf?.(name) ?? []))
  }
  // Worst first, so that many minor findings cannot hide a serious one.
  return found.sort((a, b) => RANK[a.level] - RANK[b.level]).slice(0, MAX_FINDINGS)
}

/** Names of parameters and their listed values. */
function wordsOf({ inputSchema }: Json): NameSet {
  const words = new Set<string>()
  const gather = (value: unknown, key: string): void => {
    if (typeof value === 'string' && (key === 'enum' || key === 'const')) words.add(value)
    if (typeof value !== 'object' || value === null) return
    for (const [inner, one] of Object.entries(value)) {
      if (key === 'properties') words.add(inner)
      gather(one, Array.isArray(value) ? key : inner)
    }
  }
  gather(inputSchema, '')
  return words
}

/** Maximum number of findings kept per tool. */
const MAX_FINDINGS = 40

const RANK: Readonly<Record<FindingLevel, number>> = { block: 0, doubt: 1, note: 2 }

/** Hidden characters are searched everywhere; wording only in `prose`. */
function walk(value: unknown, where: string, found: Finding[], around: KnownToolNames, prose: boolean): void {
  if (typeof value === 'string') {
    found.push(...findHidden(value, where))
    if (prose) read(value, where, found, around)
    return
  }
  if (Array.isArray(value)) {
    for (const [at, one] of value.entries()) walk(one, `${where}[${at}]`, found, around, prose)
    return
  }
  if (typeof value !== 'object' || value === null) return
  for (const [key, inner] of Object.entries(value)) {
    const shown = escapeInvisible(key).slice(0, 80)
    const itself = `${where}.${shown} (the name itself)`
    found.push(...findHidden(key, itself))
    if (prose && isProse(key)) read(key, itself, found, around)
    walk(inner, `${where}.${shown}`, found, around, prose && isRead(key, inner))
  }
}

/** The same for definitions without hidden characters, which are nearly all. */
function walkProse(value: unknown, where: string, found: Finding[], around: KnownToolNames): void {
  if (typeof value === 'string') read(value, where, found, around)
  if (typeof value !== 'object' || value === null) return
  if (Array.isArray(value)) {
    for (const [at, one] of value.entries()) if (isWorthReading(one)) walkProse(one, `${where}[${at}]`, found, around)
    return
  }
  for (const key of Object.keys(value)) {
    const inner: unknown = (value as Json)[key]
    if (isProse(key)) read(key, `${where}.${key.slice(0, 80)} (the name itself)`, found, around)
    if (isWorthReading(inner) && isRead(key, inner)) walkProse(inner, `${where}.${key.slice(0, 80)}`, found, around)
  }
}

const isRead = (key: string, value: unknown): boolean =>
  !NOT_PROSE.has(key) || typeof value !== 'string' || SENTENCE.test(value)

const SHORT = 20
const isWorthReading = (value: unknown): boolean =>
  typeof value === 'string' ? value.length > SHORT : typeof value === 'object'

/** True for a parameter name that contains a sentence. */
const isProse = (key: string): boolean => key.length > SHORT && /\s/.test(key)

function read(text: string, where: string, found: Finding[], around: KnownToolNames): void {
  if (text.length <= SHORT || where === 'name') return
  if (text.length > SIZES.most && where !== 'description') found.push(createSizeFinding(text, where))
  found.push(...findInstructions(text, where, around))
}

/** Checks a prompt, resource or resource template. @returns findings that prevent it from being shown */
export function checkEntry(entry: Json, around: KnownToolNames): Finding[] {
  const found: Finding[] = []
  for (const [key, value] of Object.entries(entry)) {
    found.push(...findHidden(key, `${escapeInvisible(key).slice(0, 80)} (the name itself)`))
    walk(value, escapeInvisible(key).slice(0, 80), found, around, READ_OF_ENTRY.has(key))
  }
  return found.sort((a, b) => RANK[a.level] - RANK[b.level]).slice(0, MAX_FINDINGS)
}

function checkName(name: string, { own, lookalikes, reserved }: CheckContext): Finding[] {
  const evidence = escapeInvisible(name)
  const at = { where: 'name', evidence }
  const word = mixedWord(name)
  if (word !== undefined)
    return [
      {
        ...at,
        code: 'mixed-script-name',
        level: 'block',
        what: `mixes letters of several scripts in ${JSON.stringify(word)}`,
      },
    ]
  const shape = skeleton(name)
  const builtIn = shapesOf(reserved)
    .get(shape)
    ?.find((one) => looksLike(name, one))
  if (builtIn !== undefined)
    return [
      { ...at, code: 'look-alike-name', level: 'block', what: `has a name that looks like the built-in ${builtIn}` },
    ]
  const folded = name.toLowerCase()
  if (reserved.has(folded))
    return [
      {
        ...at,
        code: 'reserved-name',
        level: 'note',
        what: `has the name of the built-in ${folded}; clients see it with a prefix`,
      },
    ]
  const other = lookalikes(shape).find((one) => !own.has(one) && looksLike(name, one))
  if (other !== undefined)
    return [
      {
        ...at,
        code: 'look-alike-name',
        level: 'doubt',
        what: `has a name that looks like ${JSON.stringify(other)} of another server`,
      },
    ]
  return []
}

const shapes = new WeakMap<ReadonlySet<string>, ReadonlyMap<string, readonly string[]>>()

/** Cached, because the same few names are compared with ten thousand. */
const shapesOf = (names: ReadonlySet<string>): ReadonlyMap<string, readonly string[]> =>
  getOrInsert(shapes, names, () => groupBy(names, skeleton))

/** The rest of the definition is shown without a length limit. */
const createSizeFinding = (text: string, where: string): Finding => ({
  code: 'oversized-text',
  level: 'doubt',
  where,
  what: `has ${text.length} characters`,
  evidence: `${escapeInvisible(text.slice(0, 80))}…`,
})

function checkResultSize(description: string): Finding[] {
  const at = { where: 'description', evidence: `${escapeInvisible(description.slice(0, 80))}…` }
  const { length } = description
  const found: Finding[] = []
  if (length > SIZES.listed)
    found.push({
      ...at,
      code: 'oversized-text',
      level: length > SIZES.most ? 'doubt' : 'note',
      what: `has a description of ${length} characters; ${SIZES.listed} are listed`,
    })
  // Shorter than a hundred words; most descriptions are.
  if (length < 399) return found
  const words = description.toLowerCase().match(/[\p{L}\p{N}]{3,}/gu) ?? []
  if (words.length >= 100) {
    const counts = new Map<string, number>()
    for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1)
    const [top = '', times = 0] = [...counts].reduce((a, b) => (b[1] > a[1] ? b : a))
    if (times > words.length * WORD_SHARE || counts.size < words.length / 25)
      found.push({
        ...at,
        code: 'repeated-text',
        level: 'doubt',
        what: `repeats ${JSON.stringify(top)} ${times} times`,
      })
  }
  return found
}
