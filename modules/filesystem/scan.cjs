// Searches files for a pattern, in threads that scan.ts starts, so that slow disks and slow patterns do not block the server.
// Time is proportional to the bytes read, because the patterns are RE2 expressions. Plain JavaScript, because a thread starts
// from a file and the modules are bundled.
const { isAscii, isUtf8 } = require('node:buffer')
const fs = require('node:fs')
const { parentPort, workerData } = require('node:worker_threads')

const { O_RDONLY, O_NOFOLLOW = 0, O_NONBLOCK = 0, O_NOCTTY = 0 } = fs.constants
const LINUX = process.platform === 'linux'
const LINE_FEED = 10
/** As in git, a file with a NUL byte in this many bytes at its beginning is binary. */
const HEAD_BYTES = 8192
const CHUNK_BYTES = 256 * 1024
/** A longer line is searched in parts. */
const MAX_LINE_BYTES = 1024 * 1024
/** Maximum characters shown of a line, such as one of a minified file. */
const MAX_SHOWN = 500

const { pattern, literal, ignoreCase, multiline, mode, context, maxBytes, progressBuffer } = workerData
/** A counter of the chunks read, and the index of the current file. */
const progress = new Int32Array(progressBuffer)
let buffer = Buffer.allocUnsafe(CHUNK_BYTES)

const isPlainText = !ignoreCase && (literal || !/[\\^$.*+?()[\]{}|]/.test(pattern))
/** Matches can span lines, so the whole file must be in memory. */
const needsWholeFile = multiline || (isPlainText && pattern.includes('\n'))

/**
 * @returns `mayMatch(bytes, text)`: false if no line of them matches; `matchesLine(line)`; `matchStarts(text)`: where matches
 * begin that can span lines
 */
function plainMatcher() {
  const utf8 = Buffer.from(pattern)
  const latin1 = Buffer.from(pattern, 'latin1')
  const isSame = isAscii(utf8)
  return {
    mayMatch: (bytes) => bytes.includes(utf8) || (!isSame && bytes.includes(latin1)),
    matchesLine: (line) => line.includes(pattern),
    *matchStarts(text) {
      for (let at = text.indexOf(pattern); at >= 0; at = text.indexOf(pattern, at + 1)) yield at
    },
  }
}

function expressionMatcher() {
  const { RE2JS } = require('re2js')
  const source = literal ? RE2JS.quote(pattern) : RE2JS.translateRegExp(pattern)
  const flags = RE2JS.LOOKBEHINDS | (ignoreCase ? RE2JS.CASE_INSENSITIVE : 0)
  const linePattern = RE2JS.compile(source, flags)
  const multilinePattern = RE2JS.compile(source, flags | RE2JS.MULTILINE)
  // An anchor to the ends of the text matches each line only if the lines are searched one by one.
  const needsSingleLines = /\\[Az]|\(\?[a-zA-Z]*-/.test(source)
  return {
    mayMatch: (_bytes, text) => needsSingleLines || multilinePattern.test(text()),
    matchesLine: (line) => linePattern.test(line),
    *matchStarts(text) {
      const matcher = RE2JS.compile(source, flags | RE2JS.MULTILINE | RE2JS.DOTALL).matcher(text)
      while (matcher.find()) yield matcher.start()
    },
  }
}

const textOf = (bytes) => bytes.toString(!isAscii(bytes) && isUtf8(bytes) ? 'utf8' : 'latin1').replaceAll('\r\n', '\n')
const shortenLine = (line) => (line.length > MAX_SHOWN ? `${line.slice(0, MAX_SHOWN)}…` : line)

function countLines(bytes) {
  let count = 0
  for (let at = bytes.indexOf(LINE_FEED); at >= 0; at = bytes.indexOf(LINE_FEED, at + 1)) count++
  return count
}

/** Collects the matches in one file, with the lines around them. */
function createCollector(limit) {
  const matches = []
  let lastNumber = 0
  /** The last lines, and the matches that need more of the lines after them. */
  let before = []
  let incomplete = []
  return {
    matches,
    get count() {
      return matches.length
    },
    isFull: () => matches.length >= limit && incomplete.length === 0,
    needsLines: () => incomplete.length > 0,
    add(number, line, isMatch) {
      for (const match of incomplete) match.after.push(shortenLine(line))
      if (incomplete.length > 0) incomplete = incomplete.filter((match) => match.after.length < context)
      if (matches.length < limit && number !== lastNumber && isMatch) {
        lastNumber = number
        const match = { line: number, text: shortenLine(line) }
        if (context > 0) {
          match.before = before.map(shortenLine)
          match.after = []
          incomplete.push(match)
        }
        matches.push(match)
      }
      if (context === 0) return
      before.push(line)
      if (before.length > context) before.shift()
    },
    /** Adds lines without a match. */
    skip(text) {
      if (context > 0) before = [...before, ...text.replace(/\n$/, '').split('\n').slice(-context)].slice(-context)
    },
  }
}

/**
 * Reads a file in blocks of whole lines, or in a single block if matches can span lines. A block is valid until the next one is
 * read. Yields undefined instead, and ends, if the file is binary or too large.
 */
function* readBlocks(fd) {
  let [filled, position, isLast] = [0, 0, false]
  while (!isLast) {
    const space = buffer.length - filled
    const read = fs.readSync(fd, buffer, filled, space, position)
    Atomics.add(progress, 0, 1)
    isLast = read < space
    filled += read
    if (position === 0 && buffer.subarray(0, Math.min(filled, HEAD_BYTES)).includes(0)) {
      yield undefined
      return
    }
    position += read
    const end = isLast ? filled : findBlockEnd(filled)
    if (end > 0) {
      yield { bytes: buffer.subarray(0, end), isLast }
      buffer.copyWithin(0, end, filled)
      filled -= end
    } else if (!isLast) {
      if (needsWholeFile && buffer.length > maxBytes) {
        yield undefined
        return
      }
      buffer = Buffer.concat([buffer], buffer.length * 2)
    }
  }
}

/** @returns where the block ends in the full buffer, or 0 if the block is longer than the buffer */
function findBlockEnd(filled) {
  if (needsWholeFile) return 0
  const end = buffer.subarray(0, filled).lastIndexOf(LINE_FEED) + 1
  return end === 0 && buffer.length >= MAX_LINE_BYTES ? filled : end
}

/**
 * @param isNamed true if the call names this file: then it is searched whatever its size
 * @returns the matches, or undefined for a file that is binary or too large
 */
function scan(fd, size, isNamed, limit, matcher) {
  if (size > maxBytes && (needsWholeFile || !isNamed)) return undefined
  const collector = createCollector(limit)
  let line = 1
  for (const block of readBlocks(fd)) {
    if (block === undefined) return undefined
    if (needsWholeFile) addMultilineMatches(textOf(block.bytes), collector, matcher)
    else line += addMatchingLines(block, line, collector, matcher)
    if (collector.isFull()) break
  }
  return collector
}

/** @returns by how much the line number grows; of no use after the last block */
function addMatchingLines({ bytes, isLast }, firstLine, collector, matcher) {
  let decoded
  const text = () => (decoded ??= textOf(bytes))
  if (!collector.needsLines() && !matcher.mayMatch(bytes, text)) {
    if (isLast) return 0
    if (context > 0) collector.skip(text())
    return countLines(bytes)
  }
  const lines = text().split('\n')
  const lineFeeds = lines.length - 1
  if (lines.at(-1) === '') lines.pop()
  for (const [index, line] of lines.entries()) {
    collector.add(firstLine + index, line, matcher.matchesLine(line))
    if (collector.isFull()) break
  }
  return lineFeeds
}

/** A match belongs to the line on which it begins. */
function addMultilineMatches(text, collector, matcher) {
  const starts = matcher.matchStarts(text)
  let next = starts.next()
  let [lineStart, number] = [0, 1]
  for (const line of next.done ? [] : text.replace(/\n$/, '').split('\n')) {
    const end = lineStart + line.length
    collector.add(number++, line, !next.done && next.value <= end)
    while (!next.done && next.value <= end && !collector.isFull()) next = starts.next()
    if (collector.isFull() || (next.done && !collector.needsLines())) break
    lineStart = end + 1
  }
}

/** Opens a file of an open folder. Follows no link, and does not wait at a pipe. */
function openFile(folder, name) {
  const path = `${folder}/${name}`
  const fd = fs.openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)
  // Only Linux has paths of open folders. Elsewhere another program may have replaced the folder by a link.
  if (!LINUX && fs.realpathSync.native(path) !== fs.realpathSync.native(folder) + path.slice(folder.length)) {
    fs.closeSync(fd)
    throw new Error('the folder was replaced')
  }
  return fd
}

function scanOne({ folder, name, fd }, limit, matcher) {
  const isNamed = fd !== undefined
  let opened = fd
  try {
    opened ??= openFile(folder, name)
    const stats = fs.fstatSync(opened)
    return stats.isFile() ? scan(opened, stats.size, isNamed, limit, matcher) : undefined
  } catch (error) {
    // In a folder, a file that was removed or cannot be read has no matches.
    if (isNamed || error.syscall === undefined) throw error
    return createCollector(0)
  } finally {
    if (!isNamed && opened !== undefined) fs.closeSync(opened)
  }
}

function start() {
  const matcher = isPlainText ? plainMatcher() : expressionMatcher()
  parentPort.on('message', ({ id, folder, names, fd, limit }) => {
    const found = []
    let [remaining, skipped] = [limit, 0]
    for (const [index, name] of names.entries()) {
      Atomics.store(progress, 1, index)
      Atomics.add(progress, 0, 1)
      const result = scanOne({ folder, name, fd }, mode === 'files_with_matches' ? 1 : remaining, matcher)
      if (result === undefined) skipped++
      else if (result.count > 0) {
        found.push({ name, count: result.count, matches: mode === 'content' ? result.matches : [] })
        remaining -= result.count
        if (remaining <= 0) break
      }
    }
    parentPort.postMessage({ id, found, skipped })
  })
}

try {
  start()
  parentPort.postMessage({ ready: true })
} catch (error) {
  parentPort.postMessage({ error: error.message })
}
