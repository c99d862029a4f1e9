/**
 * Calls back for each occurrence, left to right, without overlaps. Knuth-Morris-Pratt, so the time is linear in both
 * lengths. V8's `indexOf` takes 20 seconds for 10,000 characters `a…aba…a` in 10 MiB of `a`.
 */
export function eachOccurrence(bytes: Uint8Array, find: Uint8Array, onFound: (at: number) => void): void {
  const borders = bordersOf(find)
  let matched = 0
  for (let at = 0; at < bytes.length; at++) {
    while (matched > 0 && bytes[at] !== find[matched]) matched = borders[matched - 1] as number
    if (bytes[at] === find[matched]) matched++
    if (matched === find.length) {
      onFound(at - matched + 1)
      matched = 0
    }
  }
}

/** For each prefix: length of its longest proper prefix that is also a suffix. */
function bordersOf(find: Uint8Array): Uint32Array {
  const borders = new Uint32Array(find.length)
  for (let at = 1, length = 0; at < find.length; at++) {
    while (length > 0 && find[at] !== find[length]) length = borders[length - 1] as number
    if (find[at] === find[length]) length++
    borders[at] = length
  }
  return borders
}

/** `text.includes(find)` in linear time. */
export function includesText(text: string, find: string): boolean {
  let isThere = false
  eachOccurrence(Buffer.from(text), Buffer.from(find), () => {
    isThere = true
  })
  return isThere
}
