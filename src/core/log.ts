import { toPrintableJson } from './printable.ts'
import { redact } from './redact.ts'
import { redactSecrets } from './secret-values.ts'

export type LogLevel = 'debug' | 'info' | 'warn' | 'error'

/**
 * The operator's log: one JSON line per entry, never on stdout, which belongs to the protocol. The command line turns
 * these lines into text for people (`src/cli/open-app.ts`).
 */
export interface Log {
  debug(message: string, fields?: Readonly<Record<string, unknown>>): void
  info(message: string, fields?: Readonly<Record<string, unknown>>): void
  warn(message: string, fields?: Readonly<Record<string, unknown>>): void
  error(message: string, fields?: Readonly<Record<string, unknown>>): void
  /** True if `debug` entries are dropped, so that callers can skip building them. */
  readonly terse?: boolean
  /** A log that writes `scope` (a module or server) in every entry. */
  scoped(scope: string): Log
}

const ORDER: Readonly<Record<LogLevel, number>> = { debug: 0, info: 1, warn: 2, error: 3 }
const MAX_LINE = 8 * 1024
const MAX_CUT = 6 * 1024

/**
 * Creates a log that passes finished lines (JSON of at most about 8 KiB, no newline) to `write`.
 * @param level minimum level; default `info`
 */
export function createLog(write: (line: string) => void, level: LogLevel = 'info', scope?: string): Log {
  const entry =
    (entryLevel: LogLevel) =>
    (message: string, fields?: Readonly<Record<string, unknown>>): void => {
      if (ORDER[entryLevel] < ORDER[level]) return
      const head = { time: new Date().toISOString(), level: entryLevel, ...(scope ? { scope } : {}), message }
      const line = serialize({ ...head, ...fields }) ?? jsonLine({ ...head, ...plainOf(fields), unreadable: true })
      const fits = line.length <= MAX_LINE
      write(fits ? line : jsonLine({ ...head, message: message.slice(0, 1_000), cut: line.slice(0, MAX_CUT) }))
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

/** Some editors treat these characters as line breaks, and JSON does not escape them. */
const LINE_ENDS = /[\u2028\u2029]/g

/**
 * A value as one line of JSON that contains no line break and no terminal command.
 * @throws if the value cannot be serialized
 */
export const jsonLine = (value: unknown): string =>
  toPrintableJson(
    JSON.stringify(value, (_key, member) =>
      member instanceof Error ? describeError(member) : typeof member === 'string' ? redactSecrets(member) : member,
    ),
  ).replaceAll(LINE_ENDS, (character) => `\\u${character.charCodeAt(0).toString(16)}`)

/** Does not throw, because a failed log entry must not fail the work that it describes. */
function serialize(record: object): string | undefined {
  try {
    return jsonLine(record)
  } catch {
    return undefined
  }
}

const plainOf = (fields: object = {}): object =>
  Object.fromEntries(
    Object.entries(fields).filter(([, value]) => typeof value === 'string' || typeof value === 'number'),
  )

/** An error as an object for the log, without values that look like credentials. */
export function describeError(error: Error): Record<string, unknown> {
  return {
    name: error.name,
    // Node's error messages can contain whole URLs with passwords.
    message: redact(error.message),
    stack: redact(error.stack ?? ''),
    ...(error.cause ? { cause: redact(String(error.cause)) } : {}),
  }
}

/** Discards everything; for tests and library use. */
export const silentLog: Log = { debug() {}, info() {}, warn() {}, error() {}, scoped: () => silentLog }
