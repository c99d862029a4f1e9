import { describeError, type Log } from './log.ts'
import { mapTexts } from './map-texts.ts'
import { redactSecrets } from './secret-values.ts'

/**
 * Wraps a log to remove secrets: every text of an entry passes through `hide`, and values that look like tokens of
 * well-known services are removed. An `Error` in a field becomes an object with `name`, `message`, `stack` and `cause`.
 */
export function createRedactedLog(log: Log, hide: (text: string) => string): Log {
  const redact = (text: string): string => redactSecrets(hide(text))
  const redactField = (value: unknown): unknown => {
    try {
      return mapTexts(value instanceof Error ? describeError(value) : value, redact)
    } catch {
      // Logging must never fail the work it reports on.
      return 'unreadable'
    }
  }
  const redactFields = (fields: Readonly<Record<string, unknown>>): Record<string, unknown> =>
    Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, redactField(value)]))
  return {
    debug: (message, fields) => (log.terse ? undefined : log.debug(redact(message), fields && redactFields(fields))),
    info: (message, fields) => log.info(redact(message), fields && redactFields(fields)),
    warn: (message, fields) => log.warn(redact(message), fields && redactFields(fields)),
    error: (message, fields) => log.error(redact(message), fields && redactFields(fields)),
    ...(log.terse === undefined ? {} : { terse: log.terse }),
    scoped: (scope) => createRedactedLog(log.scoped(scope), hide),
  }
}
