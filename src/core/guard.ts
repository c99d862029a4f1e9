import { isCrowded } from './crowded.ts'
import { PegboardError } from './errors.ts'

/** Limits on arguments from outside. Defaults: 64 deep, 10,000 keys and items, 1 MiB of text. */
export interface ArgumentLimits {
  readonly maxDepth: number
  readonly maxKeys: number
  readonly maxBytes: number
}

/** Keys and items that arguments may hold. */
export const MAX_KEYS = 10_000
/** Arrays and objects of arguments that may be in each other. */
export const MAX_DEPTH = 64

const argumentLimits: ArgumentLimits = { maxDepth: MAX_DEPTH, maxKeys: MAX_KEYS, maxBytes: 4 * 1024 * 1024 }

const FORBIDDEN = new Set(['__proto__', 'constructor', 'prototype'])

const tooMany = (maxKeys: number): PegboardError =>
  new PegboardError('E_VALIDATION', `The arguments hold more than ${maxKeys} keys and items (size limit).`)

/**
 * Refuses arguments that are still text when they hold more keys than they may.
 * @throws PegboardError E_VALIDATION
 */
export function checkText(text: string): void {
  if (isCrowded(text, MAX_KEYS)) throw tooMany(MAX_KEYS)
}

/**
 * Refuses arguments that no schema should have to survive: prototype keys, rounded integers, bottomless or huge values.
 * Does not recurse on the call stack.
 * @throws PegboardError E_VALIDATION, E_INT_PRECISION
 */
export function checkArguments(value: unknown, limits: ArgumentLimits = argumentLimits): void {
  let keys = 0
  let bytes = 0
  let level: Array<{ readonly value: object; readonly path: string }> = []
  const visit = (item: unknown, path: string, next: typeof level): void => {
    if (typeof item === 'string') bytes += item.length
    else if (typeof item === 'number') {
      if (Number.isInteger(item) && !Number.isSafeInteger(item))
        throw new PegboardError(
          'E_INT_PRECISION',
          `${path || 'The value'} is an integer beyond 2^53 and would be rounded.`,
        )
      if (!Number.isFinite(item))
        throw new PegboardError('E_VALIDATION', `${path || 'The value'} is a number that no reader can carry.`)
    } else if (typeof item === 'object' && item !== null) next.push({ value: item, path })
  }
  visit(value, '', level)
  for (let depth = 0; level.length > 0; depth++) {
    if (depth >= limits.maxDepth)
      throw new PegboardError('E_VALIDATION', `The arguments are nested more than ${limits.maxDepth} deep.`)
    const next: typeof level = []
    for (const { value: container, path } of level) {
      // The names of a million items take longer to make than this whole check.
      const names = Array.isArray(container) && container.length > limits.maxKeys ? [] : Object.keys(container)
      keys += Array.isArray(container) ? container.length : names.length
      if (keys > limits.maxKeys) throw tooMany(limits.maxKeys)
      for (const name of names) {
        if (FORBIDDEN.has(name) && !Array.isArray(container))
          throw new PegboardError('E_VALIDATION', `forbidden key "${name}"${path ? ` in ${path}` : ''}.`)
        visit((container as Record<string, unknown>)[name], path ? `${path}.${name}` : name, next)
      }
    }
    if (bytes > limits.maxBytes)
      throw new PegboardError(
        'E_VALIDATION',
        `The arguments hold more than ${limits.maxBytes} bytes of text (size limit).`,
      )
    level = next
  }
}
