import { defineMember } from './define-member.ts'
import { PegboardError } from './errors.ts'
import { looksSecret } from './secret-names.ts'
import { mayHoldSecret, REDACTED, redactSecrets } from './secret-values.ts'
import { tryParseJson } from './try-parse-json.ts'

export interface TripwireLevel {
  /** What to do about fields named like credentials; `values` removes only values that look like secrets themselves. */
  readonly level: 'values' | 'redact' | 'throw'
  /** Dotted paths to skip; `*` matches one step. */
  readonly opaque: readonly string[]
}

const MAX_PARTS = 1_000_000
// Text that may be JSON and contains a word of a credential's name is worth parsing.
const SUSPECT = /pass|secret|token|auth|key|cookie|credential|pwd/i

// Text may hide such a word: with unnecessary escapes, or with full-width or mathematical letters. Also as bytes.
const DISGUISED =
  /\\u(?:00(?:2[^267b]|3[^cde]|[457]|6[^0])|ff[2-5]|d835)|[\uff21-\uff5a]|\ud835|\u00ef(?:\u00bc[\u00a1-\u00ba]|\u00bd[\u0081-\u009a])|\u00f0\u009d[\u0090-\u009f]/i

/** Quick test whether a text or bytes may name a credential; most results do not. */
export const mayNameCredential = (text: string): boolean => SUSPECT.test(text) || DISGUISED.test(text)

/**
 * Removes values of fields that look like credentials, also in JSON inside strings. Returns the same object if there
 * are none. Linear time; handles circular values.
 * @throws PegboardError E_SECRET_BLOCKED with the path if the level is `throw`; E_TOO_LARGE over a million parts
 */
export function guardSecrets<T>(value: T, tripwire: TripwireLevel): T {
  partsLeft = QUICK_PARTS
  if (isClean(value, QUICK_DEPTH)) return value
  const { name, hasValue } = findSecrets(value, tripwire)
  if (name !== undefined && tripwire.level === 'throw')
    throw new PegboardError('E_SECRET_BLOCKED', `forbidden field "${name}"`, {
      hint: 'The result was withheld. The author of the tool can remove the field or name it in `opaque`, or the operator can set `tripwire`.',
    })
  return name === undefined && !hasValue ? value : (removeSecrets(value, tripwire, '', new Map()) as T)
}

// Most results are small and clean; this test allocates nothing.
const QUICK_DEPTH = 12
const QUICK_PARTS = 5_000
let partsLeft = 0

/** False if `guardSecrets` must search the whole value. */
function isClean(value: unknown, levels: number): boolean {
  if (typeof value === 'string') return !isSuspect(value) && !mayHoldSecret(value)
  if (typeof value !== 'object' || value === null) return true
  if (levels === 0 || 'toJSON' in value || ArrayBuffer.isView(value)) return false
  if (Array.isArray(value)) {
    partsLeft -= value.length
    if (partsLeft < 0) return false
    for (const one of value) if (!isClean(one, levels - 1)) return false
    return true
  }
  for (const key in value) {
    if (--partsLeft < 0 || looksSecret(key) || mayHoldSecret(key)) return false
    if (!isClean((value as Readonly<Record<string, unknown>>)[key], levels - 1)) return false
  }
  return true
}

/** The same as `guardSecrets`, for a text that may be JSON. */
export function guardText(text: string, tripwire: TripwireLevel): string {
  const parsed = parseSuspect(text)
  const guarded = parsed === undefined ? parsed : guardSecrets(parsed, tripwire)
  return redactSecrets(guarded === parsed ? text : JSON.stringify(guarded))
}

interface Findings {
  /** Path of the first field that looks like a credential. */
  readonly name?: string
  readonly hasValue: boolean
}

/** Not recursive, because the depth is not limited here. */
function findSecrets(root: unknown, { opaque, level }: TripwireLevel): Findings {
  let hasValue = mayBeSecret(root)
  const seen = new Set<object>()
  const open: Array<{ readonly value: unknown; readonly path: string }> = [{ value: root, path: '' }]
  let parts = 0
  for (let next = open.pop(); next; next = open.pop()) {
    const { path } = next
    const value = plainOf(next.value)
    if (typeof value !== 'object' || value === null || seen.has(value)) continue
    seen.add(value)
    for (const key of keysOf(value)) {
      if (++parts > MAX_PARTS) throw new PegboardError('E_TOO_LARGE', `The result has more than ${MAX_PARTS} parts.`)
      const one = (value as Readonly<Record<string | number, unknown>>)[key]
      hasValue ||= mayBeSecret(one) || mayBeSecret(key)
      const isCredential = level !== 'values' && typeof key === 'string' && looksSecret(key)
      if (!isCredential && !mayHaveFields(one)) continue
      const at = joinPath(path, key)
      if (isOpaque(at, opaque)) continue
      if (isCredential) return { name: path === '' ? `<root>.${key}` : at, hasValue }
      open.push({ value: one, path: at })
    }
  }
  return { hasValue }
}

function removeSecrets(value: unknown, tripwire: TripwireLevel, path: string, copies: Map<object, unknown>): unknown {
  const plain = plainOf(value)
  if (typeof plain !== 'object' || plain === null) return typeof value === 'string' ? redactSecrets(value) : value
  const cached = copies.get(plain)
  if (cached !== undefined) return cached
  if (typeof value === 'string') {
    const cleanJson = JSON.stringify(removeSecrets(plain, tripwire, path, copies))
    // Text without a finding keeps its white space and digits.
    return redactSecrets(cleanJson === JSON.stringify(plain) ? value : cleanJson)
  }
  const copy: Record<string, unknown> | unknown[] = Array.isArray(plain) ? [] : {}
  copies.set(plain, copy)
  for (const key of Object.keys(plain)) {
    const at = joinPath(path, key)
    const one = (plain as Readonly<Record<string, unknown>>)[key]
    const isCredential = tripwire.level !== 'values' && !Array.isArray(plain) && looksSecret(key)
    let cleanValue = one
    if (!isOpaque(at, tripwire.opaque)) cleanValue = isCredential ? REDACTED : removeSecrets(one, tripwire, at, copies)
    defineMember(copy, redactSecrets(key), cleanValue)
  }
  return copy
}

/** The JSON value of an object with `toJSON`, or of a text that is JSON. */
function plainOf(value: unknown): unknown {
  if (typeof value === 'string') return parseSuspect(value)
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return undefined
  const { toJSON } = value as { readonly toJSON?: unknown }
  return typeof toJSON === 'function' ? toJSON.call(value) : value
}

const keysOf = (value: object): Iterable<string | number> => (Array.isArray(value) ? value.keys() : Object.keys(value))
const joinPath = (path: string, key: string | number): string => (path === '' ? String(key) : `${path}.${key}`)
const mayBeSecret = (value: unknown): boolean => typeof value === 'string' && mayHoldSecret(value)
const mayHaveFields = (value: unknown): boolean =>
  typeof value === 'string' ? isSuspect(value) : typeof value === 'object' && value !== null

function isSuspect(text: string): boolean {
  let at = 0
  while (at < text.length && text.charCodeAt(at) <= 0x20) at++
  const first = text.charCodeAt(at)
  return (first === 0x7b || first === 0x5b) && mayNameCredential(text)
}

function parseSuspect(text: string): unknown {
  return isSuspect(text) ? tryParseJson(text) : undefined
}

function isOpaque(path: string, opaque: readonly string[]): boolean {
  if (opaque.length === 0) return false
  const steps = path.split('.')
  return opaque.some((pattern) => {
    const patternSteps = pattern.split('.')
    return patternSteps.length <= steps.length && patternSteps.every((step, at) => step === '*' || step === steps[at])
  })
}
