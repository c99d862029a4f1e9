import type { Readable } from 'node:stream'
import type { Environment } from '../config/places.ts'
import type { LineOutput } from '../server/stdio.ts'

/** What a command may touch of the world. `main.ts` gives the real one, tests their own. */
export interface Io {
  stdout(text: string): void
  stderr(text: string): void
  /** Where MCP is spoken when serving on stdio. */
  readonly input: Readable & { readonly isTTY?: boolean }
  /** Takes stdout for the protocol alone: whatever else is printed from then on goes to stderr. */
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

/** A finished JSON document on stdout. */
export const writeJson = (io: Io, value: unknown): void => io.stdout(`${JSON.stringify(value, null, 2)}\n`)

/** Rows as aligned columns; the last column is not padded. Empty text for no rows. */
export function table(rows: ReadonlyArray<readonly string[]>): string {
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
