import { setNewest } from '../core/drop-oldest.ts'
import { once } from '../core/once.ts'
import { FOLLOW_UP_WORDS, FOLLOW_UPS, INTENTS, VERBS } from './intent-phrases.ts'

/** A message prepared for searching. Time and memory are linear in its length, and only its beginning counts. */
export interface UserMessage {
  readonly text: string
  readonly words: readonly string[]
  /** The words, with one space before, between and after them. */
  readonly line: string
}

const MAX_CHARS = 4_000
/** Maximum distance of a verb from its thing, in words. */
const NEAR = 8

export function prepareMessage(message: string): UserMessage {
  const text = fold(message.slice(0, MAX_CHARS))
  const words = text.match(/[\p{L}\p{N}]+/gu) ?? []
  return { text, words, line: ` ${words.join(' ')} ` }
}

/** Whether the message asks for this intent. @param phrases of the operator, matched literally */
export function asksFor(message: UserMessage, intent: string, phrases: readonly string[] = []): boolean {
  return matcherOf(intent)(message) || phrases.some((phrase) => hasLiteral(message.text, fold(phrase).trim()))
}

/** Whether the message asks for the same again. */
export function isFollowUp(message: UserMessage): boolean {
  followUp ??= createPhraseMatcher(FOLLOW_UPS)
  return message.words.length <= FOLLOW_UP_WORDS && followUp(message)
}

type Matcher = (message: UserMessage) => boolean
let followUp: Matcher | undefined
let verbs: ((word: string) => boolean) | undefined
const matchers = new Map<string, Matcher>()
const MAX_KEPT = 500

const matcherOf = (intent: string): Matcher =>
  matchers.get(intent) ?? setNewest(matchers, intent, createMatcher(intent), MAX_KEPT)

function createMatcher(intent: string): Matcher {
  const wording = Object.hasOwn(INTENTS, intent) ? INTENTS[intent] : undefined
  if (!wording) return createPhraseMatcher(intent.replaceAll(/[^\p{L}\p{N}]+/gu, ' ').trim())
  const asks = createPhraseMatcher(wording.asks)
  if (wording.things === undefined) return asks
  verbs ??= createWordMatcher(VERBS)
  const isGeneralVerb = verbs
  const isIntentVerb = wording.verbs === undefined ? () => false : createWordMatcher(wording.verbs)
  const isThing = createWordMatcher(wording.things)
  return (message) =>
    asks(message) || areNear(message.words, (word) => isGeneralVerb(word) || isIntentVerb(word), isThing)
}

function areNear(
  words: readonly string[],
  isVerb: (word: string) => boolean,
  isThing: (word: string) => boolean,
): boolean {
  let verb = Number.NEGATIVE_INFINITY
  let thing = Number.NEGATIVE_INFINITY
  for (const [at, word] of words.entries()) {
    if (isVerb(word)) verb = at
    if (isThing(word)) thing = at
    if (Math.abs(verb - thing) <= NEAR) return true
  }
  return false
}

/** @param list phrases separated by a comma and a space */
function createPhraseMatcher(list: string): Matcher {
  const phrases = split(list)
  // Phrases in Chinese, Japanese and Korean match anywhere, because text around them has no spaces.
  const anywhere = phrases.filter((phrase) => unspaced().test(phrase))
  const spaced = phrases
    .filter((phrase) => !unspaced().test(phrase))
    .map((phrase) => (phrase.endsWith('*') ? ` ${phrase.slice(0, -1)}` : ` ${phrase} `))
  return ({ text, line }) =>
    spaced.some((phrase) => line.includes(phrase)) || anywhere.some((phrase) => text.includes(phrase))
}

function createWordMatcher(list: string): (word: string) => boolean {
  const all = split(list)
  const whole = new Set(all.filter((word) => !word.endsWith('*')))
  const stems = all.filter((word) => word.endsWith('*')).map((word) => word.slice(0, -1))
  return (word) => whole.has(word) || stems.some((stem) => word.startsWith(stem))
}

// Created on use: compiling Unicode classes is slow, and most starts need none.
const unspaced = once(() => /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}]/u)

const split = (list: string): string[] =>
  list
    .split(', ')
    .map(fold)
    .filter((phrase) => phrase !== '')

/** In lower case, without accents. */
const fold = (text: string): string =>
  text
    .toLowerCase()
    .normalize('NFD')
    .replaceAll(/\p{M}+/gu, '')

/** Whether the text contains the phrase as whole words. */
function hasLiteral(text: string, phrase: string): boolean {
  if (phrase === '') return false
  for (let at = text.indexOf(phrase); at >= 0; at = text.indexOf(phrase, at + 1))
    if (!isInsideWord(text, at - 1, at) || unspaced().test(phrase))
      if (!isInsideWord(text, at + phrase.length - 1, at + phrase.length) || unspaced().test(phrase)) return true
  return false
}

/** Whether both characters belong to one word. */
const isInsideWord = (text: string, left: number, right: number): boolean =>
  word().test(text[left] ?? '') && word().test(text[right] ?? '')
const word = once(() => /[\p{L}\p{N}]/u)
