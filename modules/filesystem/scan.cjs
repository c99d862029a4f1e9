// Runs in threads of its own (scan.ts starts them), so that neither slow disks nor slow expressions hold up the server: reads
// files piece by piece and tells which of their lines a pattern fits. Time is in proportion to what is read, whatever the
// pattern: expressions are RE2's. Plain JavaScript, because a thread is started from a file and the modules are bundled.
const { isAscii, isUtf8 } = require('node:buffer')
const fs = require('node:fs')
const { parentPort, workerData } = require('node:worker_threads')

const { O_RDONLY, O_NOFOLLOW = 0, O_NONBLOCK = 0, O_NOCTTY = 0 } = fs.constants
const LINUX = process.platform === 'linux'
const LINE_FEED = 10
/** A zero byte this near to the start makes a file binary, as git sees it. */
const HEAD = 8192
const PIECE = 256 * 1024
/** A line longer than this is looked at in parts. */
const LONGEST = 1024 * 1024
/** Of a line, as it is shown: nobody reads a minified file in one piece. */
const SHOWN = 500

const { pattern, literal, ignoreCase, multiline, mode, context, maxBytes, pulse } = workerData
const beats = new Int32Array(pulse)
let buffer = Buffer.allocUnsafe(PIECE)

const plain = !ignoreCase && (literal || !/[\\^$.*+?()[\]{}|]/.test(pattern))
/** Matches may span lines: the file has to be seen in one piece. */
const whole = multiline || (plain && pattern.includes('\n'))

/** @returns `mayFit(bytes, text)`, false when no line of them fits; `fits(line)`; `startsIn(text)` of matches that span lines */
function plainMatcher() {
  const needle = Buffer.from(pattern)
  const narrow = Buffer.from(pattern, 'latin1')
  const sameBytes = isAscii(needle)
  return {
    mayFit: (bytes) => bytes.includes(needle) || (!sameBytes && bytes.includes(narrow)),
    fits: (line) => line.includes(pattern),
    *startsIn(text) {
      for (let at = text.indexOf(pattern); at >= 0; at = text.indexOf(pattern, at + 1)) yield at
    },
  }
}

function expressionMatcher() {
  const { RE2JS } = require('re2js')
  const source = literal ? RE2JS.quote(pattern) : RE2JS.translateRegExp(pattern)
  const flags = RE2JS.LOOKBEHINDS | (ignoreCase ? RE2JS.CASE_INSENSITIVE : 0)
  const line = RE2JS.compile(source, flags)
  const lines = RE2JS.compile(source, flags | RE2JS.MULTILINE)
  // What asks for the ends of the text, not of a line, would not be seen in many lines at once.
  const alone = /\\[Az]|\(\?[a-zA-Z]*-/.test(source)
  return {
    mayFit: (_bytes, text) => alone || lines.test(text()),
    fits: (one) => line.test(one),
    *startsIn(text) {
      const matcher = RE2JS.compile(source, flags | RE2JS.MULTILINE | RE2JS.DOTALL).matcher(text)
      while (matcher.find()) yield matcher.start()
    },
  }
}

const textOf = (bytes) => bytes.toString(!isAscii(bytes) && isUtf8(bytes) ? 'utf8' : 'latin1').replaceAll('\r\n', '\n')
const shown = (line) => (line.length > SHOWN ? `${line.slice(0, SHOWN)}…` : line)

function countLines(bytes) {
  let count = 0
  for (let at = bytes.indexOf(LINE_FEED); at >= 0; at = bytes.indexOf(LINE_FEED, at + 1)) count++
  return count
}

/** Collects what fits in one file, with the lines around it, as pieces of it come by. */
function createFinds(limit) {
  const matches = []
  let last = 0
  /** Lines just before the present one, and matches that want more lines after theirs. */
  let before = []
  let waiting = []
  return {
    matches,
    get count() {
      return matches.length
    },
    isFull: () => matches.length >= limit && waiting.length === 0,
    isWaiting: () => waiting.length > 0,
    add(number, line, fits) {
      for (const match of waiting) match.after.push(shown(line))
      if (waiting.length > 0) waiting = waiting.filter((match) => match.after.length < context)
      if (matches.length < limit && number !== last && fits) {
        last = number
        const match = { line: number, text: shown(line) }
        if (context > 0) {
          match.before = before.map(shown)
          match.after = []
          waiting.push(match)
        }
        matches.push(match)
      }
      if (context === 0) return
      before.push(line)
      if (before.length > context) before.shift()
    },
    /** Goes by lines none of which fits. */
    pass(text) {
      if (context > 0) before = [...before, ...text.replace(/\n$/, '').split('\n').slice(-context)].slice(-context)
    },
  }
}

/** @returns what fits, or undefined for a file that is binary or too large */
function scan(fd, size, named, limit, matcher) {
  if (size > maxBytes && (whole || !named)) return undefined
  const finds = createFinds(limit)
  let [filledBytes, position, line] = [0, 0, 1]
  for (let over = false; !over && !finds.isFull(); ) {
    const space = buffer.length - filledBytes
    const read = fs.readSync(fd, buffer, filledBytes, space, position)
    Atomics.add(beats, 0, 1)
    over = read < space
    const filled = filledBytes + read
    if (position === 0 && buffer.subarray(0, Math.min(filled, HEAD)).includes(0)) return undefined
    position += read
    let end = over ? filled : whole ? 0 : buffer.subarray(0, filled).lastIndexOf(LINE_FEED) + 1
    if (end === 0 && !over) {
      if (whole || buffer.length < LONGEST) {
        if (whole && buffer.length > maxBytes) return undefined
        buffer = Buffer.concat([buffer], buffer.length * 2)
        filledBytes = filled
        continue
      }
      end = filled
    }
    const bytes = buffer.subarray(0, end)
    let decoded
    const text = () => (decoded ??= textOf(bytes))
    if (end > 0 && whole) addSpanning(text(), finds, matcher)
    else if (end > 0 && (finds.isWaiting() || matcher.mayFit(bytes, text))) {
      const ended = bytes[end - 1] === LINE_FEED
      const lines = text().split('\n')
      if (ended) lines.pop()
      for (const [index, one] of lines.entries()) {
        finds.add(line + index, one, matcher.fits(one))
        if (finds.isFull()) break
      }
      line += lines.length - (ended ? 0 : 1)
    } else if (!over) {
      if (context > 0) finds.pass(text())
      line += countLines(bytes)
    }
    buffer.copyWithin(0, end, filled)
    filledBytes = filled - end
  }
  return finds
}

/** A match counts for the line it begins on. */
function addSpanning(text, finds, matcher) {
  const starts = matcher.startsIn(text)
  let next = starts.next()
  let [at, number] = [0, 1]
  for (const line of next.done ? [] : text.replace(/\n$/, '').split('\n')) {
    const end = at + line.length
    const fits = !next.done && next.value <= end
    finds.add(number++, line, fits)
    while (!next.done && next.value <= end && !finds.isFull()) next = starts.next()
    if (finds.isFull() || (next.done && !finds.isWaiting())) break
    at = end + 1
  }
}

/** Opens a file of a folder that is held open, and nothing else: neither a link nor what waits for a reader. */
function openIn(folder, name) {
  const path = `${folder}/${name}`
  const fd = fs.openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)
  // Elsewhere the folder is only a path, and another program may have put a link in its place.
  if (!LINUX && fs.realpathSync.native(path) !== fs.realpathSync.native(folder) + path.slice(folder.length)) {
    fs.closeSync(fd)
    throw new Error('the folder was replaced')
  }
  return fd
}

function scanOne({ folder, name, fd }, limit, matcher) {
  const named = fd !== undefined
  let opened = fd
  try {
    opened ??= openIn(folder, name)
    const facts = fs.fstatSync(opened)
    return facts.isFile() ? scan(opened, facts.size, named, limit, matcher) : undefined
  } catch (error) {
    // Files come and go, and some are closed to us, while a tree is searched.
    if (named || error.syscall === undefined) throw error
    return createFinds(0)
  } finally {
    if (!named && opened !== undefined) fs.closeSync(opened)
  }
}

function start() {
  const matcher = plain ? plainMatcher() : expressionMatcher()
  parentPort.on('message', ({ id, folder, names, fd, limit }) => {
    const found = []
    let [left, skipped] = [limit, 0]
    for (const [index, name] of names.entries()) {
      Atomics.store(beats, 1, index)
      Atomics.add(beats, 0, 1)
      const finds = scanOne({ folder, name, fd }, mode === 'files_with_matches' ? 1 : left, matcher)
      if (finds === undefined) skipped++
      else if (finds.count > 0) {
        found.push({ name, count: finds.count, matches: mode === 'content' ? finds.matches : [] })
        left -= finds.count
        if (left <= 0) break
      }
    }
    parentPort.postMessage({ id, found, skipped })
  })
}

try {
  start()
  parentPort.postMessage({ ready: true })
} catch (error) {
  parentPort.postMessage({ bad: error.message })
}
