import { PegboardError } from './errors.ts'
import { exceedsJsonItems } from './json-item-count.ts'

/** Maximum number of keys and items in arguments. */
export const MAX_KEYS = 10_000
export const MAX_NESTING = 64

/** Maximum number of characters of text in arguments. */
const MAX_TEXT = 4 * 1024 * 1024

const FORBIDDEN = new Set(['__proto__', 'constructor', 'prototype'])

const createKeyLimitError = (): PegboardError =>
  new PegboardError('E_VALIDATION', `The arguments hold more than ${MAX_KEYS} keys and items (size limit).`)

/** Rejects arguments, as JSON text, with too many keys. @throws PegboardError E_VALIDATION */
export function checkItemCount(text: string): void {
  if (exceedsJsonItems(text, MAX_KEYS)) throw createKeyLimitError()
}

/**
 * Rejects arguments that would harm schema validation: prototype keys, rounded integers, excessive depth or size. Not
 * recursive.
 * @returns number of characters in all of their texts
 * @throws PegboardError E_VALIDATION, E_INT_PRECISION
 */
export function checkArguments(value: unknown): number {
  let keys = 0
  let characters = 0
  let level: Array<{ readonly value: object; readonly path: string }> = []
  const visit = (item: unknown, path: string, next: typeof level): void => {
    if (typeof item === 'string') characters += item.length
    else if (typeof item === 'number') {
      if (Number.isInteger(item) && !Number.isSafeInteger(item))
        throw new PegboardError(
          'E_INT_PRECISION',
          `${path || 'The value'} is an integer beyond 2^53 and would be rounded.`,
        )
      if (!Number.isFinite(item))
        throw new PegboardError('E_VALIDATION', `${path || 'The value'} is a number that JSON cannot represent.`)
    } else if (typeof item === 'object' && item !== null) next.push({ value: item, path })
  }
  visit(value, '', level)
  for (let depth = 0; level.length > 0; depth++) {
    if (depth >= MAX_NESTING)
      throw new PegboardError('E_VALIDATION', `The arguments are nested more than ${MAX_NESTING} deep.`)
    const next: typeof level = []
    for (const { value: container, path } of level) {
      // Skipped for large arrays, because creating the names of a million items takes longer than this whole check.
      const names = Array.isArray(container) && container.length > MAX_KEYS ? [] : Object.keys(container)
      keys += Array.isArray(container) ? container.length : names.length
      if (keys > MAX_KEYS) throw createKeyLimitError()
      for (const name of names) {
        if (FORBIDDEN.has(name) && !Array.isArray(container))
          throw new PegboardError('E_VALIDATION', `forbidden key "${name}"${path ? ` in ${path}` : ''}.`)
        visit((container as Record<string, unknown>)[name], path ? `${path}.${name}` : name, next)
      }
    }
    if (characters > MAX_TEXT)
      throw new PegboardError(
        'E_VALIDATION',
        `The arguments hold more than ${MAX_TEXT} characters of text (size limit).`,
      )
    level = next
  }
  return characters
}
