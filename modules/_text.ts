import { isUtf8 } from 'node:buffer'
import { parseJson } from 'pegboard'

export async function bytesOf(response: Response): Promise<Buffer> {
  return Buffer.from(await response.arrayBuffer())
}

/** The text of a response in its declared encoding, or the text of a page; undefined for binary content. */
export function textOf(bytes: Buffer, type: string): string | undefined {
  const charset =
    /charset="?([\w.:-]+)/i.exec(type)?.[1] ??
    (/html/i.test(type)
      ? /<meta[^>]{1,200}charset=["']?([\w.:-]+)/i.exec(bytes.toString('latin1', 0, 1024))?.[1]
      : undefined)
  if (charset === undefined && bytes.subarray(0, 8192).includes(0)) return undefined
  try {
    return new TextDecoder(charset ?? (isUtf8(bytes) ? 'utf-8' : 'latin1')).decode(bytes)
  } catch {
    return bytes.toString('latin1')
  }
}

/** The end of a part that begins at `from`: not inside a surrogate pair, and after at least one character. */
export function partEnd(text: string, from: number, maxLength: number): number {
  const end = from + maxLength
  if (end >= text.length || !/[\ud800-\udbff]/.test(text.charAt(end - 1))) return end
  return maxLength > 1 ? end - 1 : end + 1
}

/** The value of a JSON text; numbers keep all digits. */
export function parseJsonText(text: string): { readonly value: unknown } | undefined {
  try {
    return { value: parseJson(text) }
  } catch {
    return undefined
  }
}
