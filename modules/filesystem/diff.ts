import { LINE_FEED, lineFeeds } from './replace.ts'

/** Number of unchanged lines around a change. */
const AROUND = 3
/** Maximum shown of the removed and of the added lines each; the rest is only counted. */
const MOST = { lines: 1_000, bytes: 256 * 1024 }

/**
 * One hunk from the first to the last difference, in the format of `diff -u`. Of a large change only the beginning is
 * shown.
 */
export function diffOf(path: string, before: Buffer, after: Buffer): string {
  const start = firstDifference(before, after)
  const [endBefore, endAfter] = lastDifference(before, after, start)
  const from = linesBack(before, start, AROUND)
  const to = linesOn(before, endBefore, AROUND)
  const around = countLines(before, from, start) + countLines(before, endBefore, to)
  const first = lineFeeds(before, 0, from) + 1
  const removed = countLines(before, start, endBefore) + around
  const added = countLines(after, start, endAfter) + around
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
  const most = Math.min(a.length, b.length)
  let [at, line] = [0, 0]
  while (at < most && a[at] === b[at]) if (a[at++] === LINE_FEED) line = at
  return at === most && a.length === b.length ? at : line
}

/** Beginning of the equal lines at the end of both; `start` is the beginning of the first line that differs. */
function lastDifference(a: Buffer, b: Buffer, start: number): readonly [number, number] {
  const most = Math.min(a.length, b.length) - start
  let same = 0
  while (same < most && a[a.length - 1 - same] === b[b.length - 1 - same]) same++
  const isLineStart = (bytes: Buffer, at: number): boolean => at === start || bytes[at - 1] === LINE_FEED
  while (same > 0 && !(isLineStart(a, a.length - same) && isLineStart(b, b.length - same))) same--
  return [a.length - same, b.length - same]
}

function linesBack(bytes: Buffer, from: number, count: number): number {
  let at = from
  for (let left = count; left > 0 && at > 0; left--) at = at < 2 ? 0 : bytes.lastIndexOf(LINE_FEED, at - 2) + 1
  return at
}

function linesOn(bytes: Buffer, from: number, count: number): number {
  let at = from
  for (let left = count; left > 0 && at < bytes.length; left--) at = lineEnd(bytes, at)
  return at
}

/** Beginning of the next line. */
function lineEnd(bytes: Buffer, from: number): number {
  const at = bytes.indexOf(LINE_FEED, from)
  return at < 0 ? bytes.length : at + 1
}

/** Number of lines; the last one may have no line break. */
export const countLines = (bytes: Buffer, from = 0, to = bytes.length): number =>
  lineFeeds(bytes, from, to) + (to > from && bytes[to - 1] !== LINE_FEED ? 1 : 0)

function linesOf(mark: string, bytes: Buffer, from: number, to: number): readonly string[] {
  const lines: string[] = []
  for (let at = from; at < to; ) {
    const end = lineEnd(bytes, at)
    if (lines.length === MOST.lines || end - from > MOST.bytes)
      return [...lines, `… lines not shown: ${countLines(bytes, at, to)}`]
    lines.push(mark + bytes.toString('utf8', at, end).replace(/\r?\n$/, ''))
    at = end
  }
  return lines
}
