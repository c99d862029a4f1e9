/** Words that make a name that of a credential, wherever they stand in it. */
const ALONE = new Set(
  'auth authorization credential credentials passphrase passwd password passwords pwd secret secrets'.split(' '),
)
/** What stands before `key` in the name of one. */
const KEYS = new Set('access api encryption private secret signing'.split(' '))
/** `token` is one, and `tokens` behind these; beside those below it is a number or a place in a list. */
const TOKENS = new Set('access api auth bearer id refresh secret session'.split(' '))
const HARMLESS = new Set(
  'budget continuation count counts cursor estimate length limit max next num number page per size sync total type usage used'.split(
    ' ',
  ),
)
/** Last words of names that say something about a credential and have none. */
const ABOUT = new Set(
  'policy policies rule rules requirement requirements strength length count counts expiry expires expired expiration enabled required supported type types method methods mode status age'.split(
    ' ',
  ),
)
/** The same without anything between the words. */
const JOINED =
  /^(?:(?:access|api|auth|bearer|id|refresh|session)tokens?|(?:access|api|encryption|private|secret|signing)keys?|clientsecret|secretaccesskey|cookie|setcookie|credentials?)$/

const known = new Map<string, boolean>()
const MAX_KNOWN = 4_096
const MAX_NAME = 256

/**
 * Whether the name of a field looks like that of a credential, in any spelling: `apiKey`, `API-KEY`, `client_secret`,
 * `set-cookie`. `author`, `token_count` and `nextPageToken` do not.
 */
export function looksSecret(name: string): boolean {
  let answer = known.get(name)
  if (answer === undefined) {
    answer = judge(name.slice(0, MAX_NAME))
    if (known.size >= MAX_KNOWN) known.clear()
    if (name.length <= MAX_NAME) known.set(name, answer)
  }
  return answer
}

function judge(name: string): boolean {
  const words = name
    .normalize('NFKC')
    .replaceAll(/([\p{Ll}\d])(\p{Lu})/gu, '$1 $2')
    .replaceAll(/(\p{Lu})(\p{Lu}\p{Ll})/gu, '$1 $2')
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u)
    .filter(Boolean)
  if (JOINED.test(words.join(''))) return true
  if (words.length > 1 && ABOUT.has(words.at(-1) ?? '')) return false
  const harmless = words.some((word) => HARMLESS.has(word))
  return words.some((word, at) => {
    const before = words[at - 1] ?? ''
    if (ALONE.has(word) || JOINED.test(word) || /(?:password|passwd|passphrase)$/.test(word)) return true
    if (word === 'key' || word === 'keys') return KEYS.has(before)
    if (word === 'token') return !harmless
    return word === 'tokens' && TOKENS.has(before)
  })
}
