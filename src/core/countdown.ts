import { type Clock, systemClock, ticksOf } from './clock.ts'

/** A time limit that stands still while somebody else's time passes. */
export interface Countdown {
  /** Stops the clock until the returned function is called as often as this was. */
  pause(): () => void
  /** Ends it without firing. */
  stop(): void
}

/** One limit that runs, in the line of those that began before and after it with the same time. */
interface Running {
  readonly due: number
  readonly end: () => void
  before: Running | undefined
  after: Running | undefined
}

/** Limits of one length, in the order they end: one timer serves them all, and goes on when nobody is left to be served. */
interface Line {
  first: Running | undefined
  last: Running | undefined
}

const lines = new WeakMap<Clock, Map<number, Line>>()

function lineOf(clock: Clock, ms: number): Line {
  let own = lines.get(clock)
  if (!own) {
    own = new Map()
    lines.set(clock, own)
  }
  let line = own.get(ms)
  if (!line) {
    line = { first: undefined, last: undefined }
    own.set(ms, line)
    watch(clock, ms, ms, line)
  }
  return line
}

function watch(clock: Clock, ms: number, waitMs: number, line: Line): void {
  clock.after(waitMs, () => {
    const now = ticksOf(clock)
    while (line.first && line.first.due <= now) {
      const { first } = line
      leave(line, first)
      first.end()
    }
    if (line.first) watch(clock, ms, Math.max(1, line.first.due - now), line)
    else lines.get(clock)?.delete(ms)
  })
}

function leave(line: Line, one: Running): void {
  const { before, after } = one
  if (before) before.after = after
  else if (line.first === one) line.first = after
  else return
  if (after) after.before = before
  else line.last = before
  // What has gone must not hold what has not.
  one.before = undefined
  one.after = undefined
}

/** Calls `fire` once, after `ms` milliseconds that were not paused. Costs no timer of its own: most never fire. */
export function createCountdown(ms: number, fire: () => void, clock: Clock = systemClock): Countdown {
  const line = lineOf(clock, ms)
  let since = ticksOf(clock)
  let left = ms
  let paused = 0
  let over = false
  const end = (): void => {
    over = true
    fire()
  }
  const running: Running = { due: since + ms, end, before: line.last, after: undefined }
  if (line.last) line.last.after = running
  else line.first = running
  line.last = running
  let cancel: (() => void) | undefined
  return {
    pause() {
      if (paused++ === 0) {
        leave(line, running)
        cancel?.()
        left -= ticksOf(clock) - since
      }
      let resumed = false
      return () => {
        if (resumed) return
        resumed = true
        if (--paused > 0 || over) return
        since = ticksOf(clock)
        cancel = clock.after(Math.max(0, left), end)
      }
    },
    stop() {
      over = true
      leave(line, running)
      cancel?.()
    },
  }
}
