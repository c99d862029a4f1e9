/** A word of text as search sees it: lower case, no accents. `parts` are the pieces of a camelCase or digit-joined word. */
export interface Word {
  readonly text: string
  readonly parts: readonly string[]
}

const MAX_WORD = 48
const WORD_ASCII = /[A-Za-z0-9]+/g
const WORD_ANY = /[\p{L}\p{M}\p{N}]+/gu
const PARTS_ASCII = /[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+/g
const PARTS_ANY = /\p{Lu}+(?!\p{Ll})|\p{Lu}?[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|\p{N}+/gu
/** Scripts written without spaces, or (Hangul) with particles glued on: indexed as overlapping pairs. */
const UNSPACED =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}ー]+/gu
const NOT_ASCII = /[^\x00-\x7f]/
const LETTERS: Readonly<Record<string, string>> = { ß: 'ss', œ: 'oe', æ: 'ae', ø: 'o', ł: 'l', đ: 'd', ı: 'i' }

/** Accents off, compatibility forms folded; case is kept, because it marks word borders in camelCase. */
function fold(text: string): string {
  return text
    .normalize('NFKD')
    .replace(/[\u0300-\u036f]/g, '')
    .normalize('NFC')
    .replace(/[ßœæøłđı]/g, (letter) => LETTERS[letter] ?? letter)
}

/** The words of a text, in order. Words under two characters are dropped, save single Han, kana or Hangul characters. */
export function wordsOf(text: string): Word[] {
  const words: Word[] = []
  if (!NOT_ASCII.test(text)) {
    for (const word of text.match(WORD_ASCII) ?? []) pushWord(word, PARTS_ASCII, words)
    return words
  }
  for (const run of fold(text).match(WORD_ANY) ?? []) {
    if (!NOT_ASCII.test(run)) {
      pushWord(run, PARTS_ASCII, words)
      continue
    }
    let end = 0
    for (const unspaced of run.matchAll(UNSPACED)) {
      if (unspaced.index > end) pushWord(run.slice(end, unspaced.index), PARTS_ANY, words)
      pushPairs(unspaced[0], words)
      end = unspaced.index + unspaced[0].length
    }
    if (end < run.length) pushWord(run.slice(end), PARTS_ANY, words)
  }
  return words
}

function pushWord(word: string, pattern: RegExp, words: Word[]): void {
  if (word.length < 2 || word.length > MAX_WORD) return
  const text = word.toLowerCase()
  const pieces = word.match(pattern)
  if (!pieces || pieces.length < 2) words.push({ text, parts: [] })
  else words.push({ text, parts: pieces.filter((piece) => piece.length > 1).map((piece) => piece.toLowerCase()) })
}

function pushPairs(run: string, words: Word[]): void {
  const letters = [...run]
  if (letters.length === 1) words.push({ text: run, parts: [] })
  for (let i = 1; i < letters.length; i++) words.push({ text: `${letters[i - 1]}${letters[i]}`, parts: [] })
}

/**
 * The stem of a lower-case word without accents: light English and French endings, language unseen. Both sides of a
 * match go through it, so a stem need not be a word.
 */
export function stemOf(word: string): string {
  if (word.length < 4 || NOT_ASCII.test(word)) return word
  let stem = word
  if (stem.endsWith('ies') && stem.length > 4) stem = `${stem.slice(0, -3)}y`
  else if (/(?:s|x|z|ch|sh)es$/.test(stem)) stem = stem.slice(0, -2)
  else if (stem.endsWith('s') && !/(?:ss|us|is)$/.test(stem)) stem = stem.slice(0, -1)
  if (stem.endsWith('ing') && /[aeiouy].*...$/.test(stem) && stem.length > 5) stem = undouble(stem.slice(0, -3))
  else if (stem.endsWith('ed') && /[aeiouy].*..$/.test(stem) && stem.length > 4) stem = undouble(stem.slice(0, -2))
  else if (/[st]ion$/.test(stem) && stem.length > 5) stem = stem.slice(0, -3)
  else if (stem.endsWith('ment') && stem.length > 6) stem = stem.slice(0, -4)
  else if (/(?:er|or|ez)$/.test(stem) && stem.length > 5) stem = undouble(stem.slice(0, -2))
  if (stem.endsWith('e') && stem.length > 3) stem = stem.slice(0, -1)
  if (stem.endsWith('at') && stem.length > 6) stem = stem.slice(0, -2)
  return stem.endsWith('y') && stem.length > 3 ? `${stem.slice(0, -1)}i` : stem
}

function undouble(stem: string): string {
  return /([bdfgklmnprt])\1$/.test(stem) && stem.length > 3 ? stem.slice(0, -1) : stem
}

const STOP_WORDS_ENGLISH = `a about after again all also am an and any are as at be because been before being both but by can cannot could did do does
  doing don each few for from further had has have having he hello her here hers hey hi him his how i if in into is it its just
  kindly let like ll me more most my myself need no nor not now of on once only or other our ours out over own please re s same
  she should so some such t than thank thanks that the their theirs them then there these they this those through to too under
  until up us ve very want wants was we were what when where which while who whom why will with would you your yours tool tools
  using`
const STOP_WORDS_FRENCH = `au aux avec ce ces cet cette comment dans de des du elle elles en est et eux faire faut ici il ils je la le les leur leurs lui
  ma mais merci mes moi mon ne nos notre nous ou par pas peux peut plait pour pourrais puis qu que quel quelle quelles quels qui
  quoi sa sans sans se ses si son sont sur ta te tes toi ton tu un une veux vos votre vous voudrais`

/** Words that carry no wish in English or French; a query made of nothing else is searched as it stands. */
export const STOP_WORDS: ReadonlySet<string> = new Set(`${STOP_WORDS_ENGLISH} ${STOP_WORDS_FRENCH}`.split(/\s+/))
