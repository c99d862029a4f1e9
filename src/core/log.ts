export type LogLevel = 'debug' | 'info' | 'warn' | 'error'

/** Where operators read what happened. One JSON line an entry; never stdout, which belongs to the protocol. */
export interface Log {
  debug(message: string, fields?: Readonly<Record<string, unknown>>): void
  info(message: string, fields?: Readonly<Record<string, unknown>>): void
  warn(message: string, fields?: Readonly<Record<string, unknown>>): void
  error(message: string, fields?: Readonly<Record<string, unknown>>): void
  /** `debug` entries are dropped: nobody need write them. */
  readonly terse?: boolean
  /** The same log with `scope` (a module or upstream) added to every entry. */
  scoped(scope: string): Log
}

const ORDER: Readonly<Record<LogLevel, number>> = { debug: 0, info: 1, warn: 2, error: 3 }
const MAX_LINE = 8 * 1024

/**
 * Builds a log that hands finished lines (no newline inside, at most 8 KiB) to `write`.
 * @param level entries below it are dropped; default `info`
 */
export function createLog(write: (line: string) => void, level: LogLevel = 'info', scope?: string): Log {
  const entry =
    (entryLevel: LogLevel) =>
    (message: string, fields?: Readonly<Record<string, unknown>>): void => {
      if (ORDER[entryLevel] < ORDER[level]) return
      const record = {
        time: new Date().toISOString(),
        level: entryLevel,
        ...(scope ? { scope } : {}),
        message,
        ...fields,
      }
      const line = JSON.stringify(record, (_key, value) => (value instanceof Error ? describeError(value) : value))
      write(line.length > MAX_LINE ? `${line.slice(0, MAX_LINE)}…` : line)
    }
  return {
    debug: entry('debug'),
    info: entry('info'),
    warn: entry('warn'),
    error: entry('error'),
    terse: level !== 'debug',
    scoped: (inner) => createLog(write, level, scope ? `${scope}/${inner}` : inner),
  }
}

function describeError(error: Error): Record<string, unknown> {
  return {
    name: error.name,
    message: error.message,
    stack: error.stack,
    ...(error.cause ? { cause: String(error.cause) } : {}),
  }
}

/** Says nothing; for tests and library use. */
export const silentLog: Log = { debug() {}, info() {}, warn() {}, error() {}, scoped: () => silentLog }
