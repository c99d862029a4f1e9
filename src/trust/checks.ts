import { looksLike, mixedWord, skeleton } from '../core/lookalike.ts'
import { once } from '../core/once.ts'
import { checkClone } from './clone.ts'
import type { Finding, Level } from './finding.ts'
import { escaped, findHidden, hidesNothing } from './hidden.ts'
import type { Names, Neighbours } from './steering.ts'
import { findInstructions } from './wording.ts'

type Json = Readonly<Record<string, unknown>>

/** What a definition is looked at against. */
export interface Surroundings extends Neighbours {
  /** Names no foreign tool should be mistaken for: those of the meta-tools. */
  readonly reserved: ReadonlySet<string>
  /** Names of other servers' tools by their skeleton. */
  lookalikes(skeleton: string): readonly string[]
  /** Descriptions of other servers' tools of this name. */
  described?: ((name: string) => readonly string[]) | undefined
}

/** A model is shown 4 KiB of a description. More than the second number is no description any more: the longest that is known has 34,527. */
const SIZES = { shown: 4 * 1024, most: 128 * 1024 } as const
/** How much of a text may be one word: lists of packages of one maker come to two fifths. */
const MOST_OF_A_WORD = 0.6
// Regular expressions and marks, not prose.
const NOT_PROSE = new Set(['pattern', 'format', 'type', '$schema', '$id', '$ref', 'required'])

// What a model reads; the rest is for clients.
const READ = new Set(['name', 'title', 'description', 'inputSchema', 'outputSchema', 'annotations'])
const READ_OF_ENTRY = new Set(['name', 'title', 'description', 'arguments'])

/**
 * Looks at a definition as its server sent it, before anything is cut or cleaned. No order is promised but by level.
 * @param json the same as JSON
 */
export function checkDefinition(definition: Json, around: Surroundings, json = JSON.stringify(definition)): Finding[] {
  const found: Finding[] = []
  const { own, isOther, nobodys } = around
  const here: Neighbours = { own, isOther, nobodys, words: once(() => wordsOf(definition)) }
  if (hidesNothing(json)) {
    for (const key of READ) if (key in definition) walkProse(definition[key], key, found, here)
  } else
    for (const [key, value] of Object.entries(definition)) {
      const shown = escaped(key).slice(0, 80)
      found.push(...findHidden(key, `${shown} (the name itself)`))
      walk(value, shown, found, here, READ.has(key))
    }
  const { name, description } = definition
  if (typeof name === 'string') found.push(...checkName(name, around))
  if (typeof description === 'string') {
    found.push(...checkSize(description))
    if (typeof name === 'string') found.push(...checkClone(description, around.described?.(name) ?? []))
  }
  // The worst first, so that many small ones hide nothing.
  return found.sort((a, b) => RANK[a.level] - RANK[b.level]).slice(0, MOST)
}

/** Names of parameters, and the values that are listed for them. */
function wordsOf({ inputSchema }: Json): Names {
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

/** Findings of one tool that are kept. */
const MOST = 40

const RANK: Readonly<Record<Level, number>> = { block: 0, doubt: 1, note: 2 }

/** What characters there are is looked at everywhere; what they say only in `prose`. */
function walk(value: unknown, where: string, found: Finding[], around: Neighbours, prose: boolean): void {
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
    const shown = escaped(key).slice(0, 80)
    const itself = `${where}.${shown} (the name itself)`
    found.push(...findHidden(key, itself))
    if (prose && isProse(key)) read(key, itself, found, around)
    walk(inner, `${where}.${shown}`, found, around, prose && (!NOT_PROSE.has(key) || typeof inner === 'object'))
  }
}

/** The same where nothing is hidden, which is nearly everywhere. */
function walkProse(value: unknown, where: string, found: Finding[], around: Neighbours): void {
  if (typeof value === 'string') read(value, where, found, around)
  if (typeof value !== 'object' || value === null) return
  if (Array.isArray(value)) {
    for (const [at, one] of value.entries()) if (isWorthReading(one)) walkProse(one, `${where}[${at}]`, found, around)
    return
  }
  for (const key of Object.keys(value)) {
    const inner: unknown = (value as Json)[key]
    if (isProse(key)) read(key, `${where}.${key.slice(0, 80)} (the name itself)`, found, around)
    if (isWorthReading(inner) && (typeof inner === 'object' || !NOT_PROSE.has(key)))
      walkProse(inner, `${where}.${key.slice(0, 80)}`, found, around)
  }
}

const SHORT = 20
const isWorthReading = (value: unknown): boolean =>
  typeof value === 'string' ? value.length > SHORT : typeof value === 'object'

/** The name of a parameter that says more than names do. */
const isProse = (key: string): boolean => key.length > SHORT && /\s/.test(key)

function read(text: string, where: string, found: Finding[], around: Neighbours): void {
  if (text.length <= SHORT || where === 'name') return
  if (text.length > SIZES.most && where !== 'description') found.push(oversized(text, where))
  found.push(...findInstructions(where === 'description' ? text.slice(0, 2 * SIZES.shown) : text, where, around))
}

/** Looks at a prompt, a resource or a template of one: what keeps it from being shown, if anything does. */
export function checkEntry(entry: Json, around: Neighbours): Finding[] {
  const found: Finding[] = []
  for (const [key, value] of Object.entries(entry)) {
    found.push(...findHidden(key, `${escaped(key).slice(0, 80)} (the name itself)`))
    walk(value, escaped(key).slice(0, 80), found, around, READ_OF_ENTRY.has(key))
  }
  return found.sort((a, b) => RANK[a.level] - RANK[b.level]).slice(0, MOST)
}

function checkName(name: string, { own, lookalikes, reserved }: Surroundings): Finding[] {
  const evidence = escaped(name)
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
        what: `is called as the built-in ${folded}; it stays behind its prefix`,
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

/** The same few names are compared with ten thousand. */
function shapesOf(names: ReadonlySet<string>): ReadonlyMap<string, readonly string[]> {
  const known = shapes.get(names)
  if (known) return known
  const made = new Map<string, readonly string[]>()
  for (const name of names) made.set(skeleton(name), [...(made.get(skeleton(name)) ?? []), name])
  shapes.set(names, made)
  return made
}

/** The rest of a definition is shown as it is, whatever its length. */
const oversized = (text: string, where: string): Finding => ({
  code: 'oversized-text',
  level: 'doubt',
  where,
  what: `has ${text.length} characters`,
  evidence: `${escaped(text.slice(0, 80))}…`,
})

function checkSize(description: string): Finding[] {
  const at = { where: 'description', evidence: `${escaped(description.slice(0, 80))}…` }
  const { length } = description
  const found: Finding[] = []
  if (length > SIZES.shown)
    found.push({
      ...at,
      code: 'oversized-text',
      level: length > SIZES.most ? 'doubt' : 'note',
      what: `has a description of ${length} characters; ${SIZES.shown} are shown`,
    })
  // A hundred words of three letters are longer, and most descriptions are not.
  if (length < 399) return found
  const words = description.toLowerCase().match(/[\p{L}\p{N}]{3,}/gu) ?? []
  if (words.length >= 100) {
    const counts = new Map<string, number>()
    for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1)
    const [top = '', times = 0] = [...counts].reduce((a, b) => (b[1] > a[1] ? b : a))
    if (times > words.length * MOST_OF_A_WORD || counts.size < words.length / 25)
      found.push({
        ...at,
        code: 'repeated-text',
        level: 'doubt',
        what: `repeats ${JSON.stringify(top)} ${times} times`,
      })
  }
  return found
}
