import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { foldAccents, isOtherLanguage, MAX_QUERY_CHARACTERS } from './tokenize.ts'

/**
 * Translates a query into English word by word. Tools are described in English, and the encoder reads only English.
 * @returns undefined for a query in English, or in a language without a dictionary
 */
export type QueryTranslator = (query: string) => string | undefined

interface Dictionary {
  /** English for words and short phrases in lower case without accents; empty for words without content. */
  readonly english: ReadonlyMap<string, string>
  /** Words that are English already. */
  readonly isEnglish: ReadonlySet<string>
}

/** Languages with a script of their own. Japanese comes before Chinese, because it uses Han characters, too. */
const SCRIPTS = {
  ja: /[\p{Script=Hiragana}\p{Script=Katakana}]/u,
  zh: /\p{Script=Han}/u,
  ko: /\p{Script=Hangul}/u,
  ar: /\p{Script=Arabic}/u,
  ru: /\p{Script=Cyrillic}/u,
} as const
const LATIN = ['de', 'fr', 'es', 'pt', 'it', 'nl', 'pl', 'tr'] as const
const LONGEST_PHRASE = 3
const LONGEST_UNSPACED = 8
/** A word with an ending or a compound must begin with a known word of at least this many letters. */
const MIN_STEM = 4
/** Known words in these scripts may be shorter. */
const SHORT_STEMS = [
  { script: /\p{Script=Hangul}/u, min: 2 },
  { script: /\p{Script=Arabic}/u, min: 3 },
] as const
/** Longer runs are no words, and comparing all their beginnings would take long. */
const LONGEST_WORD = 48
/** A word, or an address or file name, which stays as it is. */
const WORD = /[!-~]*\w[./@]\w[!-~]*|[\p{L}\p{M}\p{N}]+/gu
/** File names, addresses and numbers. */
const NAME = /[./@]|^\d/
const UNSPACED = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}ー]+/gu
/** And, in, to, for, the. */
const ARABIC_PREFIX = /^(?:[وف]?(?:[بك]?ال|لل|[بلك])|[وف])(?=..)/

/** @param folder with `<language>.tsv` files: an English word, a tab, and words that mean it, separated by `|` */
export function createQueryTranslator(folder: string): QueryTranslator {
  const loaded = new Map<string, Dictionary>()
  function dictionaryOf(language: string): Dictionary {
    const dictionary = loaded.get(language) ?? parseDictionary(readFileSync(join(folder, `${language}.tsv`), 'utf8'))
    loaded.set(language, dictionary)
    return dictionary
  }
  return (query) => {
    if (!isOtherLanguage(query)) return undefined
    const text = foldAccents(query.slice(0, MAX_QUERY_CHARACTERS)).toLowerCase()
    const script = Object.entries(SCRIPTS).find(([, pattern]) => pattern.test(text))?.[0]
    if (script) return translateText(text, dictionaryOf(script))
    const words = text.match(WORD) ?? []
    // One word does not tell its language, and finds the same with and without accents.
    if (words.length < 2) return undefined
    let best: Dictionary | undefined
    let most = 0
    for (const language of LATIN) {
      const dictionary = dictionaryOf(language)
      const known = knownMinusUnknown(words, dictionary)
      if (known > most) [best, most] = [dictionary, known]
    }
    return best && translateText(text, best)
  }
}

/** How many more words of a text the dictionary knows than it does not know. English words and numbers do not count. */
function knownMinusUnknown(words: readonly string[], { english, isEnglish }: Dictionary): number {
  let excess = 0
  for (const word of words) {
    if (english.has(word)) excess++
    else if (!isEnglish.has(word) && !NAME.test(word)) excess += translateWord(word, english) === undefined ? -1 : 1
  }
  return excess
}

function parseDictionary(text: string): Dictionary {
  const dictionary = { english: new Map<string, string>(), isEnglish: new Set<string>() }
  for (const line of foldAccents(text).toLowerCase().split('\n')) {
    const [english = '', forms = ''] = line.split('\t')
    dictionary.isEnglish.add(english)
    for (const form of forms.split('|')) if (form) dictionary.english.set(form, english)
  }
  return dictionary
}

function translateText(text: string, { english, isEnglish }: Dictionary): string {
  const spaced = text.replace(UNSPACED, (run) => ` ${translateRun(run, english)} `)
  const words = spaced.match(WORD) ?? []
  const translated: string[] = []
  for (let at = 0; at < words.length; ) {
    let length = Math.min(LONGEST_PHRASE, words.length - at)
    while (length > 1 && !english.has(words.slice(at, at + length).join(' '))) length--
    const phrase = words.slice(at, at + length).join(' ')
    translated.push(
      english.get(phrase) ?? (isEnglish.has(phrase) ? undefined : translateWord(phrase, english)) ?? phrase,
    )
    at += length
  }
  return translated.filter(Boolean).join(' ')
}

/** Also translates words with an ending, compounds, and words with an Arabic prefix. @returns undefined for unknown words */
function translateWord(word: string, english: Dictionary['english']): string | undefined {
  if (english.has(word) || word.length > LONGEST_WORD || NAME.test(word)) return english.get(word)
  const bare = word.replace(ARABIC_PREFIX, '')
  if (bare !== word) return translateWord(bare, english)
  const minStem = SHORT_STEMS.find(({ script }) => script.test(word))?.min ?? MIN_STEM
  for (let length = word.length - 1; length >= minStem; length--) {
    const start = english.get(word.slice(0, length))
    if (start === undefined) continue
    const end = word.length - length < minStem ? undefined : translateWord(word.slice(length), english)
    if (end !== undefined) return `${start} ${end}`
    if (length * 2 >= word.length) return start
  }
  return undefined
}

/** Text without spaces: the longest known word at each position. Unknown characters are left out. */
function translateRun(run: string, english: Dictionary['english']): string {
  const translated: string[] = []
  for (let at = 0; at < run.length; ) {
    let length = Math.min(LONGEST_UNSPACED, run.length - at)
    while (length > 1 && !english.has(run.slice(at, at + length))) length--
    translated.push(english.get(run.slice(at, at + length)) ?? '')
    at += length
  }
  return translated.filter(Boolean).join(' ')
}
