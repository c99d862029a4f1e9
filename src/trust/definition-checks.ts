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
const SIZES = { listed: 4 * 1024, max: 128 * 1024 } as const
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
export function checkDefinition(definition: Json, context: CheckContext, json = JSON.stringify(definition)): Finding[] {
  const findings: Finding[] = []
  const { ownNames, isOther, onUnknownTool } = context
  const names: KnownToolNames = { ownNames, isOther, onUnknownTool, words: once(() => wordsOf(definition)) }
  if (hasNoHiddenText(json)) {
    // All members are checked, because `get_tool` shows the whole definition to a model.
    for (const [key, value] of Object.entries(definition)) checkProse(value, key.slice(0, 80), findings, names)
  } else
    for (const [key, value] of Object.entries(definition)) {
      const label = escapeInvisible(key).slice(0, 80)
      findings.push(...findHidden(key, `${label} (the name itself)`))
      checkValue(value, label, findings, names, true)
    }
  const { name, description } = definition
  if (typeof name === 'string') findings.push(...checkName(name, context))
  if (typeof description === 'string') {
    findings.push(...checkDescriptionSize(description))
    if (typeof name === 'string') findings.push(...findClone(description, context.descriptionsOf?.(name) ?? []))
  }
  // Worst first, so that many minor findings cannot hide a serious one.
  return findings.sort((a, b) => RANK[a.level] - RANK[b.level]).slice(0, MAX_FINDINGS)
}

/** Names of parameters and their listed values. */
function wordsOf({ inputSchema }: Json): NameSet {
  const words = new Set<string>()
  const collect = (value: unknown, key: string): void => {
    if (typeof value === 'string' && (key === 'enum' || key === 'const')) words.add(value)
    if (typeof value !== 'object' || value === null) return
    for (const [childKey, child] of Object.entries(value)) {
      if (key === 'properties') words.add(childKey)
      collect(child, Array.isArray(value) ? key : childKey)
    }
  }
  collect(inputSchema, '')
  return words
}

/** Maximum number of findings kept per tool. */
const MAX_FINDINGS = 40

const RANK: Readonly<Record<FindingLevel, number>> = { block: 0, doubt: 1, note: 2 }

/** Hidden characters are searched everywhere; wording only in `prose`. */
function checkValue(
  value: unknown,
  where: string,
  findings: Finding[],
  context: KnownToolNames,
  isProseValue: boolean,
): void {
  if (typeof value === 'string') {
    findings.push(...findHidden(value, where))
    if (isProseValue) checkText(value, where, findings, context)
    return
  }
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) checkValue(item, `${where}[${index}]`, findings, context, isProseValue)
    return
  }
  if (typeof value !== 'object' || value === null) return
  for (const [key, inner] of Object.entries(value)) {
    const label = escapeInvisible(key).slice(0, 80)
    const keyPath = `${where}.${label} (the name itself)`
    findings.push(...findHidden(key, keyPath))
    if (isProseValue && isProse(key)) checkText(key, keyPath, findings, context)
    checkValue(inner, `${where}.${label}`, findings, context, isProseValue && isRead(key, inner))
  }
}

/** Faster than `checkValue`, for definitions without hidden characters. Nearly all are. */
function checkProse(value: unknown, where: string, findings: Finding[], context: KnownToolNames): void {
  if (typeof value === 'string') checkText(value, where, findings, context)
  if (typeof value !== 'object' || value === null) return
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries())
      if (isWorthChecking(item)) checkProse(item, `${where}[${index}]`, findings, context)
    return
  }
  for (const key of Object.keys(value)) {
    const inner: unknown = (value as Json)[key]
    if (isProse(key)) checkText(key, `${where}.${key.slice(0, 80)} (the name itself)`, findings, context)
    if (isWorthChecking(inner) && isRead(key, inner))
      checkProse(inner, `${where}.${key.slice(0, 80)}`, findings, context)
  }
}

const isRead = (key: string, value: unknown): boolean =>
  !NOT_PROSE.has(key) || typeof value !== 'string' || SENTENCE.test(value)

const SHORT_LENGTH = 20
const isWorthChecking = (value: unknown): boolean =>
  typeof value === 'string' ? value.length > SHORT_LENGTH : typeof value === 'object'

/** True for a parameter name that contains a sentence. */
const isProse = (key: string): boolean => key.length > SHORT_LENGTH && /\s/.test(key)

function checkText(text: string, where: string, findings: Finding[], context: KnownToolNames): void {
  if (text.length <= SHORT_LENGTH || where === 'name') return
  if (text.length > SIZES.max && where !== 'description') findings.push(createSizeFinding(text, where))
  findings.push(...findInstructions(text, where, context))
}

/** Checks a prompt, resource or resource template. @returns findings that prevent it from being shown */
export function checkEntry(entry: Json, context: KnownToolNames): Finding[] {
  const findings: Finding[] = []
  for (const [key, value] of Object.entries(entry)) {
    findings.push(...findHidden(key, `${escapeInvisible(key).slice(0, 80)} (the name itself)`))
    checkValue(value, escapeInvisible(key).slice(0, 80), findings, context, READ_OF_ENTRY.has(key))
  }
  return findings.sort((a, b) => RANK[a.level] - RANK[b.level]).slice(0, MAX_FINDINGS)
}

function checkName(name: string, { ownNames, lookalikes, reserved }: CheckContext): Finding[] {
  const evidence = escapeInvisible(name)
  const place = { where: 'name', evidence }
  const mixedPart = mixedWord(name)
  if (mixedPart !== undefined)
    return [
      {
        ...place,
        code: 'mixed-script-name',
        level: 'block',
        what: `mixes letters of several scripts in ${JSON.stringify(mixedPart)}`,
      },
    ]
  const nameSkeleton = skeleton(name)
  const builtIn = groupBySkeleton(reserved)
    .get(nameSkeleton)
    ?.find((reservedName) => looksLike(name, reservedName))
  if (builtIn !== undefined)
    return [
      { ...place, code: 'look-alike-name', level: 'block', what: `has a name that looks like the built-in ${builtIn}` },
    ]
  const lowerName = name.toLowerCase()
  if (reserved.has(lowerName))
    return [
      {
        ...place,
        code: 'reserved-name',
        level: 'note',
        what: `has the name of the built-in ${lowerName}; clients see it with a prefix`,
      },
    ]
  const other = lookalikes(nameSkeleton).find((otherName) => !ownNames.has(otherName) && looksLike(name, otherName))
  if (other !== undefined)
    return [
      {
        ...place,
        code: 'look-alike-name',
        level: 'doubt',
        what: `has a name that looks like ${JSON.stringify(other)} of another server`,
      },
    ]
  return []
}

const skeletonCache = new WeakMap<ReadonlySet<string>, ReadonlyMap<string, readonly string[]>>()

/** Cached, because the same few names are compared with ten thousand. */
const groupBySkeleton = (names: ReadonlySet<string>): ReadonlyMap<string, readonly string[]> =>
  getOrInsert(skeletonCache, names, () => groupBy(names, skeleton))

/** The rest of the definition is shown without a length limit. */
const createSizeFinding = (text: string, where: string): Finding => ({
  code: 'oversized-text',
  level: 'doubt',
  where,
  what: `has ${text.length} characters`,
  evidence: `${escapeInvisible(text.slice(0, 80))}…`,
})

function checkDescriptionSize(description: string): Finding[] {
  const place = { where: 'description', evidence: `${escapeInvisible(description.slice(0, 80))}…` }
  const { length } = description
  const findings: Finding[] = []
  if (length > SIZES.listed)
    findings.push({
      ...place,
      code: 'oversized-text',
      level: length > SIZES.max ? 'doubt' : 'note',
      what: `has a description of ${length} characters; ${SIZES.listed} are listed`,
    })
  // 100 words of 3 letters with spaces between them have 399 characters.
  if (length < 399) return findings
  const words = description.toLowerCase().match(/[\p{L}\p{N}]{3,}/gu) ?? []
  if (words.length >= 100) {
    const counts = new Map<string, number>()
    for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1)
    const [top = '', times = 0] = [...counts].reduce((a, b) => (b[1] > a[1] ? b : a))
    if (times > words.length * WORD_SHARE || counts.size < words.length / 25)
      findings.push({
        ...place,
        code: 'repeated-text',
        level: 'doubt',
        what: `repeats ${JSON.stringify(top)} ${times} times`,
      })
  }
  return findings
}
