import { defineMember } from './define-member.ts'

/**
 * Changes every text in a value; returns the same object if none changes, and never changes the given one.
 * @param withKeys also changes the names of fields
 */
export function mapTexts<T>(value: T, change: (text: string) => string, withKeys = false): T {
  const seen = new Map<object, unknown>()
  const map = (one: unknown): unknown => {
    if (typeof one === 'string') return change(one)
    if (typeof one !== 'object' || one === null || ArrayBuffer.isView(one)) return one
    const cached = seen.get(one)
    if (cached !== undefined) return cached
    seen.set(one, one)
    const copy = Array.isArray(one) ? mapItems(one, map) : mapMembers(one, map, withKeys ? change : undefined)
    if (copy) seen.set(one, copy)
    return copy ?? one
  }
  return map(value) as T
}

function mapItems(items: readonly unknown[], map: (one: unknown) => unknown): unknown[] | undefined {
  let copy: unknown[] | undefined
  for (const [at, before] of items.entries()) {
    const after = map(before)
    if (after === before) continue
    copy ??= [...items]
    copy[at] = after
  }
  return copy
}

function mapMembers(
  record: object,
  map: (one: unknown) => unknown,
  changeKey: ((key: string) => string) | undefined,
): object | undefined {
  const changed = new Map<string, unknown>()
  let isRenamed = false
  for (const key of Object.keys(record)) {
    const before = (record as Readonly<Record<string, unknown>>)[key]
    const after = map(before)
    if (after !== before) changed.set(key, after)
    isRenamed ||= changeKey !== undefined && changeKey(key) !== key
  }
  if (changed.size === 0 && !isRenamed) return undefined
  const copy = isRenamed ? {} : { ...record }
  for (const key of isRenamed ? Object.keys(record) : changed.keys()) {
    const value = changed.has(key) ? changed.get(key) : (record as Readonly<Record<string, unknown>>)[key]
    defineMember(copy, changeKey?.(key) ?? key, value)
  }
  return copy
}
