import { createGrowingBuffer } from '../core/growing-buffer.ts'

export interface LongEvents {
  /** True if an event of this length so far is too long. */
  isOver(bytes: number): boolean
  /** Called after an oversized event was dropped, with its first and last kilobyte. */
  dropped(head: Buffer, tail: Buffer, bytes: number): void
}

// Two line ends in a row: LF, CR or both.
const BLANK_LINE = /\n\n|[\n\r]\r\n?/g
const LINE_END = /\r\n|\n|\r/
const SAMPLE = 1_024
/** Fields that may appear beside data. An id goes back to the server as a header. */
const FIELD = /^(?:event|id|retry)(?::.{0,1024})?$/

/**
 * Rewrites the data of each event in a stream. The data arrives as one line, because JSON has line ends between its
 * parts only. Drops comments and unknown fields.
 * @param rewrite returns the data of the events that replace this one
 */
export function rewriteEvents(
  rewrite: (data: string) => readonly string[],
  long?: LongEvents,
): TransformStream<Uint8Array, Uint8Array> {
  const buffer = createGrowingBuffer()
  let size = 0
  let dropped: { readonly head: Buffer; tail: Buffer } | undefined
  /** The last character, if it is a line end that may be the first of two. */
  let last = ''

  function add(bytes: Buffer): void {
    size += bytes.length
    if (!dropped && long?.isOver(size)) {
      const head = buffer.length > 0 ? buffer.take() : bytes
      // Copies, because a slice would keep the whole event in memory.
      dropped = { head: Buffer.from(head.subarray(0, SAMPLE)), tail: Buffer.from(head.subarray(-SAMPLE)) }
    }
    if (dropped) dropped.tail = Buffer.concat([dropped.tail, bytes.subarray(-SAMPLE)]).subarray(-SAMPLE)
    else buffer.add(bytes)
  }

  function finish(): string {
    const [cut, bytes] = [dropped, size]
    dropped = undefined
    size = 0
    if (cut === undefined) return eventOf(buffer.take().toString('latin1'), rewrite)
    long?.dropped(cut.head, cut.tail, bytes)
    return ''
  }

  return new TransformStream({
    transform(chunk, controller) {
      const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
      // Decodes as Latin-1. In UTF-8, bytes of line ends and JSON syntax never occur inside other characters.
      const text = last + bytes.toString('latin1')
      const before = last.length
      let events = ''
      let from = 0
      for (const { 0: blank, index } of text.matchAll(BLANK_LINE)) {
        const end = index + blank.length - before
        add(bytes.subarray(from, end))
        events += finish()
        from = end
      }
      if (from < bytes.length) {
        add(bytes.subarray(from))
        last = /[\n\r]$/.exec(text)?.[0] ?? ''
      } else last = ''
      if (events !== '') controller.enqueue(Buffer.from(events, 'latin1'))
    },
  })
}

const BYTE_ORDER_MARK = '\xef\xbb\xbf'

function eventOf(text: string, rewrite: (data: string) => readonly string[]): string {
  const before: string[] = []
  const data: string[] = []
  const after: string[] = []
  const plain = text.startsWith(BYTE_ORDER_MARK) ? text.slice(BYTE_ORDER_MARK.length) : text
  for (const line of plain.split(LINE_END)) {
    if (line.startsWith('data:')) data.push(line.slice(line[5] === ' ' ? 6 : 5))
    else if (line === 'data') data.push('')
    else if (FIELD.test(line)) (data.length === 0 ? before : after).push(line)
  }
  const messages = data.length === 0 ? [] : rewrite(data.join(' ')).map((one) => `data: ${one}`)
  const lines = [...before, messages.join('\n\n'), ...after].filter((line) => line !== '')
  return lines.length === 0 ? '' : `${lines.join('\n')}\n\n`
}
