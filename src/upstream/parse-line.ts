import { mayImitateError } from '../core/error-attribution.ts'
import { MAY_CHANGE } from '../core/exact-numbers.ts'
import { isRecord } from '../core/is-record.ts'
import { jsonLimitExceeded } from '../core/json-limits.ts'
import { scanAnswer } from '../core/json-scanner.ts'
import type { Message } from '../core/jsonrpc.ts'
import { rawResult } from '../core/raw-result.ts'
import { mayForgeNotice } from '../core/sanitize.ts'
import { tryParseJson } from '../core/try-parse-json.ts'
import { isList, withExactIntegers } from './exact-integers.ts'
import { isOwnId } from './fast-requests.ts'

// Above this size, scanning the bytes costs less than parsing and serializing them.
const LARGE = 8 * 1024
const MAX_HEAD = 256

/**
 * The messages of a line; several for a batch. `undefined` for banners and other noise; a text tells why the line was
 * rejected.
 */
export function parseLine(line: Buffer, parts: readonly Buffer[]): readonly unknown[] | string {
  const first = line[0]
  if (first === 0x7b && line.length >= LARGE && !isList(line.toString('latin1', 0, MAX_HEAD))) {
    const whole = toRawAnswer(line, parts)
    if (whole) return [whole]
  }
  const text = line.toString('utf8')
  if (first === 0x7b && line.length < LARGE && MAY_CHANGE.test(text)) {
    const whole = toRawAnswer(line, parts)
    if (whole) return [whole]
  }
  const fault = jsonLimitExceeded(text)
  if (fault !== undefined) return fault
  if (first === 0x7b || first === 0x5b) return parseText(withExactIntegers(text))
  const trimmed = text.trim()
  return trimmed === '' ? [] : trimmed.startsWith('{') ? parseText(trimmed) : [undefined]
}

/**
 * The answer to a call as raw bytes, if it is clean. Otherwise it is parsed, so that all readers agree on duplicate
 * keys, text is well-formed, and values can be inspected.
 */
function toRawAnswer(line: Buffer, parts: readonly Buffer[]): Message | undefined {
  if (mayForgeNotice(line) || mayImitateError(line)) return undefined
  const answer = scanAnswer(line)
  if (typeof answer === 'string' || !isOwnId(answer.id)) return undefined
  const result = rawResult(parts, answer)
  return result && { jsonrpc: '2.0', id: answer.id, result }
}

function parseText(text: string): readonly unknown[] {
  const value = tryParseJson(text)
  return Array.isArray(value) ? value : [value]
}

/** True if all members that are used later have the right type. */
export function isMessage(value: unknown): value is Message {
  if (!isRecord(value)) return false
  const { id, method, params } = value
  if (id !== undefined && typeof id !== 'string' && typeof id !== 'number') return false
  if (method === undefined) return id !== undefined
  return typeof method === 'string' && (params === undefined || params === null || isRecord(params))
}
