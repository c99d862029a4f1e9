import { isUtf8 } from 'node:buffer'
import { MAX_KEYS } from './json-limits.ts'
import { OWN_META } from './sanitize.ts'

/** A range of bytes: the first byte and the position after the last. */
export interface Span {
  readonly start: number
  readonly end: number
}

/** An answer that can be passed on unchanged. */
export interface CleanAnswer {
  readonly id: string
  readonly result: Span
  /** The members of the result, in order. */
  readonly members: ReadonlyMap<string, Span>
  /** Type of its `structuredContent`, if it has one. */
  readonly structured: 'object' | 'other' | undefined
  /** True if its `content`, if it has one, is a list of blocks with a type and the members that the type requires. */
  readonly readable: boolean
  /** True if it contains a key `uri`, so that it may name a resource. */
  readonly linked: boolean
}

/** Why bytes cannot be passed on unchanged: the first finding. Only `invalid` means that they are not JSON. */
export type Fault =
  | 'invalid'
  /** A request, a notification, an error, or an id that is not a string. */
  | 'not a result'
  /** More than 64 levels of nesting. */
  | 'deep'
  /** More than `MAX_KEYS` keys in objects that contain each other. Parsing so many different keys takes seconds. */
  | 'many keys'
  /** Readers disagree on which duplicate counts. Also a key written with escapes. */
  | 'duplicate key'
  /** `__proto__`, or a key of `_meta` that only Pegboard writes. */
  | 'forbidden key'
  | 'credential'
  /** Possibly invisible characters, a lone surrogate, or letters written as escapes. */
  | 'hidden'
  /** A carriage return between tokens, which some line readers treat as a line break. */
  | 'return'

const MAX_DEPTH = 64

/** Keys whose values look like credentials, in lower case without `_` and `-`. */
export const CREDENTIAL_NAMES: readonly string[] = [
  'accesskey',
  'accesstoken',
  'apikey',
  'apitoken',
  'authorization',
  'authtoken',
  'bearertoken',
  'clientsecret',
  'credentials',
  'idtoken',
  'passwd',
  'password',
  'privatekey',
  'refreshtoken',
  'secret',
  'secretaccesskey',
  'secretkey',
  'sessiontoken',
]

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const COLON = 0x3a
const SEED = 0x811c9dc5
const PRIME = 0x01000193

// Classes of bytes within strings. Bytes from 0x80 on have been checked to be UTF-8; only those that begin an
// invisible character matter.
const [PLAIN, SPECIAL] = [0, 1]
const KIND = new Uint8Array(256).fill(PLAIN)
KIND.fill(SPECIAL, 0, 0x20)
for (const byte of [QUOTE, BACKSLASH, 0x7f, 0xc2, 0xcd, 0xd8, 0xe1, 0xe2, 0xe3, 0xef, 0xf0, 0xf3]) KIND[byte] = SPECIAL

// Escapes that need no further check: quote, both slashes, line break, tab.
const SHORT = new Uint8Array(256)
for (const letter of '"\\/nt') SHORT[letter.charCodeAt(0)] = 1

const isDigit = (byte: number | undefined): boolean => byte !== undefined && byte >= 0x30 && byte <= 0x39

/** The state of one scan. Every function returns the position after what it read, or -1 with `fault` set. */
interface Walk {
  readonly bytes: Buffer
  readonly end: number
  /** The same memory as 32-bit words; undefined if the message is too short for that to pay off. */
  readonly words: Int32Array | undefined
  fault: Fault
  /** Hashes of the keys of all open objects, innermost last. */
  readonly keys: number[]
  linked: boolean
}

const stop = (walk: Walk, fault: Fault): -1 => {
  walk.fault = fault
  return -1
}

/** @param from position, or -1, which is returned */
function skipSpace(walk: Walk, from: number): number {
  let at = from
  for (;;) {
    const byte = walk.bytes[at]
    if (byte === 0x20 || byte === 0x09) at++
    else if (byte === 0x0d || byte === 0x0a) return stop(walk, 'return')
    else return at
  }
}

// Each returns a mask with the high bit set in matching bytes of the word; bits above a match may be wrong.
const zeroIn = (word: number): number => (word - 0x01010101) & ~word
const specialIn = (word: number): number =>
  (word |
    ((word - 0x20202020) & ~word) |
    zeroIn(word ^ 0x22222222) |
    zeroIn(word ^ 0x5c5c5c5c) |
    zeroIn(word ^ 0x7f7f7f7f)) &
  -0x7f7f7f80

/** Skips bytes that need no check, which are most of any long text. */
function skipPlain(walk: Walk, from: number): number {
  const { bytes, end, words } = walk
  let at = from
  if (words) {
    const head = Math.min(end, at + 64)
    while (at < head && KIND[bytes[at] as number] === PLAIN) at++
    if (at === head) {
      while (at < end && ((bytes.byteOffset + at) & 3) !== 0 && KIND[bytes[at] as number] === PLAIN) at++
      if (((bytes.byteOffset + at) & 3) === 0) {
        let word = (bytes.byteOffset + at) >> 2
        const last = (bytes.byteOffset + end) >> 2
        const first = word
        while (word < last && specialIn(words[word] as number) === 0) word++
        at += (word - first) * 4
      }
    }
  }
  while (at < end && KIND[bytes[at] as number] === PLAIN) at++
  return at
}

/** @param from after the opening quote */
function scanString(walk: Walk, from: number): number {
  const { bytes, end } = walk
  let at = from
  while (at < end) {
    at = skipPlain(walk, at)
    const byte = bytes[at]
    if (byte === QUOTE && at < end) return at + 1
    if (byte === BACKSLASH && SHORT[bytes[at + 1] as number] === 1) at += 2
    else at = byte === BACKSLASH ? scanEscape(walk, at + 1) : checkVisible(walk, at)
    if (at === -1) return -1
  }
  return stop(walk, 'invalid')
}

/** For characters from U+0800 on; the same set as in invisible-characters.ts. */
const isInvisible = (code: number): boolean =>
  (code >= 0x200b && code <= 0x200f) ||
  (code >= 0x202a && code <= 0x202e) ||
  (code >= 0x2060 && code <= 0x206f) ||
  (code >= 0xfe00 && code <= 0xfe0f) ||
  code === 0xfeff ||
  code === 0xffa0 ||
  (code >= 0xfff0 && code <= 0xfffb) ||
  code === 0x3164 ||
  code === 0x115f ||
  code === 0x1160 ||
  code === 0x17b4 ||
  code === 0x17b5 ||
  (code >= 0x180b && code <= 0x180f)

/** Handles a byte that is, or begins, a character that may be invisible. */
function checkVisible(walk: Walk, at: number): number {
  const { bytes } = walk
  const [first, second = 0, third = 0] = [bytes[at] as number, bytes[at + 1], bytes[at + 2]]
  if (at >= walk.end || first < 0x20) return stop(walk, 'invalid')
  const hidden =
    first === 0x7f ||
    (first === 0xc2 && (second < 0xa0 || second === 0xad)) ||
    (first === 0xcd && second === 0x8f) ||
    (first === 0xd8 && second === 0x9c) ||
    (first > 0xe0 && first < 0xf0 && isInvisible(((first & 0x0f) << 12) | ((second & 0x3f) << 6) | (third & 0x3f))) ||
    (first === 0xf0 && second === 0x9d && third === 0x85) ||
    (first === 0xf0 && second === 0x9b && third === 0xb2) ||
    (first === 0xf0 && second === 0x93 && third === 0x90) ||
    (first === 0xf3 && second === 0xa0)
  return hidden ? stop(walk, 'hidden') : at + 1
}

/** `\\u` and the control characters with short escapes. @param at after the backslash */
function scanEscape(walk: Walk, at: number): number {
  const { bytes } = walk
  const letter = bytes[at]
  if (letter === 0x75) return scanCodeUnit(walk, at + 1)
  // A lone carriage return lets later text overwrite the line on a terminal.
  if (letter === 0x72) return bytes[at + 1] === BACKSLASH && bytes[at + 2] === 0x6e ? at + 3 : stop(walk, 'hidden')
  return stop(walk, letter === 0x62 || letter === 0x66 ? 'hidden' : 'invalid')
}

/** Four hexadecimal digits, and the second half of a surrogate pair. */
function scanCodeUnit(walk: Walk, at: number): number {
  const code = parseHex(walk.bytes, at)
  if (code === -1) return stop(walk, 'invalid')
  if (code >= 0xd800 && code <= 0xdfff) {
    const { bytes } = walk
    const low = bytes[at + 4] === BACKSLASH && bytes[at + 5] === 0x75 ? parseHex(bytes, at + 6) : 0
    if (low === -1) return stop(walk, 'invalid')
    const pair = code < 0xdc00 && low >= 0xdc00 && low <= 0xdfff
    const invisible =
      (code >= 0xdb40 && code <= 0xdb43) ||
      (code === 0xd82f && low >= 0xdca0 && low <= 0xdca3) ||
      (code === 0xd80d && low >= 0xdc30 && low <= 0xdc3f) ||
      (code === 0xd834 && low >= 0xdd73 && low <= 0xdd7a)
    return pair && !invisible ? at + 10 : stop(walk, 'hidden')
  }
  const control = (code < 0x20 && code !== 0x09 && code !== 0x0a) || (code >= 0x7f && code < 0xa0)
  const invisible = code === 0xad || code === 0x34f || code === 0x61c || isInvisible(code)
  return control || invisible || isDisguised(code) ? stop(walk, 'hidden') : at + 4
}

/** Common JSON writers escape only `"&'+<=>` and the grave accent. Other letters are escaped to avoid detection. */
const isDisguised = (code: number): boolean =>
  code >= 0x20 && code < 0x7f && !ESCAPED.includes(String.fromCharCode(code))
const ESCAPED = '"&\'+<=>`'

function parseHex(bytes: Buffer, at: number): number {
  let code = 0
  for (let i = at; i < at + 4; i++) {
    const byte = bytes[i] ?? 0
    const lower = byte | 0x20
    if (isDigit(byte)) code = code * 16 + byte - 0x30
    else if (lower >= 0x61 && lower <= 0x66) code = code * 16 + lower - 0x57
    else return -1
  }
  return code
}

function skipDigits(bytes: Buffer, from: number): number {
  let at = from
  while (isDigit(bytes[at])) at++
  return at
}

function scanNumber(walk: Walk, from: number): number {
  const { bytes } = walk
  let at = bytes[from] === 0x2d ? from + 1 : from
  const whole = bytes[at] === 0x30 ? at + 1 : skipDigits(bytes, at)
  if (whole === at) return stop(walk, 'invalid')
  at = whole
  if (bytes[at] === 0x2e) {
    const fraction = skipDigits(bytes, at + 1)
    if (fraction === at + 1) return stop(walk, 'invalid')
    at = fraction
  }
  if (((bytes[at] ?? 0) | 0x20) === 0x65) {
    const sign = bytes[at + 1]
    const exponent = sign === 0x2b || sign === 0x2d ? at + 2 : at + 1
    at = skipDigits(bytes, exponent)
    if (at === exponent) return stop(walk, 'invalid')
  }
  return at
}

const LITERALS: ReadonlyMap<number, Buffer> = new Map(
  ['true', 'false', 'null'].map((word) => [word.charCodeAt(0), Buffer.from(word)]),
)

function scanLiteral(walk: Walk, at: number): number {
  const literal = LITERALS.get(walk.bytes[at] ?? 0)
  if (!literal || at + literal.length > walk.end) return stop(walk, 'invalid')
  for (let i = 0; i < literal.length; i++) if (walk.bytes[at + i] !== literal[i]) return stop(walk, 'invalid')
  return at + literal.length
}

function scanAny(walk: Walk, at: number, depth: number): number {
  const byte = walk.bytes[at]
  if (byte === QUOTE) return scanString(walk, at + 1)
  if (byte === 0x7b) return scanObject(walk, at + 1, depth)
  if (byte === 0x5b) return scanArray(walk, at + 1, depth)
  if (byte === 0x2d || isDigit(byte)) return scanNumber(walk, at)
  return scanLiteral(walk, at)
}

/** Skips `byte` and the space around it. @param from position, or -1, which is returned */
function skipMark(walk: Walk, from: number, byte: number): number {
  const at = skipSpace(walk, from)
  if (at === -1) return -1
  return walk.bytes[at] === byte ? skipSpace(walk, at + 1) : stop(walk, 'invalid')
}

/** @param item reads each item instead of `value` */
function scanArray(walk: Walk, from: number, depth: number, item?: Value): number {
  if (depth === MAX_DEPTH) return stop(walk, 'deep')
  let at = skipSpace(walk, from)
  if (at === -1) return -1
  if (walk.bytes[at] === 0x5d) return at + 1
  for (;;) {
    at = skipSpace(walk, item ? item(at) : scanAny(walk, at, depth + 1))
    if (walk.bytes[at] === 0x5d) return at + 1
    at = skipMark(walk, at, COMMA)
    if (at === -1) return -1
  }
}

/** @param member is called for every member with the position of its key, without quotes, and of its value */
function scanObject(walk: Walk, from: number, depth: number, member?: Member): number {
  if (depth === MAX_DEPTH) return stop(walk, 'deep')
  const base = walk.keys.length
  let wide: Set<number> | undefined
  let at = skipSpace(walk, from)
  if (at === -1) return -1
  if (walk.bytes[at] === 0x7d) return at + 1
  for (;;) {
    if (walk.bytes[at] !== QUOTE) return stop(walk, 'invalid')
    const keyAt = at + 1
    at = scanKey(walk, keyAt)
    if (at === -1) return -1
    const keyEnd = at - 1
    if (walk.keys.length - base > WIDE) wide ??= new Set(walk.keys.slice(base, -1))
    if (isDuplicate(walk.keys, base, wide)) return stop(walk, 'duplicate key')
    at = skipMark(walk, at, COLON)
    if (at === -1) return -1
    at = skipSpace(walk, member ? member(keyAt, keyEnd, at) : scanAny(walk, at, depth + 1))
    if (walk.bytes[at] === 0x7d) break
    at = skipMark(walk, at, COMMA)
    if (at === -1) return -1
  }
  walk.keys.length = base
  return at + 1
}

type Value = (at: number) => number
type Member = (keyAt: number, keyEnd: number, valueAt: number) => number

// With more keys, a set is faster than a linear search.
const WIDE = 16

/** True if the object already has the last key. @param wide set of its other keys, if they are many; gets the last one */
function isDuplicate(keys: readonly number[], base: number, wide: Set<number> | undefined): boolean {
  const last = keys.length - 1
  const hash = keys[last] as number
  if (wide?.has(hash)) return true
  if (wide) wide.add(hash)
  else for (let i = base; i < last; i++) if (keys[i] === hash) return true
  return false
}

// Keys with equal hashes count as duplicates; a false match only costs a parse. `loose` ignores case, `_` and `-`.
function scanKey(walk: Walk, from: number): number {
  const { bytes } = walk
  let exact = SEED
  let loose = SEED
  let at = from
  for (;;) {
    const byte = bytes[at] as number
    if (KIND[byte] !== PLAIN) break
    exact = Math.imul(exact ^ byte, PRIME)
    if (byte >= 0x41 && byte <= 0x5a) loose = Math.imul(loose ^ (byte | 0x20), PRIME)
    else if (byte !== 0x5f && byte !== 0x2d) loose = Math.imul(loose ^ byte, PRIME)
    at++
  }
  if (bytes[at] !== QUOTE || at >= walk.end) {
    const end = scanString(walk, from)
    return end === -1 ? -1 : stop(walk, 'duplicate key')
  }
  if (exact === PROTO || exact === PROTOTYPE || isOwnMetaKey(bytes, from)) return stop(walk, 'forbidden key')
  if (CREDENTIALS.has(loose)) return stop(walk, 'credential')
  if (exact === URI) walk.linked = true
  if (walk.keys.push(exact) > MAX_KEYS) return stop(walk, 'many keys')
  return at + 1
}

// Comparing the first two bytes rules out nearly all other keys.
const isOwnMetaKey = (bytes: Buffer, from: number): boolean =>
  ((bytes[from] as number) | 0x20) === OWN_META_BYTES[0] &&
  ((bytes[from + 1] as number) | 0x20) === OWN_META_BYTES[1] &&
  bytes.toString('latin1', from, from + OWN_META_BYTES.length).toLowerCase() === OWN_META
const OWN_META_BYTES = Buffer.from(OWN_META)

const hashOf = (name: string): number => {
  let hash = SEED
  for (const byte of Buffer.from(name)) hash = Math.imul(hash ^ byte, PRIME)
  return hash
}
const PROTO = hashOf('__proto__')
const PROTOTYPE = hashOf('prototype')
const URI = hashOf('uri')
const CREDENTIALS: ReadonlySet<number> = new Set(CREDENTIAL_NAMES.map(hashOf))

const walkOf = (bytes: Buffer): Walk => ({
  bytes,
  end: bytes.length,
  words: bytes.length >= 1_024 ? new Int32Array(bytes.buffer, 0, bytes.buffer.byteLength >> 2) : undefined,
  fault: 'invalid',
  keys: [],
  linked: false,
})

/** Scans any JSON value once. @returns the first reason not to pass it on, or `undefined` */
export function scanValue(bytes: Buffer): Fault | undefined {
  if (!isUtf8(bytes)) return 'invalid'
  const walk = walkOf(bytes)
  const from = skipSpace(walk, 0)
  const at = from === -1 ? -1 : skipSpace(walk, scanAny(walk, from, 0))
  if (at === -1) return walk.fault
  return at === walk.end ? undefined : 'invalid'
}

/** Members that a block of each type must have as text. Embedded resources are checked when they are parsed. */
const TEXTS: ReadonlyMap<string, number> = new Map(
  ['text', 'data', 'mimeType', 'uri', 'name'].map((name, at) => [name, 1 << at]),
)
const NEEDED: ReadonlyMap<string, number> = new Map([
  ['text', 1],
  ['image', 2 | 4],
  ['audio', 2 | 4],
  ['resource_link', 8 | 16],
])

/**
 * Scans a line that may be the answer to a request. A clean line is valid JSON in UTF-8, at most 64 levels deep,
 * without duplicate keys, `__proto__`, credential-like keys and invisible characters. It means the same to every
 * reader, so it is passed on unparsed, with all digits of its numbers.
 */
export function scanAnswer(line: Buffer): CleanAnswer | Fault {
  if (!isUtf8(line)) return 'invalid'
  const walk = walkOf(line)
  const members = new Map<string, Span>()
  let id: string | undefined
  let result: Span | undefined
  let readable = true

  let type = ''
  let texts = 0
  const inBlock: Member = (keyAt, keyEnd, valueAt) => {
    const end = scanAny(walk, valueAt, 4)
    if (end === -1 || line[valueAt] !== QUOTE) return end
    const name = line.toString('latin1', keyAt, keyEnd)
    texts |= TEXTS.get(name) ?? 0
    // A value with escapes is left to the parser.
    if (name === 'type') type = line.toString('latin1', valueAt + 1, end - 1)
    return end
  }
  const block: Value = (at) => {
    if (line[at] !== 0x7b) readable = false
    if (!readable) return scanAny(walk, at, 3)
    type = '\\'
    texts = 0
    const end = scanObject(walk, at + 1, 3, inBlock)
    const needed = NEEDED.get(type) ?? 0
    readable = !type.includes('\\') && (texts & needed) === needed && type !== 'resource'
    return end
  }
  const inResult: Member = (keyAt, keyEnd, valueAt) => {
    const name = line.toString('utf8', keyAt, keyEnd)
    const isList = name === 'content' && line[valueAt] === 0x5b
    if (name === 'content' && !isList) readable = false
    const end = isList ? scanArray(walk, valueAt + 1, 2, block) : scanAny(walk, valueAt, 2)
    if (end !== -1) members.set(name, { start: valueAt, end })
    return end
  }
  const onTop: Member = (keyAt, keyEnd, valueAt) => {
    const name = line.toString('latin1', keyAt, keyEnd)
    if (name === 'result' && line[valueAt] === 0x7b) {
      const end = scanObject(walk, valueAt + 1, 1, inResult)
      result = { start: valueAt, end }
      return end
    }
    if ((name !== 'id' && name !== 'jsonrpc') || line[valueAt] !== QUOTE) return stop(walk, 'not a result')
    const end = scanString(walk, valueAt + 1)
    if (name === 'id' && end !== -1) id = line.toString('utf8', valueAt + 1, end - 1)
    return end
  }

  if (line[0] !== 0x7b) return 'not a result'
  const end = scanObject(walk, 1, 0, onTop)
  if (end === -1) return walk.fault
  const rest = skipSpace(walk, end)
  // A trailing carriage return belongs to the line, not to the answer.
  if (rest === -1 ? line.length !== end + 1 : rest !== line.length) return 'invalid'
  if (id === undefined || id.includes('\\') || result === undefined) return 'not a result'
  const content = members.get('structuredContent')
  const structured = content && (line[content.start] === 0x7b ? 'object' : 'other')
  return { id, result, members, structured, readable, linked: walk.linked }
}
