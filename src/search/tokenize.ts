import { once } from '../core/once.ts'

/** A word of a text, in lower case without accents. `parts` are the parts of a camelCase or digit-joined word. */
export interface Word {
  readonly text: string
  readonly parts: readonly string[]
}

/** Search reads this much of a query, and ignores the rest. */
export const MAX_QUERY_CHARACTERS = 2_048
const MAX_WORD = 48
const NO_PARTS: readonly string[] = []
// Compiled on first use, like all large expressions: compiling character classes delays the start.
const anyWord = once(() => /[\p{L}\p{M}\p{N}]+/gu)
const PARTS_ASCII = /[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+/g
const anyParts = once(() => /\p{Lu}+(?!\p{Ll})|\p{Lu}?[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|\p{N}+/gu)
/** Scripts without spaces, and Hangul with its particles: indexed as overlapping pairs of characters. */
const unspacedRuns = once(
  () =>
    /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}ー]+/gu,
)
const NOT_ASCII = /[^\x00-\x7f]/
/** Latin, Greek and Cyrillic accents, Hebrew points, Arabic vowel signs, hamzas and the stretching line. */
const MARKS = /[\u0300-\u036f\u0591-\u05c7\u0640\u064b-\u065f\u0670]/g
const LETTERS: Readonly<Record<string, string>> = { ß: 'ss', œ: 'oe', æ: 'ae', ø: 'o', ł: 'l', đ: 'd', ı: 'i' }

/** Invisible characters inside words of pasted text: soft hyphens, joiners, zero-width spaces. */
const INVISIBLE = /[\u00ad\u200b-\u200d\u2060\ufeff]/g

/** Removes accents and folds compatibility forms. Keeps case, because it marks word borders in camelCase. */
export function foldAccents(text: string): string {
  return text
    .normalize('NFKD')
    .replace(INVISIBLE, '')
    .replace(MARKS, '')
    .normalize('NFC')
    .replace(/[ßœæøłđı]/g, (letter) => LETTERS[letter] ?? letter)
}

/**
 * The words of a text, in order. Words shorter than two characters are dropped, except single Han, kana or Hangul
 * characters.
 */
export function wordsOf(text: string): Word[] {
  const words: Word[] = []
  if (!NOT_ASCII.test(text)) {
    pushAscii(text, words)
    return words
  }
  for (const run of foldAccents(text).match(anyWord()) ?? []) {
    if (!NOT_ASCII.test(run)) {
      pushWord(run, PARTS_ASCII, words)
      continue
    }
    let end = 0
    for (const unspaced of run.matchAll(unspacedRuns())) {
      if (unspaced.index > end) pushWord(run.slice(end, unspaced.index), anyParts(), words)
      pushPairs(unspaced[0], words)
      end = unspaced.index + unspaced[0].length
    }
    if (end < run.length) pushWord(run.slice(end), anyParts(), words)
  }
  return words
}

/** Handles runs of ASCII letters and digits without a regular expression; most words are ASCII. */
function pushAscii(text: string, words: Word[]): void {
  let start = -1
  /** True if the word contains a border: a digit next to a letter, or a capital after the first letter. */
  let hasBorder = false
  let previous = OTHER
  for (let at = 0; at <= text.length; at++) {
    const kind = at < text.length ? kindOf(text.charCodeAt(at)) : OTHER
    if (kind === previous) continue
    if (previous === OTHER) {
      start = at
      hasBorder = false
    } else if (kind === OTHER) {
      pushAsciiWord(text.slice(start, at), hasBorder, words)
    } else {
      const isCapitalized = previous === UPPER && kind === LOWER && at === start + 1
      if (!isCapitalized) hasBorder = true
    }
    previous = kind
  }
}

function pushAsciiWord(word: string, hasBorder: boolean, words: Word[]): void {
  if (hasBorder) pushWord(word, PARTS_ASCII, words)
  else if (word.length > 1 && word.length <= MAX_WORD) words.push({ text: word.toLowerCase(), parts: NO_PARTS })
}

const OTHER = 0
const UPPER = 1
const LOWER = 2
const DIGIT = 3

function kindOf(code: number): number {
  if (code >= 97) return code <= 122 ? LOWER : OTHER
  if (code >= 65) return code <= 90 ? UPPER : OTHER
  return code >= 48 && code <= 57 ? DIGIT : OTHER
}

function pushWord(word: string, pattern: RegExp, words: Word[]): void {
  if (word.length < 2 || word.length > MAX_WORD) return
  const text = word.toLowerCase()
  const pieces = word.match(pattern)
  if (!pieces || pieces.length < 2) words.push({ text, parts: NO_PARTS })
  else words.push({ text, parts: pieces.filter((piece) => piece.length > 1).map((piece) => piece.toLowerCase()) })
}

function pushPairs(run: string, words: Word[]): void {
  const letters = [...run]
  if (letters.length === 1) words.push({ text: run, parts: NO_PARTS })
  for (let i = 1; i < letters.length; i++) words.push({ text: `${letters[i - 1]}${letters[i]}`, parts: NO_PARTS })
}

/**
 * The stem of a lower-case word without accents: light English and French endings. Queries and documents use the same
 * stems, so a stem need not be a word.
 */
export function stemOf(word: string): string {
  if (word.length < 4 || NOT_ASCII.test(word)) return word
  let stem = removeSuffix(removePlural(word))
  if (stem.endsWith('e') && stem.length > 3) stem = stem.slice(0, -1)
  if (stem.endsWith('at') && stem.length > 6) stem = stem.slice(0, -2)
  return stem.endsWith('y') && stem.length > 3 ? `${stem.slice(0, -1)}i` : stem
}

function removePlural(word: string): string {
  if (!word.endsWith('s')) return word
  if (word.endsWith('ies') && word.length > 4) return `${word.slice(0, -3)}y`
  if (word.endsWith('es') && /(?:s|x|z|ch|sh)es$/.test(word)) return word.slice(0, -2)
  return /(?:ss|us|is)$/.test(word) ? word : word.slice(0, -1)
}

function removeSuffix(word: string): string {
  const { length } = word
  if (length > 5 && word.endsWith('ing') && /[aeiouy].*...$/.test(word)) return undouble(word.slice(0, -3))
  if (length > 4 && word.endsWith('ed') && /[aeiouy].*..$/.test(word)) return undouble(word.slice(0, -2))
  if (length > 5 && (word.endsWith('tion') || word.endsWith('sion'))) return word.slice(0, -3)
  if (length > 6 && word.endsWith('ment')) return word.slice(0, -4)
  return length > 6 && /(?:er|or|ez)$/.test(word) ? undouble(word.slice(0, -2)) : word
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

/** Words without content in English or French. A query of stop words alone is searched as it is. */
export const isStopWord = (word: string): boolean => stopWords().has(word)
const stopWords = once(() => new Set(`${STOP_WORDS_ENGLISH} ${STOP_WORDS_FRENCH}`.split(/\s+/)))

/**
 * True for words that say little about which tool is wanted, such as those for asking or for things nearly every tool
 * returns. By stem. Found by comparing, on labelled queries, how often a query's word occurs in the wanted tool and
 * in all tools (relevance weight of Robertson and Sparck Jones, 1976).
 */
export const isFaint = (stem: string): boolean => faintStems().has(stem)
const faintStems = once(
  () =>
    new Set(
      `additionally also another api assist assistance call check curious data detail different easily example fetch finally find first
  follow get give great help include information keep know lastly look make may might much name next obtain particularly
  provide recently regarding see seem show since something specific specifically stay sure tell try understand upcoming
  use various well aide aider donne donner montre montrer obtenir trouve trouver voir`
        .split(/\s+/)
        .map(stemOf),
    ),
)

/** Common words of requests in other languages in Latin script, without accents, that are not also English words. */
const otherLanguageWords = once(
  () =>
    new Set(
      `das der dem den und ist ich mir mich uns bitte nicht ein eine einen zu auf mit von aus wie wo wer wann welche welcher
  welches wieviel wieviele mach mein meine meinen nach vom zum zur noch heute gestern zeig zeige schick schieb schreib setz
  suche spiel benenne datei dateien ordner rechnung termin kalender nachricht bild musik
  les le un une des du je mon mes est pour avec dans sur qui que moi quel quelle quels quelles combien fait montre
  cherche trouve affiche ajoute envoie ouvre ferme supprime cette ces aux lis joue renomme fichier fichiers dossier facture
  courriel musique
  el los las mis por para del quiero muestra busca borra crea abre pon pasa algo cual donde cuando hoy todos todas
  renombra archivo archivos carpeta factura correo musica
  os um uma meu minha meus minhas da aceita apaga liga desliga roda mostra manda quais onde quando hoje isso pra leia toca arquivo
  arquivos fatura
  gli che della delle dei nel nella alla dalla sono mio mia leggimi mostrami metti cancella assegna rinomina quante
  quanti questo questa cerca trova apri chiudi invia oggi leggi rinomina cartella fattura
  het een ik mijn op voor naar niet zijn hoe welke elke zien doe zet zoek maak laat stuur geef haal verwijder toon hoeveel
  waar wanneer deze vandaag gisteren lees speel hernoem bestand bestanden muziek
  jak czy moje mojej mojego na jest gdzie ile kto jaki jakie jaka jakim jakich wszystkie dodaj usun jako tam dopisz
  plik pliki spotkanie
  ve bir bu kac icin hangi benim bana bugun yarin goster ekle dosya dosyayi klasor toplanti muzik`.split(/\s+/),
    ),
)

/** True if a query seems to be in a language other than English. */
export function isOtherLanguage(query: string): boolean {
  return NOT_ASCII.test(query) || wordsOf(query.slice(0, 2048)).some(({ text }) => otherLanguageWords().has(text))
}
