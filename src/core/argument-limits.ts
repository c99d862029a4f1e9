import { PegboardError } from './errors.ts'
import { exceedsJsonItems } from './json-item-count.ts'

/** Maximum number of keys and items in arguments. */
export const MAX_KEYS = 10_000
export const MAX_NESTING = 64

/** Maximum number of characters of text in arguments. */
const MAX_TEXT = 4 * 1024 * 1024

const FORBIDDEN = new Set(['__proto__', 'constructor', 'prototype'])

const createInvalidError = (message: string): PegboardError => new PegboardError('E_VALIDATION', message)
const createKeyLimitError = (): PegboardError =>
  createInvalidError(`The arguments hold more than ${MAX_KEYS} keys and items (size limit).`)

/** Rejects arguments, as JSON text, with too many keys. @throws PegboardError E_VALIDATION */
export function checkItemCount(text: string): void {
  if (exceedsJsonItems(text, MAX_KEYS)) throw createKeyLimitError()
}

/**
 * Rejects arguments that would harm schema validation: prototype keys, rounded integers, excessive depth or size. Not
 * recursive.
 * @returns number of characters in all texts of the arguments
 * @throws PegboardError E_VALIDATION, E_INT_PRECISION
 */
export function checkArguments(value: unknown): number {
  const counts: Counts = { keys: 0, characters: 0 }
  let level: Container[] = []
  addItem(value, '', level, counts)
  for (let depth = 0; level.length > 0; depth++) {
    if (depth >= MAX_NESTING) throw createInvalidError(`The arguments are nested more than ${MAX_NESTING} deep.`)
    const next: Container[] = []
    for (const container of level) addMembers(container, next, counts)
    if (counts.characters > MAX_TEXT)
      throw createInvalidError(`The arguments hold more than ${MAX_TEXT} characters of text (size limit).`)
    level = next
  }
  return counts.characters
}

interface Container {
  readonly value: object
  readonly path: string
}

interface Counts {
  keys: number
  characters: number
}

function addMembers({ value, path }: Container, next: Container[], counts: Counts): void {
  const isArray = Array.isArray(value)
  // A larger array is rejected below. Listing its million keys would take longer than the whole check.
  const names = isArray && value.length > MAX_KEYS ? [] : Object.keys(value)
  counts.keys += isArray ? value.length : names.length
  if (counts.keys > MAX_KEYS) throw createKeyLimitError()
  for (const name of names) {
    if (!isArray && FORBIDDEN.has(name))
      throw createInvalidError(`forbidden key "${name}"${path ? ` in ${path}` : ''}.`)
    addItem((value as Record<string, unknown>)[name], path ? `${path}.${name}` : name, next, counts)
  }
}

function addItem(item: unknown, path: string, next: Container[], counts: Counts): void {
  if (typeof item === 'string') counts.characters += item.length
  else if (typeof item === 'number') checkNumber(item, path)
  else if (typeof item === 'object' && item !== null) next.push({ value: item, path })
}

function checkNumber(value: number, path: string): void {
  if (Number.isSafeInteger(value)) return
  const shown = path || 'The value'
  if (Number.isInteger(value))
    throw new PegboardError('E_INT_PRECISION', `${shown} is an integer beyond 2^53 and would be rounded.`)
  if (!Number.isFinite(value)) throw createInvalidError(`${shown} is a number that JSON cannot represent.`)
}
