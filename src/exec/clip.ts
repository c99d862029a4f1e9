import { resultTooLarge } from '../core/errors.ts'
import type { ToolResult } from '../core/result.ts'
import type { Tool } from '../core/tool.ts'

type Value = Extract<ToolResult, { kind: 'value' }>

/**
 * What a module returned, as far as it is handed on. Of a text that is too long its beginning is, with the whole beside it as a
 * file that can be read in its turn; half of anything else would be nothing.
 * @throws PegboardError E_TOO_LARGE
 */
export function clipped(result: Value, { id }: Tool, maxBytes: number): Value {
  const { value } = result
  if (typeof value !== 'string') {
    if (isLonger(value, maxBytes)) throw resultTooLarge(`${id} answered with more than ${maxBytes} bytes.`)
    return result
  }
  // No character takes more than three bytes of UTF-8 for each of its own units.
  if (value.length * 3 <= maxBytes) return result
  const bytes = Buffer.byteLength(value)
  if (bytes <= maxBytes) return result
  const head = beginning(value, maxBytes)
  const all = { data: value, filename: `${id}.txt`, mimetype: 'text/plain', apart: true }
  return {
    ...result,
    value: `${head}\n[truncated: ${Buffer.byteLength(head)} of ${bytes} bytes; the file beside it has all of it]`,
    files: [...result.files, all],
  }
}

/** As much of a text as fits, and no half of a character. */
function beginning(text: string, maxBytes: number): string {
  const bytes = Buffer.from(text.slice(0, maxBytes))
  let end = Math.min(bytes.length, maxBytes)
  // Bytes that go on with a character.
  while (end < bytes.length && end > 0 && ((bytes[end] as number) & 0xc0) === 0x80) end--
  return bytes.toString('utf8', 0, end)
}

/** Whether it is longer than that as JSON, or nearly. Ends early, so that one that holds itself does. */
function isLonger(value: unknown, maxBytes: number): boolean {
  const open: unknown[] = [value]
  let left = maxBytes
  while (open.length > 0) {
    const one = open.pop()
    if (typeof one === 'string') left -= one.length + 2
    else if (typeof one !== 'object' || one === null) left -= 2
    else if (ArrayBuffer.isView(one)) left -= one.byteLength
    else if (Array.isArray(one)) {
      left -= 2
      if (one.length > left) return true
      for (const item of one) open.push(item)
    } else {
      left -= 2
      for (const key of Object.keys(one)) {
        left -= key.length + 3
        open.push((one as Readonly<Record<string, unknown>>)[key])
      }
    }
    if (left < 0) return isSayable(value)
  }
  return false
}

/** What JSON cannot say is refused as that, by whoever would say it. */
function isSayable(value: unknown): boolean {
  try {
    return JSON.stringify(value) !== undefined
  } catch {
    return false
  }
}
