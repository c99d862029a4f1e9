import { withExactNumbers } from './exact-numbers.ts'

/**
 * As `JSON.parse`, but numbers that JavaScript cannot represent become text: `9007199254740993` would become another id,
 * and `1e400` would become Infinity. @throws SyntaxError
 */
export const parseJson = (text: string): unknown => JSON.parse(withExactNumbers(text))

/**
 * The value of a text that is a JSON object or list, as many servers answer; other values unchanged. Numbers keep all their
 * digits.
 */
export function parseJsonText(data: unknown): unknown {
  if (typeof data !== 'string' || !/^\s*[[{]/.test(data)) return data
  try {
    return parseJson(data)
  } catch {
    return data
  }
}
