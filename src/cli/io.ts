import type { Readable } from 'node:stream'
import type { Environment } from '../config/machine.ts'
import { toPrintable, toPrintableJson } from '../core/printable.ts'
import type { LineOutput } from '../server/serve-stdio.ts'
import { padToWidth, shortenToWidth, widthOf, wrapWords } from './text-width.ts'

/** The environment of a command. `main.ts` passes the real one, tests their own. */
export interface Io {
  stdout(text: string): void
  stderr(text: string): void
  /** Adds secrets, which are removed from everything written to stderr. */
  onSecrets?(secrets: readonly string[]): void
  /** Number of lines that were dropped because stderr was not read. */
  readonly droppedLogLines?: () => number
  /** Called before drop-in modules are imported. */
  readonly beforeDropIns?: () => void
  /** Input of the MCP connection on stdio. */
  readonly input: Readable & { readonly isTTY?: boolean }
  /** Reserves stdout for MCP. What modules print goes to stderr. */
  claimOutput(): LineOutput
  /** True where stdout or stderr is a terminal. `columns` is the width of the terminal of stdout, if known. */
  readonly terminal?: { readonly out: boolean; readonly err: boolean; readonly columns?: number | undefined }
  readonly env: Environment
  readonly cwd: string
  /** Aborted by SIGINT and other signals, with an error whose message is the name of the signal. */
  readonly stop: AbortSignal
  /** From now on, SIGHUP calls this and does not stop Pegboard. */
  onHangUp?(listener: () => void): void
  /** Absolute paths of Node and of the script, and the command as a person types it. */
  readonly self: { readonly node: string; readonly script: string; readonly called: string }
}

/** The command line is wrong: exit code 2. */
export class UsageError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'UsageError'
  }
}

/** Clears the current line of the terminal. */
export const ERASE = '\r\x1b[K'

/** Makes text of others safe for a terminal. */
export const makePrintable = (text: string): string =>
  text.startsWith(ERASE) ? ERASE + toPrintable(text.slice(ERASE.length)) : toPrintable(text)

export const writeWarning = (io: Io, message: string): void => io.stderr(`pegboard: warning: ${message}\n`)

/** Exit code of a command that a person interrupted with Ctrl-C. */
export const INTERRUPTED = 130

export const writeJson = (io: Io, value: unknown): void =>
  io.stdout(`${toPrintableJson(JSON.stringify(value, null, 2))}\n`)

/** How to make rows fit a terminal. */
export interface TableFit {
  /** The column to shorten; -1 for none. */
  readonly column: number
  /** Of the terminal; undefined or 0 if it is not known. */
  readonly width: number | undefined
}

const GAP = '  '
/** A shortened cell keeps this width. Rows are then wider than a narrow terminal. */
const MIN_CELL_WIDTH = 20

/**
 * Aligns rows in columns; the last column is not padded. If rows do not fit the terminal, the cells of the last column
 * follow on lines of their own, because shortening a reason could remove what to do. Returns an empty text for no rows.
 */
export function formatTable(cells: ReadonlyArray<readonly string[]>, fit?: TableFit): string {
  // A line break in a description must not start a row.
  const rows = cells.map((row) => row.map((cell) => toPrintable(cell).replaceAll(/\s*\n\s*/g, ' ')))
  const widths: number[] = []
  for (const row of rows)
    for (const [index, cell] of row.entries()) widths[index] = Math.max(widths[index] ?? 0, widthOf(cell))
  const width = fit?.width
  const last = widths.length - 1
  const hasNotes = fit && width && last > fit.column && rows.some((row) => minWidth(row, widths, fit.column) > width)
  const notes = hasNotes ? rows.map((row) => row.splice(last).join()) : []
  if (fit && width) fitRows(rows, widths, fit.column, width)
  return rows
    .map((row, at) => {
      const line = row
        .map((cell, index) => (index === row.length - 1 ? cell : padToWidth(cell, widths[index] ?? 0)))
        .join(GAP)
        .trimEnd()
      const noteLines = wrapWords((notes[at] ?? '').split(' ').filter(Boolean), (width ?? 0) - GAP.length)
      return [line, ...noteLines.map((noteLine) => GAP + noteLine)].map((text) => `${text}\n`).join('')
    })
    .join('')
}

/** Width of a row whose `column` is shortened as far as possible. */
function minWidth(row: readonly string[], widths: readonly number[], column: number): number {
  const last = row.findLastIndex((cell) => cell !== '')
  return widths
    .slice(0, last + 1)
    .map((width, index) => (index === column ? Math.min(width, MIN_CELL_WIDTH) : width))
    .reduce((sum, width) => sum + width, GAP.length * last)
}

/** Only a row with a later cell shares its line with the other columns, so the width of the column follows from these rows. */
function fitRows(rows: string[][], widths: number[], column: number, width: number): void {
  if (column < 0) return
  const otherWidths = widths.with(column, 0)
  widths[column] = 0
  for (const row of rows) {
    const last = row.findLastIndex((cell) => cell !== '')
    const taken = otherWidths.slice(0, last + 1).reduce((sum, other) => sum + other, GAP.length * last)
    row[column] = shortenToWidth(row[column] ?? '', Math.max(MIN_CELL_WIDTH, width - taken))
    if (last > column) widths[column] = Math.max(widths[column] ?? 0, widthOf(row[column]))
  }
}
