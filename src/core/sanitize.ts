import { defineMember } from './define-member.ts'
import { mayContainInvisible, removeInvisible } from './invisible-characters.ts'

/** Prefix of `_meta` keys that only Pegboard writes. */
export const OWN_META = 'pegboard/'
const NOTICE = '[NOTICE]'
/** Characters that are invisible in a line. */
const BLANK = /[\s\p{C}\p{Default_Ignorable_Code_Point}\u2800\u{1D159}]/u
const LINE_END = /[\n\v\f\r\u0085\u2028\u2029]/

/** True if bytes from a server may contain a line that looks like a notice of Pegboard. */
export const mayForgeNotice = (bytes: Buffer): boolean => bytes.includes(NOTICE)

/** Changes lines that begin like a notice of Pegboard. Linear time. */
export function escapeNotices(text: string): string {
  let escaped = ''
  let copied = 0
  for (let at = text.indexOf(NOTICE); at !== -1; at = text.indexOf(NOTICE, at + NOTICE.length)) {
    if (!beginsLine(text, at, copied)) continue
    escaped += `${text.slice(copied, at)}\\`
    copied = at
  }
  return escaped + text.slice(copied)
}

/** True if only blanks are between the start of the line and this position. Text before `from` was already checked. */
function beginsLine(text: string, place: number, from: number): boolean {
  for (let at = place - 1; at >= from; at--) {
    const char = text[at] as string
    if (LINE_END.test(char)) return true
    const isLow = char >= '\udc00' && char <= '\udfff' && at > from
    if (!BLANK.test(isLow ? text.slice(at - 1, at + 1) : char)) return false
    if (isLow) at--
  }
  return from === 0
}

/** Removes hidden characters and fake notices of Pegboard from upstream text. */
export const sanitizeText = (text: string): string => escapeNotices(removeInvisible(text))

/** The client sends these values back to the server, which needs them unchanged. No model reads them. */
const OPAQUE: ReadonlySet<string> = new Set(['requestState', 'nextCursor'])

/**
 * Sanitizes every text and key of a parsed message in place, and removes forged `_meta` keys of Pegboard and keys
 * that could change prototypes. Not recursive.
 */
export function sanitize(message: object): void {
  const open: object[] = [message]
  while (open.length > 0) {
    const node = open.pop() as Record<string, unknown>
    if (Array.isArray(node)) sanitizeItems(node, open)
    else sanitizeMembers(node, node === message, open)
  }
}

function sanitizeItems(items: unknown[], open: object[]): void {
  for (let at = 0; at < items.length; at++) {
    const value = items[at]
    if (typeof value === 'string') {
      const sanitized = sanitizeText(value)
      if (sanitized !== value) items[at] = sanitized
    } else if (typeof value === 'object' && value !== null) open.push(value)
  }
}

function sanitizeMembers(node: Record<string, unknown>, isTop: boolean, open: object[]): void {
  let hasUnseenKey = false
  for (const key of Object.keys(node)) {
    hasUnseenKey ||= mayContainInvisible(key)
    const value = node[key]
    if (isPrototypeKey(key, value)) {
      delete node[key]
      continue
    }
    if (typeof value === 'string') {
      if (isTop && OPAQUE.has(key)) continue
      const sanitized = sanitizeText(value)
      if (sanitized !== value) defineMember(node, key, sanitized)
    } else if (typeof value === 'object' && value !== null) {
      if (key === '_meta') removeOwnMeta(value as Record<string, unknown>)
      open.push(value)
    }
  }
  if (hasUnseenKey) renameKeys(node)
}

/** Keys with which merging the value would change the prototype of all objects. */
const isPrototypeKey = (key: string, value: unknown): boolean =>
  key === '__proto__' ||
  (key === 'constructor' && typeof value === 'object' && value !== null && Object.hasOwn(value, 'prototype'))

function removeOwnMeta(meta: Record<string, unknown>): void {
  for (const key of Object.keys(meta))
    if (removeInvisible(key).trim().toLowerCase().startsWith(OWN_META)) delete meta[key]
}

/** Keeps the order. Of two keys that become equal, the first stays. */
function renameKeys(node: Record<string, unknown>): void {
  const entries = Object.entries(node)
  for (const [key] of entries) delete node[key]
  for (const [key, value] of entries) {
    const cleanKey = removeInvisible(key)
    if (!Object.hasOwn(node, cleanKey) && !isPrototypeKey(cleanKey, value)) defineMember(node, cleanKey, value)
  }
}
