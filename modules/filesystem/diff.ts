import { countLineFeeds, LINE_FEED } from './replace.ts'

/** Number of unchanged lines around a change. */
const CONTEXT_LINES = 3
/** Maximum shown of the removed and of the added lines each; the rest is only counted. */
const MAX_SHOWN = { lines: 1_000, bytes: 256 * 1024 }

/**
 * One hunk from the first to the last difference, in the format of `diff -u`. Of a large change only the beginning is
 * shown.
 */
export function diffOf(path: string, before: Buffer, after: Buffer): string {
  const start = firstDifference(before, after)
  const [endBefore, endAfter] = lastDifference(before, after, start)
  const from = skipLinesBack(before, start, CONTEXT_LINES)
  const to = skipLines(before, endBefore, CONTEXT_LINES)
  const contextLines = countLines(before, from, start) + countLines(before, endBefore, to)
  const first = countLineFeeds(before, 0, from) + 1
  const removed = countLines(before, start, endBefore) + contextLines
  const added = countLines(after, start, endAfter) + contextLines
  return [
    `--- ${path}`,
    `+++ ${path}`,
    `@@ -${first},${removed} +${first},${added} @@`,
    ...linesOf(' ', before, from, start),
    ...linesOf('-', before, start, endBefore),
    ...linesOf('+', after, start, endAfter),
    ...linesOf(' ', before, endBefore, to),
    '',
  ].join('\n')
}

/** Beginning of the first line that differs. */
function firstDifference(a: Buffer, b: Buffer): number {
  const maxLength = Math.min(a.length, b.length)
  let [index, line] = [0, 0]
  while (index < maxLength && a[index] === b[index]) if (a[index++] === LINE_FEED) line = index
  return index === maxLength && a.length === b.length ? index : line
}

/** Beginning of the equal lines at the end of both; `start` is the beginning of the first line that differs. */
function lastDifference(a: Buffer, b: Buffer, start: number): readonly [number, number] {
  const maxLength = Math.min(a.length, b.length) - start
  let equalBytes = 0
  while (equalBytes < maxLength && a[a.length - 1 - equalBytes] === b[b.length - 1 - equalBytes]) equalBytes++
  const isLineStart = (bytes: Buffer, at: number): boolean => at === start || bytes[at - 1] === LINE_FEED
  while (equalBytes > 0 && !(isLineStart(a, a.length - equalBytes) && isLineStart(b, b.length - equalBytes)))
    equalBytes--
  return [a.length - equalBytes, b.length - equalBytes]
}

function skipLinesBack(bytes: Buffer, from: number, count: number): number {
  let at = from
  for (let remaining = count; remaining > 0 && at > 0; remaining--)
    at = at < 2 ? 0 : bytes.lastIndexOf(LINE_FEED, at - 2) + 1
  return at
}

function skipLines(bytes: Buffer, from: number, count: number): number {
  let at = from
  for (let remaining = count; remaining > 0 && at < bytes.length; remaining--) at = nextLineStart(bytes, at)
  return at
}

/** Beginning of the next line. */
function nextLineStart(bytes: Buffer, from: number): number {
  const at = bytes.indexOf(LINE_FEED, from)
  return at < 0 ? bytes.length : at + 1
}

/** Number of lines; the last one may have no line break. */
export const countLines = (bytes: Buffer, from = 0, to = bytes.length): number =>
  countLineFeeds(bytes, from, to) + (to > from && bytes[to - 1] !== LINE_FEED ? 1 : 0)

function linesOf(mark: string, bytes: Buffer, from: number, to: number): readonly string[] {
  const lines: string[] = []
  for (let at = from; at < to; ) {
    const end = nextLineStart(bytes, at)
    if (lines.length === MAX_SHOWN.lines || end - from > MAX_SHOWN.bytes)
      return [...lines, `… lines not shown: ${countLines(bytes, at, to)}`]
    lines.push(mark + bytes.toString('utf8', at, end).replace(/\r?\n$/, ''))
    at = end
  }
  return lines
}
