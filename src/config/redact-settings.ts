import { isRecord } from '../core/is-record.ts'
import { CREDENTIAL_NAMES } from '../core/json-scanner.ts'

const CREDENTIALS: ReadonlySet<string> = new Set(CREDENTIAL_NAMES)
/** Blocks that may contain secrets under any key. */
const CLOSED: ReadonlySet<string> = new Set(['env', 'headers', 'auth', 'args', 'cert', 'body', 'query'])
const REMOVED = '<removed>'

const isCredential = (key: string): boolean => {
  const loose = key.toLowerCase().replaceAll(/[_-]/g, '')
  return CREDENTIALS.has(loose) || /(?:secret|token|password|passwd|apikey|privatekey)s?$/.test(loose)
}

/**
 * The configuration as tools may read it: without values of variables, and without settings named like credentials.
 * Returns plain data.
 * @param written the file before variables were replaced; where it has a variable, the value is left out
 */
export function redactSettings(settings: unknown, written: unknown): unknown {
  if (typeof written === 'string' && /\$\{|\{\{env\./.test(written)) return REMOVED
  if (typeof settings === 'string') return withoutLogin(settings)
  if (Array.isArray(settings))
    return settings.map((one, index) => redactSettings(one, Array.isArray(written) ? written[index] : undefined))
  if (!isRecord(settings)) return settings
  const shown = Object.entries(settings).filter(([, value]) => value !== undefined)
  return Object.fromEntries(
    shown.map(([key, value]) => [
      key,
      CLOSED.has(key) || (isCredential(key) && typeof value !== 'boolean' && typeof value !== 'number')
        ? REMOVED
        : redactSettings(value, isRecord(written) ? written[key] : undefined),
    ]),
  )
}

/** A URL without user, password and query. */
const withoutLogin = (text: string): string =>
  text.replaceAll(/(\w:\/\/)[^\s/@]*@/g, '$1').replaceAll(/(\w:\/\/[^\s?#]*)[?#]\S*/g, '$1')
