// What the reference rankers read of a tool, and how they cut it into words. Kept apart from the product on purpose:
// a reference that moves with the product measures nothing.

/** @typedef {{ id: string, server: string, name: string, description?: string, inputSchema?: object, serverDescription?: string }} Tool */

const PARAMETERS_CAP = 1024
const PARAMETER_CAP = 120
const SERVER_CAP = 512

/**
 * The text of a tool by field. Parameters are their names, descriptions (120 characters each) and enum values, 1,024 in
 * all; the server is its name and what it says about itself.
 */
export function fieldsOf(tool) {
  const parts = []
  collect(tool.inputSchema, 0, parts)
  return {
    name: bareNameOf(tool),
    description: tool.description ?? '',
    parameters: parts.join(' ').slice(0, PARAMETERS_CAP),
    server: `${tool.server} ${tool.serverDescription ?? ''}`.slice(0, SERVER_CAP),
  }
}

function bareNameOf({ server, name }) {
  const rest = name.toLowerCase().startsWith(server.toLowerCase()) ? name.slice(server.length) : ''
  return /^[._:/-]+./.test(rest) ? rest.replace(/^[._:/-]+/, '') : name
}

function collect(schema, depth, parts) {
  if (typeof schema !== 'object' || schema === null || depth > 4) return
  for (const [name, property] of Object.entries(schema.properties ?? {})) {
    parts.push(name)
    if (typeof property?.description === 'string') parts.push(property.description.slice(0, PARAMETER_CAP))
    collect(property, depth + 1, parts)
  }
  if (Array.isArray(schema.enum)) parts.push(...schema.enum.filter((value) => typeof value === 'string').slice(0, 24))
  if (schema.items !== undefined) collect(schema.items, depth + 1, parts)
}

/** Lower-case words; camelCase, snake_case and letters beside digits are several. */
export function wordsOf(text) {
  const spaced = text
    .normalize('NFKC')
    .replace(/(\p{Ll}|\p{N})(?=\p{Lu})/gu, '$1 ')
    .replace(/(\p{Lu})(?=\p{Lu}\p{Ll})/gu, '$1 ')
  return spaced.toLowerCase().match(/[\p{L}\p{M}\p{N}]+/gu) ?? []
}

/** Verbs that name tools (get, show, make, use) are not among them. */
const STOP_WORDS = new Set(
  `a about after all also am an and any are as at be been before but by can could did do does for from had has have he her
  here him his how i if in into is it its just like let may me more my need no not now of on one or our out over please
  should so some than that the their them then there these they this to too up us using want was we were what when where
  which who why will with would you your`.split(/\s+/),
)

/** Words that carry a wish; all of them when none does. */
export function contentWords(words) {
  const kept = words.filter((word) => !STOP_WORDS.has(word))
  return kept.length > 0 ? kept : words
}

const VOWEL = /[aeiouy]/
const SHORT_SYLLABLE = /[^aeiouy][aeiouy][^aeiouywx]$/
/** How often a vowel is followed by a consonant: the measure m of Porter's paper. */
const measure = (stem) => (stem.replace(/^[^aeiouy]+/, '').match(/[aeiouy]+[^aeiouy]+/g) ?? []).length
const pairs = (table) => table.split(' ').map((pair) => pair.split('>'))
const STEP_2 = pairs(
  'ational>ate tional>tion enci>ence anci>ance izer>ize abli>able alli>al entli>ent eli>e ousli>ous ization>ize ation>ate ator>ate alism>al iveness>ive fulness>ful ousness>ous aliti>al iviti>ive biliti>ble',
)
const STEP_3 = pairs('icate>ic ative> alize>al iciti>ic ical>ic ful> ness>')
const STEP_4 = /(?:ement|ment|ance|ence|able|ible|ant|ent|ism|ate|iti|ous|ive|ize|al|er|ic|ou|(?<=[st])ion)$/

/** M. F. Porter, An algorithm for suffix stripping (1980), with y taken as a vowel everywhere. */
export function stemOf(word) {
  if (word.length < 3 || !/^[a-z]+$/.test(word)) return word
  return [step1a, step1b, step1c, step2And3, step4, step5].reduce((stem, step) => step(stem), word)
}

/** Plurals. */
const step1a = (word) =>
  word
    .replace(/sses$/, 'ss')
    .replace(/ies$/, 'i')
    .replace(/([^s])s$/, '$1')

/** Past tenses and participles. */
function step1b(word) {
  if (word.endsWith('eed')) return measure(word.slice(0, -3)) > 0 ? word.slice(0, -1) : word
  const stem = word.replace(/(?:ed|ing)$/, '')
  if (stem === word || !VOWEL.test(stem)) return word
  if (/(?:at|bl|iz)$/.test(stem)) return `${stem}e`
  if (/([^aeiouylsz])\1$/.test(stem)) return stem.slice(0, -1)
  return measure(stem) === 1 && SHORT_SYLLABLE.test(stem) ? `${stem}e` : stem
}

const step1c = (word) => (word.endsWith('y') && VOWEL.test(word.slice(0, -1)) ? `${word.slice(0, -1)}i` : word)

function step2And3(word) {
  let stem = word
  for (const table of [STEP_2, STEP_3]) {
    const found = table.find(([ending]) => stem.endsWith(ending))
    if (found && measure(stem.slice(0, -found[0].length)) > 0) stem = stem.slice(0, -found[0].length) + found[1]
  }
  return stem
}

function step4(word) {
  const stem = word.replace(STEP_4, '')
  return measure(stem) > 1 ? stem : word
}

/** A final e and a double l. */
function step5(word) {
  const cut = word.endsWith('e') ? word.slice(0, -1) : word
  const isLong = measure(cut) > 1 || (measure(cut) === 1 && !SHORT_SYLLABLE.test(cut))
  const stem = isLong ? cut : word
  return stem.endsWith('ll') && measure(stem) > 1 ? stem.slice(0, -1) : stem
}
