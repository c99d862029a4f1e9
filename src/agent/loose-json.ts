/** A value and the position after it. */
export interface ParsedJson {
  readonly value: unknown
  readonly end: number
}

/** Number of characters that may still be read; shared by all reads of one text to bound the total work. */
export interface Budget {
  left: number
}

const MAX_DEPTH = 64
const NUMBER = /-?\d{1,309}(?:\.\d{1,309})?(?:[eE][+-]?\d{1,3})?/y
const WORD = /[A-Za-z_$][\w$-]{0,127}/y
const HEX = /[\da-fA-F]{4}/y
const WORDS: Readonly<Record<string, unknown>> = {
  true: true,
  false: false,
  null: null,
  True: true,
  False: false,
  None: null,
  undefined: null,
}
const ESCAPES: Readonly<Record<string, string>> = { n: '\n', t: '\t', r: '\r', b: '\b', f: '\f' }

class JsonSyntaxError extends Error {}
const stop = new JsonSyntaxError()

/**
 * Reads the JSON value at `at`, accepting what models get wrong: trailing commas, single quotes, unquoted keys, line
 * breaks in strings, Python's `True` and `None`. Undefined if there is no complete value. At most 64 levels deep.
 */
export function readJson(
  text: string,
  at: number,
  budget: Budget = { left: Number.POSITIVE_INFINITY },
): ParsedJson | undefined {
  let pos = at

  const space = (): void => {
    while (pos < text.length && isSpace(text.charCodeAt(pos))) pos++
  }
  const take = (expression: RegExp): string => {
    expression.lastIndex = pos
    const found = expression.exec(text)?.[0]
    if (found === undefined) throw stop
    pos += found.length
    return found
  }

  function string(): string {
    const quote = text[pos++]
    let out = ''
    let from = pos
    for (;;) {
      const char = text[pos]
      if (char === undefined) throw stop
      if (char === quote) {
        out += text.slice(from, pos++)
        return out
      }
      if (char !== '\\') {
        pos++
        continue
      }
      out += text.slice(from, pos)
      const escaped = text[++pos]
      if (escaped === undefined) throw stop
      pos++
      if (escaped === 'u') out += String.fromCharCode(Number.parseInt(take(HEX), 16))
      else out += ESCAPES[escaped] ?? escaped
      from = pos
    }
  }

  function value(depth: number): unknown {
    if (depth > MAX_DEPTH) throw stop
    const char = text[pos]
    if (char === '{') return object(depth)
    if (char === '[') return list(depth)
    if (char === '"' || char === "'") return string()
    if (char === '-' || isDigit(char)) return Number(take(NUMBER))
    const word = take(WORD)
    if (!Object.hasOwn(WORDS, word)) throw stop
    return WORDS[word]
  }

  function object(depth: number): unknown {
    const entries: [string, unknown][] = []
    pos++
    for (;;) {
      space()
      if (text[pos] === '}') break
      const key = text[pos] === '"' || text[pos] === "'" ? string() : take(WORD)
      space()
      if (text[pos++] !== ':') throw stop
      space()
      entries.push([key, value(depth + 1)])
      space()
      if (text[pos] === ',') pos++
      else if (text[pos] !== '}') throw stop
    }
    pos++
    // `fromEntries` keeps `__proto__` as a key, so that argument validation can reject it.
    return Object.fromEntries(entries)
  }

  function list(depth: number): unknown {
    const items: unknown[] = []
    pos++
    for (;;) {
      space()
      if (text[pos] === ']') break
      items.push(value(depth + 1))
      space()
      if (text[pos] === ',') pos++
      else if (text[pos] !== ']') throw stop
    }
    pos++
    return items
  }

  if (budget.left <= 0) return undefined
  try {
    return { value: value(0), end: pos }
  } catch (error) {
    if (!(error instanceof JsonSyntaxError)) throw error
    return undefined
  } finally {
    budget.left -= pos - at + 1
  }
}

const isSpace = (code: number): boolean => code === 32 || (code >= 9 && code <= 13) || code === 0xa0 || code === 0xfeff
const isDigit = (char: string | undefined): boolean => char !== undefined && char >= '0' && char <= '9'

export function afterSpace(text: string, at: number): number {
  let pos = at
  while (pos < text.length && isSpace(text.charCodeAt(pos))) pos++
  return pos
}
