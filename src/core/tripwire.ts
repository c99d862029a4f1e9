import { looksSecret } from './credentials.ts'
import { PegboardError } from './errors.ts'
import { mayHoldSecret, REDACTED, redactSecrets } from './secret-values.ts'

export { REDACTED }

export interface Wire {
  /** What is done about names of fields; `values`: nothing, only values that look like secrets by themselves are taken out. */
  readonly level: 'values' | 'redact' | 'throw'
  /** Dotted paths that are not looked at; `*` is any one step. */
  readonly opaque: readonly string[]
}

const MAX_PARTS = 1_000_000
// Worth a parse: text that may be JSON and has a word in it that a name of a credential would have.
const SUSPECT = /pass|secret|token|auth|key|cookie|credential|pwd/i

// The same written otherwise: letters as escapes, full-width and mathematical ones; these as bytes, too.
const DISGUISED =
  /\\u(?:00[4-7]|ff[2-5]|d835)|[\uff21-\uff5a]|\ud835|\u00ef(?:\u00bc[\u00a1-\u00ba]|\u00bd[\u0081-\u009a])|\u00f0\u009d[\u0090-\u009f]/i

/** Whether bytes or a text may name a credential at all: most results do not, and need no look. */
export const mayTell = (text: string): boolean => SUSPECT.test(text) || DISGUISED.test(text)

/**
 * The value without what fields keep that look like credentials, in JSON inside of texts as well; the same object where
 * there is nothing. Takes time in proportion to its size; a value that contains itself is looked at once.
 * @throws PegboardError E_SECRET_BLOCKED with the path, where the wire is to throw; E_TOO_LARGE over a million parts
 */
export function guardSecrets<T>(value: T, wire: Wire): T {
  budget = QUICK_PARTS
  if (isClean(value, QUICK_DEPTH)) return value
  const { name, hasValue } = find(value, wire)
  if (name !== undefined && wire.level === 'throw')
    throw new PegboardError('E_SECRET_BLOCKED', `forbidden field "${name}"`, {
      hint: 'The result was kept back. Its author leaves the field out, names it in `opaque`, or the operator sets `tripwire`.',
    })
  return name === undefined && !hasValue ? value : (clean(value, wire, '', new Map()) as T)
}

// Most results are small and have nothing: those are looked over without keeping anything.
const QUICK_DEPTH = 12
const QUICK_PARTS = 5_000
let budget = 0

/** False when it has to be looked at closely. */
function isClean(value: unknown, levels: number): boolean {
  if (typeof value === 'string') return !isSuspect(value) && !mayHoldSecret(value)
  if (typeof value !== 'object' || value === null) return true
  if (levels === 0 || 'toJSON' in value || ArrayBuffer.isView(value)) return false
  if (Array.isArray(value)) {
    budget -= value.length
    if (budget < 0) return false
    for (const one of value) if (!isClean(one, levels - 1)) return false
    return true
  }
  for (const key in value) {
    if (--budget < 0 || looksSecret(key) || mayHoldSecret(key)) return false
    if (!isClean((value as Readonly<Record<string, unknown>>)[key], levels - 1)) return false
  }
  return true
}

/** A text that may be JSON. */
export function guardText(text: string, wire: Wire): string {
  const parsed = parsedFrom(text)
  const kept = parsed === undefined ? parsed : guardSecrets(parsed, wire)
  return redactSecrets(kept === parsed ? text : JSON.stringify(kept))
}

interface Found {
  /** The path of the first field that looks like a credential. */
  readonly name?: string
  /** Whether a value may look like a secret by itself. */
  readonly hasValue: boolean
}

/** Does not recurse: depth is not ours to bound. */
function find(root: unknown, { opaque, level }: Wire): Found {
  let hasValue = typeof root === 'string' && mayHoldSecret(root)
  const seen = new Set<object>()
  const open: unknown[] = [root]
  const paths: string[] = ['']
  let parts = 0
  while (open.length > 0) {
    const value = plainOf(open.pop())
    const path = paths.pop() as string
    if (typeof value !== 'object' || value === null || seen.has(value)) continue
    seen.add(value)
    for (const key of Array.isArray(value) ? value.keys() : Object.keys(value)) {
      if (++parts > MAX_PARTS) throw new PegboardError('E_TOO_LARGE', `The result has more than ${MAX_PARTS} parts.`)
      const one = (value as Readonly<Record<string | number, unknown>>)[key]
      const isName = typeof key === 'string' && level !== 'values'
      hasValue ||= (typeof one === 'string' && mayHoldSecret(one)) || (typeof key === 'string' && mayHoldSecret(key))
      if ((typeof one !== 'object' || one === null) && !(isName && looksSecret(key)) && !mayHold(one)) continue
      const at = path === '' ? String(key) : `${path}.${key}`
      if (opaque.length > 0 && isOpaque(at, opaque)) continue
      if (isName && looksSecret(key)) return { name: path === '' ? `<root>.${key}` : at, hasValue }
      open.push(one)
      paths.push(at)
    }
  }
  return { hasValue }
}

function clean(value: unknown, wire: Wire, path: string, copies: Map<object, unknown>): unknown {
  const plain = plainOf(value)
  if (typeof plain !== 'object' || plain === null) return typeof value === 'string' ? redactSecrets(value) : value
  const known = copies.get(plain)
  if (known !== undefined) return known
  if (typeof value === 'string') {
    const kept = JSON.stringify(clean(plain, wire, path, copies))
    // Text in which nothing was found keeps its spaces and its digits.
    return redactSecrets(kept === JSON.stringify(plain) ? value : kept)
  }
  const copy: Record<string, unknown> | unknown[] = Array.isArray(plain) ? [] : {}
  copies.set(plain, copy)
  for (const key of Object.keys(plain)) {
    const at = path === '' ? key : `${path}.${key}`
    const one = (plain as Readonly<Record<string, unknown>>)[key]
    const kept =
      wire.opaque.length > 0 && isOpaque(at, wire.opaque)
        ? one
        : wire.level !== 'values' && !Array.isArray(plain) && looksSecret(key)
          ? REDACTED
          : clean(one, wire, at, copies)
    Object.defineProperty(copy, redactSecrets(key), {
      value: kept,
      enumerable: true,
      writable: true,
      configurable: true,
    })
  }
  return copy
}

/** As JSON would have it: what a value says of itself, and what a text says when it is JSON. */
function plainOf(value: unknown): unknown {
  if (typeof value === 'string') return parsedFrom(value)
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return undefined
  const { toJSON } = value as { readonly toJSON?: unknown }
  return typeof toJSON === 'function' ? toJSON.call(value) : value
}

const mayHold = (value: unknown): boolean => typeof value === 'string' && isSuspect(value)

function isSuspect(text: string): boolean {
  let at = 0
  while (at < text.length && text.charCodeAt(at) <= 0x20) at++
  const first = text.charCodeAt(at)
  return (first === 0x7b || first === 0x5b) && mayTell(text)
}

function parsedFrom(text: string): unknown {
  if (!isSuspect(text)) return undefined
  try {
    return JSON.parse(text)
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

function isOpaque(path: string, opaque: readonly string[]): boolean {
  const steps = path.split('.')
  return opaque.some((pattern) => {
    const wanted = pattern.split('.')
    return wanted.length <= steps.length && wanted.every((step, at) => step === '*' || step === steps[at])
  })
}
