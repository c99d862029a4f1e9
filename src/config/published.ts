import { isRecord } from '../core/record.ts'
import { CREDENTIAL_NAMES } from '../core/scan.ts'

const CREDENTIALS: ReadonlySet<string> = new Set(CREDENTIAL_NAMES)
/** Whole blocks that hold what others should not read, whatever the keys in them are called. */
const CLOSED: ReadonlySet<string> = new Set(['env', 'headers', 'auth', 'args', 'cert', 'body', 'query'])
const REMOVED = '<removed>'

const isCredential = (key: string): boolean => {
  const loose = key.toLowerCase().replaceAll(/[_-]/g, '')
  return CREDENTIALS.has(loose) || /(?:secret|token|password|passwd|apikey|privatekey)s?$/.test(loose)
}

/**
 * What the operator set as tools may read it: without anything that was filled in from the environment or that has a
 * credential's name. Plain data, because configurations are kept between starts.
 * @param written the file as it was written, variables and all; where it has one, the value is left out
 */
export function published(settings: unknown, written: unknown): unknown {
  if (typeof written === 'string' && /\$\{|\{\{env\./.test(written)) return REMOVED
  if (typeof settings === 'string') return withoutLogin(settings)
  if (Array.isArray(settings))
    return settings.map((one, index) => published(one, Array.isArray(written) ? written[index] : undefined))
  if (!isRecord(settings)) return settings
  const shown = Object.entries(settings).filter(([, value]) => value !== undefined)
  return Object.fromEntries(
    shown.map(([key, value]) => [
      key,
      CLOSED.has(key) || (isCredential(key) && typeof value !== 'boolean' && typeof value !== 'number')
        ? REMOVED
        : published(value, isRecord(written) ? written[key] : undefined),
    ]),
  )
}

/** An address without user, password and query. */
const withoutLogin = (text: string): string =>
  text.replaceAll(/(\w:\/\/)[^\s/@]*@/g, '$1').replaceAll(/(\w:\/\/[^\s?#]*)[?#]\S*/g, '$1')
