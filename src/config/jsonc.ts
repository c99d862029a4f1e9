import { printParseErrorCode, visit } from 'jsonc-parser'

/** A parsed text and the lines of its values. */
export interface ParsedJsonc {
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

/** What the parser wanted, by its error codes. */
const EXPECTED: Readonly<Record<string, string>> = {
  ValueExpected: 'a value',
  PropertyNameExpected: 'a key in double quotes',
  ColonExpected: '":"',
  CommaExpected: '","',
  CloseBraceExpected: '"}"',
  CloseBracketExpected: '"]"',
  EndOfFileExpected: 'the end of the file',
}
const PROBLEMS: Readonly<Record<string, string>> = {
  UnexpectedEndOfComment: 'a comment is not closed',
  UnexpectedEndOfString: 'a string is not closed',
  InvalidCharacter: 'a string has a line break or control character',
  InvalidEscapeCharacter: 'a string has an unknown escape',
  InvalidUnicode: 'a string has an incomplete \\u escape',
}

/**
 * Reads JSON with comments, trailing commas and a byte order mark. Refuses a key that is given twice in one object,
 * `__proto__` as a key, integers that would be rounded, and more than 100 levels.
 * @param options.roundIntegers rounds large integers instead of refusing them, for callers that do not use them
 * @throws JsoncError
 */
export function parseJsonc(source: string, options: { readonly roundIntegers?: boolean } = {}): ParsedJsonc {
  // A byte order mark takes no column.
  const text = source.replace(/^\ufeff/, '')
  const lines = new Map<string, number>()
  const open: Container[] = []
  let root: unknown

  const fail = (message: string, line: number, column: number): never => {
    throw new JsoncError(message, line + 1, column + 1)
  }
  /** Puts a value into the innermost container, and returns its path. */
  const add = (value: unknown, line: number): string => {
    const parent = open.at(-1)
    if (!parent) {
      root = value
      return ''
    }
    const { items, path } = parent
    const isList = Array.isArray(items)
    const key = isList ? items.length : parent.key
    const inner = path === '' ? `${key}` : `${path}.${key}`
    // The line of a property is that of its key.
    if (isList) {
      lines.set(inner, line + 1)
      items.push(value)
    } else items[parent.key] = value
    return inner
  }
  const begin = (items: Container['items'], line: number, column: number): void => {
    if (open.length > MAX_DEPTH) fail(`nested more than ${MAX_DEPTH} deep`, line, column)
    open.push({ items, path: add(items, line), key: '' })
  }
  const end = (): void => void open.pop()

  visit(
    text,
    {
      onObjectBegin: (_offset, _length, line, column) => begin({}, line, column),
      onObjectEnd: end,
      onArrayBegin: (_offset, _length, line, column) => begin([], line, column),
      onArrayEnd: end,
      onObjectProperty(key, _offset, _length, line, column) {
        const parent = open.at(-1) as Container
        if (key === '__proto__') fail('"__proto__" cannot be a key', line, column)
        if (Object.hasOwn(parent.items, key)) fail(`the key "${key}" is given twice`, line, column)
        parent.key = key
        lines.set(parent.path === '' ? key : `${parent.path}.${key}`, line + 1)
      },
      onLiteralValue(value, _offset, _length, line, column) {
        // The rounded id of a chat is the id of another chat.
        if (
          options.roundIntegers !== true &&
          typeof value === 'number' &&
          Number.isInteger(value) &&
          !Number.isSafeInteger(value)
        )
          fail('an integer beyond 2^53 would be rounded: write it as a string', line, column)
        add(value, line)
      },
      onError: (code, offset, _length, line, column) =>
        fail(describe(printParseErrorCode(code), text[offset]), line, column),
    },
    { allowTrailingComma: true },
  )
  return { value: root, lines }
}

interface Container {
  readonly items: Record<string, unknown> | unknown[]
  readonly path: string
  /** The property whose value comes next. */
  key: string
}

/** Shows one character of the text at most, because the next word may be a secret. */
function describe(code: string, found: string | undefined): string {
  const expected = EXPECTED[code]
  if (expected !== undefined)
    return `expected ${expected} but found ${found === undefined ? 'the end of the file' : `"${found}"`}`
  if (code === 'InvalidSymbol') return `"${found}" is not allowed here; keys and strings need double quotes`
  return PROBLEMS[code] ?? 'a number is not valid'
}
