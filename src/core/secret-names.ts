/** A name with one of these words is that of a credential. */
const ANYWHERE = new Set(
  'auth authorization credential credentials passphrase passwd password passwords pwd secret secrets'.split(' '),
)
/** So is a name with `key` after one of these words. */
const KEYS = new Set('access api encryption private secret signing'.split(' '))
/** So is a name with `tokens` after one of these words, or with `token`, unless it also has a word of `HARMLESS`. */
const TOKENS = new Set('access api auth bearer id refresh secret session'.split(' '))
const HARMLESS = new Set(
  'budget continuation count counts cursor estimate length limit max next num number page per size sync total type usage used'.split(
    ' ',
  ),
)
/** Last words of names that describe a credential but do not contain one. */
const ABOUT = new Set(
  'policy policies rule rules requirement requirements strength length count counts expiry expires expired expiration enabled required supported type types method methods mode status age'.split(
    ' ',
  ),
)
/** Names of credentials that are written without separators. */
const JOINED =
  /^(?:(?:access|api|auth|bearer|id|refresh|session)tokens?|(?:access|api|encryption|private|secret|signing)keys?|clientsecret|secretaccesskey|cookie|setcookie|credentials?|pass(?:word|wd|phrase)s?)$/

const answersByName = new Map<string, boolean>()
const MAX_ANSWERS = 4_096
const MAX_NAME = 256

/**
 * True if a field's name looks like that of a credential, in any spelling: `apiKey`, `API-KEY`, `client_secret`,
 * `set-cookie`, but not `author`, `token_count` or `nextPageToken`.
 */
export function looksSecret(name: string): boolean {
  let answer = answersByName.get(name)
  if (answer === undefined) {
    answer = classifyName(name.slice(0, MAX_NAME))
    if (answersByName.size >= MAX_ANSWERS) answersByName.clear()
    if (name.length <= MAX_NAME) answersByName.set(name, answer)
  }
  return answer
}

/** Where a name is cut into words. Nearly every name is ASCII, and compiling Unicode classes costs a start 1 ms. */
const ASCII_CUTS = { word: /([a-z\d])([A-Z])/g, capitals: /([A-Z])([A-Z][a-z])/g, gap: /[^a-z\d]+/ }
const UNICODE_CUTS = { word: /([\p{Ll}\d])(\p{Lu})/gu, capitals: /(\p{Lu})(\p{Lu}\p{Ll})/gu, gap: /[^\p{L}\p{N}]+/u }

function classifyName(name: string): boolean {
  const { word, capitals, gap } = /^[\x00-\x7f]*$/.test(name) ? ASCII_CUTS : UNICODE_CUTS
  const words = name
    .normalize('NFKC')
    .replaceAll(word, '$1 $2')
    .replaceAll(capitals, '$1 $2')
    .toLowerCase()
    .split(gap)
    .filter(Boolean)
  if (JOINED.test(words.join(''))) return true
  if (words.length > 1 && ABOUT.has(words.at(-1) ?? '')) return false
  const harmless = words.some((word) => HARMLESS.has(word))
  return words.some((word, at) => {
    const before = words[at - 1] ?? ''
    if (ANYWHERE.has(word) || JOINED.test(word) || /(?:password|passwd|passphrase)$/.test(word)) return true
    if (word === 'key' || word === 'keys') return KEYS.has(before)
    if (word === 'token') return !harmless
    return word === 'tokens' && TOKENS.has(before)
  })
}
