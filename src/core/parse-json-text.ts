import { withExactNumbers } from './exact-numbers.ts'

/**
 * As `JSON.parse`, but numbers that JavaScript cannot represent become text: `9007199254740993` would become another id,
 * and `1e400` would become Infinity. @throws SyntaxError
 */
export const parseJson = (text: string): unknown => JSON.parse(withExactNumbers(text))

/** The value of a text that is a JSON object or list, with all digits of its numbers; other values unchanged. */
export function parseJsonText(data: unknown): unknown {
  if (typeof data !== 'string' || !/^\s*[[{]/.test(data)) return data
  try {
    return parseJson(data)
  } catch {
    return data
  }
}
