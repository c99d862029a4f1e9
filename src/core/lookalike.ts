// Lower-case letters of other scripts (Cyrillic, Greek, Armenian, Cherokee, Lisu, Coptic), and small capitals, that look like
// Latin ones in most typefaces, beside those that NFKD already folds.
const TWINS: Readonly<Record<string, string>> = Object.fromEntries(
  [
    ['аαɑᴀꭺꓮ', 'a'],
    ['ЬьƄƅʙꮟꓐ', 'b'],
    ['сϲⅽᴄꮯꓚⲥ', 'c'],
    ['ԁⅾᴅꭰꓓ', 'd'],
    ['еҽ℮ᴇ€ꭼꓰ', 'e'],
    ['ꜰꓝ', 'f'],
    ['ɡցɢꮐꓖ', 'g'],
    ['һհʜꮋꓧⲏ', 'h'],
    ['іιıɩɪꭵ', 'i'],
    ['јϳᴊꭻꓙ', 'j'],
    ['κкᴋꮶꓗⲕ', 'k'],
    ['ӏⅼӀʟꮮꓡꓲⲓ', 'l'],
    ['мⅿᴍꮇꓟⲙ', 'm'],
    ['пոռɴꓠⲛ', 'n'],
    ['оοօσᴏꓳⲟ', 'o'],
    ['рρᴘꮲꓑⲣ', 'p'],
    ['ԛ', 'q'],
    ['гᴦʀꭱꮢꓣⲅ', 'r'],
    ['ѕꜱꮪꓢ', 's'],
    ['тτᴛꭲꓔⲧ', 't'],
    ['υսцᴜꓴ', 'u'],
    ['νѵᴠꮩꓦ', 'v'],
    ['ԝшωᴡꮃꓪ', 'w'],
    ['хχꓫⲭ', 'x'],
    ['уүγʏꭹꓬⲩ', 'y'],
    ['ᴢꮓꓜ', 'z'],
  ].flatMap(([from = '', to = '']) => [...from].map((char) => [char, to])),
)

/** The skeleton of a name: look-alikes of all scripts are equal, as are `0` and `o`, and `1`, `I` and `l`. */
export function skeleton(name: string): string {
  // A fast path for nearly every name, because each new server is compared with all tools of all others.
  if (!NOT_ASCII.test(name)) return foldDigits(name)
  const plain = foldDigits(name.normalize('NFKD').replaceAll(/\p{M}/gu, ''))
  return [...plain].map((char) => TWINS[char] ?? char).join('')
}

/** The name in lower case, without accents and compatibility forms, in Latin letters where others look alike. */
export function plainLetters(name: string): string {
  if (!NOT_ASCII.test(name)) return name.toLowerCase()
  const lower = name.normalize('NFKD').replaceAll(/\p{M}/gu, '').toLowerCase()
  return [...lower].map((char) => TWINS[char] ?? char).join('')
}

const NOT_ASCII = /[^\x00-\x7f]/
const FOLDED = /[01I|]/
const foldDigits = (name: string): string =>
  (FOLDED.test(name) ? name.replaceAll(/[1I|]/g, 'l').replaceAll('0', 'o') : name).toLowerCase()

/** Finds a word of `name` that mixes Latin letters with look-alikes of another script. */
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

/** True if `name` could be mistaken for `other`. False if the names differ only in case. */
export const looksLike = (name: string, other: string): boolean =>
  name.toLowerCase() !== other.toLowerCase() && skeleton(name) === skeleton(other)
