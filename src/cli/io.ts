import type { Readable } from 'node:stream'
import type { Environment } from '../config/places.ts'
import { plain, plainJson } from '../core/plain.ts'
import type { LineOutput } from '../server/stdio.ts'

/** What a command may touch of the world. `main.ts` gives the real one, tests their own. */
export interface Io {
  stdout(text: string): void
  stderr(text: string): void
  /** These are secret, too: nothing that goes to stderr has them any more, whoever writes it. */
  know?(secrets: readonly string[]): void
  /** Lines that were not written to stderr, because nobody read them. */
  readonly unwritten?: () => number
  /** Called before code of the user's own is imported. */
  readonly beforeDropIns?: () => void
  /** Where MCP is spoken when serving on stdio. */
  readonly input: Readable & { readonly isTTY?: boolean }
  /** Stdout, for the protocol. What modules print goes to stderr. */
  claimOutput(): LineOutput
  /** Whether a person reads stdout and stderr as they come. */
  readonly terminal?: { readonly out: boolean; readonly err: boolean }
  readonly env: Environment
  readonly cwd: string
  /** Fires when the person or the system wants the process to end. */
  readonly stop: AbortSignal
  /** How this program is started: absolute paths of the runtime and of the script, and what a person types. */
  readonly self: { readonly node: string; readonly script: string; readonly called: string }
}

/** The command line itself was wrong: exit code 2. */
export class UsageError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'UsageError'
  }
}

/** Takes back the line a person is watching, so that another can be written in its place. */
export const ERASE = '\r\x1b[K'

/** What others wrote, among what is ours, may steer a terminal. */
export const steady = (text: string): string =>
  text.startsWith(ERASE) ? ERASE + plain(text.slice(ERASE.length)) : plain(text)

/** A finished JSON document on stdout. */
export const writeJson = (io: Io, value: unknown): void => io.stdout(`${plainJson(JSON.stringify(value, null, 2))}\n`)

/** `1 tool`, `2 tools`. */
export const counted = (count: number, one: string, many = `${one}s`): string => `${count} ${count === 1 ? one : many}`

/** Rows as aligned columns; the last column is not padded. Empty text for no rows. */
export function table(given: ReadonlyArray<readonly string[]>): string {
  // A description must not make a row of its own.
  const rows = given.map((row) => row.map((cell) => plain(cell).replaceAll(/\s*\n\s*/g, ' ')))
  const widths: number[] = []
  for (const row of rows) for (const [at, cell] of row.entries()) widths[at] = Math.max(widths[at] ?? 0, cell.length)
  return rows
    .map(
      (row) =>
        `${row
          .map((cell, at) => (at === row.length - 1 ? cell : cell.padEnd(widths[at] ?? 0)))
          .join('  ')
          .trimEnd()}\n`,
    )
    .join('')
}
