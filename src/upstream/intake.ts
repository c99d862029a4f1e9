import type { Readable } from 'node:stream'
import { type Clock, ticksOf } from '../core/clock.ts'

const NEWLINE = 0x0a
/** From so many bytes on lines are read a few at a time. */
const SLICE = 8 * 1024
/** What is read of one pipe in one turn of the loop. The rest waits, and so does the program that prints it. */
const TURN = { bytes: 256 * 1024, ms: 2 }
/**
 * After so much that is of no use, a pause: at most four megabytes a second are read of it, of all pipes together. To read
 * costs little, but what is read is memory that V8 counts, and every few megabytes have it look through all of the heap.
 */
const USELESS_MS = 60

/** What is printed for nobody, by all programs. */
export interface Flood {
  /** Pipes that wait because of it. */
  waiting: number
}

/** Reads a pipe in turns, so that a program that prints without end does not hold up everything else. */
export interface Intake {
  /** There is more than was read. */
  readonly behind: boolean
  /** Hands on what came, in one turn. */
  finish(): void
  /** Hands on nothing more. */
  stop(): void
}

/** @param useless whether what comes now is thrown away */
export function createIntake(
  pipe: Pick<Readable, 'on' | 'pause' | 'resume'>,
  clock: Clock,
  flood: Flood,
  take: (bytes: Buffer) => void,
  useless: () => boolean = () => false,
): Intake {
  let held: Buffer[] = []
  let began: number | undefined
  let bytes = 0
  let isPaused = false
  /** Of no use, since the last pause. */
  const wasted = { bytes: 0, ms: 0 }
  const isWasteful = (): boolean => wasted.bytes >= TURN.bytes || wasted.ms >= TURN.ms

  function nextTurn(): void {
    if (isPaused && isWasteful()) clock.after(USELESS_MS * ++flood.waiting, afterPause)
    else goOn()
  }

  function afterPause(): void {
    flood.waiting--
    wasted.bytes = 0
    wasted.ms = 0
    goOn()
  }

  function goOn(): void {
    began = undefined
    if (held.length > 0) work()
    if (held.length > 0 || !isPaused || isWasteful()) return
    isPaused = false
    pipe.resume()
  }

  function work(): void {
    const from = ticksOf(clock)
    if (began === undefined) {
      began = from
      bytes = 0
      setImmediate(nextTurn)
    }
    let now = from
    while (bytes < TURN.bytes && now - began < TURN.ms && !isWasteful() && takeOne()) now = ticksOf(clock)
    if (useless()) wasted.ms += now - from
    if (isPaused || (held.length === 0 && bytes < TURN.bytes && !isWasteful())) return
    isPaused = true
    pipe.pause()
  }

  /** Some lines, or what is there of one. */
  function takeOne(): boolean {
    const chunk = held.shift()
    if (chunk === undefined) return false
    const end = chunk.indexOf(NEWLINE, SLICE) + 1
    const isWhole = end === 0 || end === chunk.length
    // First, so that a reader that throws costs only what it threw at.
    if (!isWhole) held.unshift(chunk.subarray(end))
    const length = isWhole ? chunk.length : end
    bytes += length
    if (useless()) wasted.bytes += length
    take(isWhole ? chunk : chunk.subarray(0, end))
    return true
  }

  pipe.on('data', (chunk: Buffer) => {
    if (chunk.length <= SLICE && held.length === 0 && !isPaused && !useless()) return take(chunk)
    held.push(chunk)
    if (!isPaused) work()
  })

  return {
    get behind() {
      return isPaused || held.length > 0
    },
    finish() {
      while (takeOne());
    },
    stop() {
      held = []
    },
  }
}
