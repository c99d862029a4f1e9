import { mayBeUnseen, withoutUnseen } from './unseen.ts'

/** Keys of `_meta` that only Pegboard writes. */
export const OWN_META = 'pegboard/'
const NOTICE = '[NOTICE]'
const NOTICE_LINE = /^([^\S\n]*)\[NOTICE\]/gm

/** Whether bytes from a server may hold a line that looks like a notice of Pegboard. */
export const mayForgeNotice = (bytes: Buffer): boolean => bytes.includes(NOTICE)

/** No line of the text begins as a notice of Pegboard does. */
export const withoutNotices = (text: string): string =>
  text.includes(NOTICE) ? text.replaceAll(NOTICE_LINE, '$1\\[NOTICE]') : text

/** Text that somebody else wrote: nothing in it is hidden, and no line of it looks like a notice of Pegboard. */
export const sanitizeText = (text: string): string => withoutNotices(withoutUnseen(text))

/** These go back to their server as they came, and nobody reads them. */
const OPAQUE: ReadonlySet<string> = new Set(['requestState', 'nextCursor'])

/**
 * Does the same to every text and key of a parsed message, in place, and takes out what `_meta` claims to have from Pegboard and
 * keys that would change prototypes.
 * Does not recurse on the call stack.
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
      const kept = sanitizeText(value)
      if (kept !== value) items[at] = kept
    } else if (typeof value === 'object' && value !== null) open.push(value)
  }
}

function sanitizeMembers(node: Record<string, unknown>, isTop: boolean, open: object[]): void {
  let hasUnseenKey = false
  for (const key of Object.keys(node)) {
    hasUnseenKey ||= mayBeUnseen(key)
    const value = node[key]
    if (isPrototypeKey(key, value)) {
      delete node[key]
      continue
    }
    if (typeof value === 'string') {
      if (isTop && OPAQUE.has(key)) continue
      const kept = sanitizeText(value)
      if (kept !== value) define(node, key, kept)
    } else if (typeof value === 'object' && value !== null) {
      if (key === '_meta') withoutOwnMeta(value as Record<string, unknown>)
      open.push(value)
    }
  }
  if (hasUnseenKey) renameKeys(node)
}

/** By these a reader that merges the value would change the prototype of all objects. */
const isPrototypeKey = (key: string, value: unknown): boolean =>
  key === '__proto__' ||
  (key === 'constructor' && typeof value === 'object' && value !== null && Object.hasOwn(value, 'prototype'))

function withoutOwnMeta(meta: Record<string, unknown>): void {
  for (const key of Object.keys(meta))
    if (withoutUnseen(key).trim().toLowerCase().startsWith(OWN_META)) delete meta[key]
}

/** Keeps the order. Of two keys that look the same the first one stays. */
function renameKeys(node: Record<string, unknown>): void {
  const entries = Object.entries(node)
  for (const [key] of entries) delete node[key]
  for (const [key, value] of entries) {
    const kept = withoutUnseen(key)
    if (!Object.hasOwn(node, kept) && !isPrototypeKey(kept, value)) define(node, kept, value)
  }
}

/** A key `__proto__` is a key like any other here. */
const define = (node: object, key: string, value: unknown): unknown =>
  Object.defineProperty(node, key, { value, enumerable: true, writable: true, configurable: true })
