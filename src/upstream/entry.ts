import { sanitize } from '../core/sanitize.ts'
import { mayBeUnseen } from '../core/unseen.ts'

/** What an entry of a list may be: a client gets all of them in one answer, and shows them. */
export const ENTRY = { bytes: 64 * 1024, depth: 32 } as const

/** Whether a value has more than `max` arrays and objects in each other. Does not recurse on the call stack. */
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

/** Why an entry of a list cannot be passed on, if so. */
export function entryFault(entry: unknown): string | undefined {
  if (deeperThan(entry, ENTRY.depth)) return `it is more than ${ENTRY.depth} deep`
  const { length } = JSON.stringify(entry)
  return length > ENTRY.bytes ? `it has ${length} bytes` : undefined
}

/** The members of a record that can be kept and passed on. */
export function withoutDeep(record: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(record).filter(([, value]) => entryFault(value) === undefined))
}

/** What is listed of a tool, prompt or resource: nothing in it looks like Pegboard's own. A copy where that changes it. */
export function sanitized(entry: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const text = JSON.stringify(entry)
  if (!text.includes('[NOTICE]') && !text.includes('"_meta"') && !mayBeUnseen(text)) return entry
  const copy = structuredClone(entry)
  sanitize(copy)
  return JSON.stringify(copy) === text ? entry : copy
}
