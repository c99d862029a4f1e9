/**
 * Counts what a run of `npm run test:security` does: calls, answers, faults. The run makes the file before it starts, in a
 * folder for temporary files of its own, which programs inherit; in any other run there is no such file, and nothing is counted.
 */
import { appendFileSync, existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export const FILE = 'pegboard-counts'
const file = join(tmpdir(), FILE)
const counting = existsSync(file)

/** @param {string} what a word @param {string} [note] where, for whoever looks at what should not be */
export function count(what, note = '') {
  // One write a line: programs beside each other do not mix theirs.
  if (counting) appendFileSync(file, `${what}${note && `\t${note.replaceAll(/\s+/g, ' ')}`}\n`)
}
