// Letters of other scripts that look like Latin ones in most typefaces, beside what NFKC already folds.
const TWINS: Readonly<Record<string, string>> = Object.fromEntries(
  [
    ['аαɑ', 'a'],
    ['ЬьƄƅ', 'b'],
    ['сϲⅽ', 'c'],
    ['ԁⅾ', 'd'],
    ['еҽ℮', 'e'],
    ['ɡց', 'g'],
    ['һհ', 'h'],
    ['іιıɩ', 'i'],
    ['јϳ', 'j'],
    ['κк', 'k'],
    ['ӏⅼӀ', 'l'],
    ['мⅿ', 'm'],
    ['пոռ', 'n'],
    ['оοօσ', 'o'],
    ['рρ', 'p'],
    ['ԛ', 'q'],
    ['гᴦ', 'r'],
    ['ѕꜱ', 's'],
    ['тτ', 't'],
    ['υսц', 'u'],
    ['νѵ', 'v'],
    ['ԝшω', 'w'],
    ['хχ', 'x'],
    ['уүγ', 'y'],
    ['ᴢ', 'z'],
  ].flatMap(([from = '', to = '']) => [...from].map((char) => [char, to])),
)

/**
 * What a name looks like to somebody who does not look closely: compatibility forms, letters of other scripts, accents,
 * `0` for `o`, `1` and `I` for `l` are all the same.
 */
export function skeleton(name: string): string {
  // Nearly every name: each new server is compared with all tools of all others.
  if (!NOT_ASCII.test(name)) return folded(name)
  const plain = folded(name.normalize('NFKD').replaceAll(/\p{M}/gu, ''))
  return [...plain].map((char) => TWINS[char] ?? char).join('')
}

/** In lower case, without accents and compatibility forms, letters of other scripts as the Latin ones they look like. */
export function plainLetters(name: string): string {
  if (!NOT_ASCII.test(name)) return name.toLowerCase()
  const lower = name.normalize('NFKD').replaceAll(/\p{M}/gu, '').toLowerCase()
  return [...lower].map((char) => TWINS[char] ?? char).join('')
}

const NOT_ASCII = /[^\x00-\x7f]/
const FOLDED = /[01I|]/
const folded = (name: string): string =>
  (FOLDED.test(name) ? name.replaceAll(/[1I|]/g, 'l').replaceAll('0', 'o') : name).toLowerCase()

/** A word of `name` that mixes Latin letters with look-alikes of another script. */
export function mixedWord(name: string): string | undefined {
  if (!NOT_ASCII.test(name)) return undefined
  return name
    .split(/[^\p{L}\p{M}\p{N}]+/u)
    .find(
      (word) =>
        /\p{Script=Latin}/u.test(word) &&
        [...word].some((char) => Object.hasOwn(TWINS, char.toLowerCase()) && !/\p{Script=Latin}/u.test(char)),
    )
}

/** Whether `name` could be taken for `other` though it is another name; the same name in capitals is not meant. */
export const looksLike = (name: string, other: string): boolean =>
  name.toLowerCase() !== other.toLowerCase() && skeleton(name) === skeleton(other)
