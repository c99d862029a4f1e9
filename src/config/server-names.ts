import { mixedWord, skeleton } from '../core/lookalike.ts'
import { foldName } from '../core/name-folding.ts'

/**
 * Why a server's name could be mistaken for another, as the end of "it …"; undefined for a clear name in any script.
 */
export function describeNameProblem(id: string): string | undefined {
  // Nearly every name. Compiling INVISIBLE costs a start 0.3 ms.
  if (/^[ -~]*$/.test(id)) return undefined
  if (INVISIBLE.test(id)) return 'has invisible characters'
  const word = mixedWord(id)
  if (word !== undefined) return 'mixes letters of several scripts that look alike'
  const plain = id.normalize('NFKC')
  return plain === id || plain === id.normalize('NFC') ? undefined : `can be taken for "${plain}"`
}

const INVISIBLE = /[\p{C}\p{Zl}\p{Zp}\u115f\u1160\u3164\uffa0]|\p{Variation_Selector}|\u034f/u

/** Replaces all characters except printable ASCII by their code points. */
export const escapedName = (id: string): string =>
  [...id].map((char) => (/[ -~]/.test(char) ? char : `\\u{${char.codePointAt(0)?.toString(16)}}`)).join('')

/** Names that differ in case or look the same would be taken for each other. */
export const shapesOf = (name: string): readonly string[] => [`folded ${foldName(name)}`, `shaped ${skeleton(name)}`]

/** Pairs of names that look the same, or differ only in case and separators. */
export function findLookalikePairs(ids: readonly string[]): Array<readonly [string, string]> {
  const seen = new Map<string, string>()
  return ids.flatMap((id) => {
    const shapes = shapesOf(id)
    const other = shapes.map((shape) => seen.get(shape)).find((one) => one !== undefined)
    for (const shape of shapes) if (!seen.has(shape)) seen.set(shape, id)
    return other === undefined ? [] : [[other, id] as const]
  })
}
