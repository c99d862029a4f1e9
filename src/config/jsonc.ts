/** A parsed text and where each value starts. */
export interface Jsonc {
  readonly value: unknown
  /** 1-based line of the key or item at a dotted path, such as `exposure.mode` or `modules.a.setup.0`. */
  readonly lines: ReadonlyMap<string, number>
}

/** The text is not JSON. `line` and `column` are 1-based. */
export class JsoncError extends Error {
  readonly line: number
  readonly column: number

  constructor(message: string, line: number, column: number) {
    super(message)
    this.name = 'JsoncError'
    this.line = line
    this.column = column
  }
}

const MAX_DEPTH = 100
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y
const STRING = /"(?:[^"\\\p{Cc}]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/uy
const WORDS = new Map<string, unknown>([
  ['true', true],
  ['false', false],
  ['null', null],
])

/**
 * Reads JSON as people write it in configuration files: line and block comments, trailing commas and a byte order mark
 * are fine. A key given twice in one object, prototype keys and integers that would be rounded are not.
 * @throws JsoncError
 */
export function parseJsonc(text: string): Jsonc {
  const lines = new Map<string, number>()
  let at = text.charCodeAt(0) === 0xfeff ? 1 : 0

  const fail = (message: string, where = at): never => {
    const before = text.slice(0, where).split('\n')
    throw new JsoncError(message, before.length, (before.at(-1)?.length ?? 0) + 1)
  }
  const seen = (): string => (at < text.length ? `"${text[at]}"` : 'the end of the file')

  const skip = (): void => {
    for (;;) {
      while (at < text.length && ' \t\r\n'.includes(text[at] as string)) at++
      if (text.startsWith('//', at)) {
        const end = text.indexOf('\n', at)
        at = end < 0 ? text.length : end
      } else if (text.startsWith('/*', at)) {
        const end = text.indexOf('*/', at + 2)
        if (end < 0) fail('a comment is not closed')
        at = end + 2
      } else return
    }
  }

  const match = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at
    const found = pattern.exec(text)?.[0]
    if (found !== undefined) at += found.length
    return found
  }

  const string = (): string => {
    const start = at
    const raw = match(STRING)
    if (raw === undefined) fail('a string is not closed or has an illegal character or escape', start)
    return JSON.parse(raw as string) as string
  }

  let line = 1
  let counted = 0
  const note = (path: string): void => {
    for (; counted < at; counted++) if (text.charCodeAt(counted) === 10) line++
    lines.set(path, line)
  }

  const list = (close: string, item: () => void): void => {
    at++
    for (;;) {
      skip()
      if (text[at] === close) break
      item()
      skip()
      if (text[at] === ',') at++
      else if (text[at] !== close) fail(`expected "," or "${close}" but found ${seen()}`)
    }
    at++
  }

  const value = (path: string, depth: number): unknown => {
    if (depth > MAX_DEPTH) fail(`nested more than ${MAX_DEPTH} deep`)
    const inner = (key: string | number): string => (path === '' ? String(key) : `${path}.${key}`)
    if (text[at] === '{') {
      const result: Record<string, unknown> = {}
      list('}', () => {
        if (text[at] !== '"') fail(`expected a key in double quotes but found ${seen()}`)
        const start = at
        note(inner('?'))
        const key = string()
        if (key === '__proto__') fail('"__proto__" cannot be a key', start)
        if (Object.hasOwn(result, key)) fail(`the key "${key}" is given twice`, start)
        lines.set(inner(key), line)
        skip()
        if (text[at] !== ':') fail(`expected ":" after the key "${key}" but found ${seen()}`)
        at++
        skip()
        result[key] = value(inner(key), depth + 1)
      })
      lines.delete(inner('?'))
      return result
    }
    if (text[at] === '[') {
      const result: unknown[] = []
      list(']', () => {
        note(inner(result.length))
        result.push(value(inner(result.length), depth + 1))
      })
      return result
    }
    if (text[at] === '"') return string()
    const start = at
    const number = match(NUMBER)
    if (number !== undefined) {
      const exact = Number(number)
      // The id of a chat, rounded, is that of another.
      if (Number.isInteger(exact) && !Number.isSafeInteger(exact))
        fail('an integer beyond 2^53 would be rounded: write it as a string', start)
      return exact
    }
    for (const [word, meaning] of WORDS) {
      if (!text.startsWith(word, at)) continue
      at += word.length
      return meaning
    }
    return fail(`expected a value but found ${seen()}`)
  }

  skip()
  const result = value('', 0)
  skip()
  if (at < text.length) fail(`expected the end of the file but found ${seen()}`)
  return { value: result, lines }
}
