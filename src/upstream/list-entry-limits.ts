import { mayContainInvisible } from '../core/invisible-characters.ts'
import { sanitize } from '../core/sanitize.ts'

/** Limits of a list entry; clients get all entries in one response. */
export const ENTRY = { bytes: 64 * 1024, depth: 32 } as const

/** True if a value is nested deeper than `max`. Not recursive. */
export function deeperThan(value: unknown, max: number): boolean {
  let level: unknown[] = [value]
  for (let depth = 0; ; depth++) {
    const next: unknown[] = []
    for (const node of level)
      if (typeof node === 'object' && node !== null) for (const one of Object.values(node)) next.push(one)
    if (!next.some((one) => typeof one === 'object' && one !== null)) return false
    if (depth >= max) return true
    level = next
  }
}

/** Why an entry of a list cannot be passed on; undefined if it can. */
export function entryFault(entry: unknown): string | undefined {
  if (deeperThan(entry, ENTRY.depth)) return `it is more than ${ENTRY.depth} deep`
  const { length } = JSON.stringify(entry)
  return length > ENTRY.bytes ? `it has ${length} bytes` : undefined
}

/** The members of a record that can be stored and passed on. */
export function withoutDeep(record: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(record).filter(([, value]) => entryFault(value) === undefined))
}

/** A listed definition in which nothing imitates Pegboard. Copied only if that changes it. */
export function sanitizeEntry(entry: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const text = JSON.stringify(entry)
  if (!text.includes('[NOTICE]') && !text.includes('"_meta"') && !mayContainInvisible(text)) return entry
  const copy = structuredClone(entry)
  sanitize(copy)
  return JSON.stringify(copy) === text ? entry : copy
}
