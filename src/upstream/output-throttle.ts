import type { Readable } from 'node:stream'
import { type Clock, ticksOf } from '../core/clock.ts'

const NEWLINE = 0x0a
/** Above this size, lines are processed a few at a time. */
const SLICE = 8 * 1024
/** Maximum read from one pipe per turn of the event loop. The program waits until the rest is read. */
const TURN = { bytes: 256 * 1024, ms: 2 }
/**
 * Pause after useless output: at most four megabytes per second, all pipes together. Reading is cheap, but the
 * buffers count as memory for V8, which collects garbage every few megabytes.
 */
const USELESS_MS = 60

/** Useless output of all programs. */
export interface Flood {
  /** Number of pipes that wait because of it. */
  waiting: number
}

/** Reads a pipe in turns, so that endless output does not block other work. */
export type OutputThrottle = ReturnType<typeof createOutputThrottle>

/** @param isUseless true while output is discarded */
export function createOutputThrottle(
  pipe: Pick<Readable, 'on' | 'pause' | 'resume'>,
  clock: Clock,
  flood: Flood,
  take: (bytes: Buffer) => void,
  isUseless: () => boolean = () => false,
) {
  let chunks: Buffer[] = []
  let turnBegan: number | undefined
  let bytes = 0
  let isPaused = false
  /** Useless output since the last pause. */
  const wasted = { bytes: 0, ms: 0 }
  const isWasteful = (): boolean => wasted.bytes >= TURN.bytes || wasted.ms >= TURN.ms

  function nextTurn(): void {
    if (isPaused && isWasteful()) clock.after(USELESS_MS * ++flood.waiting, afterPause)
    else continueReading()
  }

  function afterPause(): void {
    flood.waiting--
    wasted.bytes = 0
    wasted.ms = 0
    continueReading()
  }

  function continueReading(): void {
    turnBegan = undefined
    if (chunks.length > 0) work()
    if (chunks.length > 0 || !isPaused || isWasteful()) return
    isPaused = false
    pipe.resume()
  }

  function work(): void {
    const from = ticksOf(clock)
    if (turnBegan === undefined) {
      turnBegan = from
      bytes = 0
      setImmediate(nextTurn)
    }
    let now = from
    while (bytes < TURN.bytes && now - turnBegan < TURN.ms && !isWasteful() && takeOne()) now = ticksOf(clock)
    if (isUseless()) wasted.ms += now - from
    if (isPaused || (chunks.length === 0 && bytes < TURN.bytes && !isWasteful())) return
    isPaused = true
    pipe.pause()
  }

  /** Processes some lines, or the beginning of one. */
  function takeOne(): boolean {
    const chunk = chunks.shift()
    if (chunk === undefined) return false
    const end = chunk.indexOf(NEWLINE, SLICE) + 1
    const isWhole = end === 0 || end === chunk.length
    // Removed first, so that an error in the handler affects only this chunk.
    if (!isWhole) chunks.unshift(chunk.subarray(end))
    const length = isWhole ? chunk.length : end
    bytes += length
    if (isUseless()) wasted.bytes += length
    take(isWhole ? chunk : chunk.subarray(0, end))
    return true
  }

  pipe.on('data', (chunk: Buffer) => {
    if (chunk.length <= SLICE && chunks.length === 0 && !isPaused && !isUseless()) return take(chunk)
    chunks.push(chunk)
    if (!isPaused) work()
  })

  return {
    get behind(): boolean {
      return isPaused || chunks.length > 0
    },
    finish(): void {
      while (takeOne());
    },
    stop(): void {
      chunks = []
    },
  }
}
