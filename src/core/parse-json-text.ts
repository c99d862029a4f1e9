import { withExactNumbers } from './exact-numbers.ts'

/**
 * The value of a text that is a JSON object or list, as many servers answer; other values unchanged. Numbers keep all their
 * digits.
 */
export function parseJsonText(data: unknown): unknown {
  if (typeof data !== 'string' || !/^\s*[[{]/.test(data)) return data
  try {
    return JSON.parse(withExactNumbers(data))
  } catch {
    return data
  }
}
