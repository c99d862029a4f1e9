import { offEnd, onEnd, type Stop } from './ending.ts'
import { PegboardError } from './errors.ts'
import type { Capacity } from './tool.ts'

export interface Slots {
  /**
   * Takes a slot, waiting in line for one; whoever gives up leaves the line and gets the signal's reason.
   * @param who has a line of its own: those are served in turn, and where all places are taken the longest gives up its last
   * @throws PegboardError E_OVERLOADED when there is no place to wait
   */
  take(signal: Stop, who?: string): Promise<void> | undefined
  release(): void
  readonly running: number
  readonly waiting: number
  /** Goes on with a slot given up for a while, over the bound if need be: what has begun is not put in line again. */
  retake(): void
}

/**
 * Bounds how much runs at once. `take` answers `undefined`, without a promise, while there is room. First in, first out, for
 * each that waits.
 * @param setting named to whoever finds no place to wait
 */
export function createSlots({ maxConcurrent, maxQueued, setting }: Capacity): Slots {
  let running = 0
  let waiting = 0
  // In the order in which they are served next. A set keeps the order, and lets anybody leave from the middle at once.
  const lines = new Map<string, Set<Waiting>>()

  const full = (): PegboardError =>
    new PegboardError('E_OVERLOADED', `${running} calls are running and ${waiting} wait.`, {
      hint: `Try again later, or raise ${setting}.`,
      retryAfterMs: 1_000,
    })

  function leave(who: string, one: Waiting): void {
    const line = lines.get(who)
    if (!line?.delete(one)) return
    waiting--
    if (line.size === 0) lines.delete(who)
  }

  /** @throws PegboardError where nobody waits with more than this one would have */
  function makeRoom(who: string): void {
    let [longest, size] = ['', (lines.get(who)?.size ?? 0) + 1]
    for (const [name, line] of lines) if (line.size > size) [longest, size] = [name, line.size]
    const last = [...(lines.get(longest) ?? [])].at(-1)
    if (longest === who || !last) throw full()
    leave(longest, last)
    last.giveUp(full())
  }

  return {
    take(signal, who = '') {
      if (running < maxConcurrent) {
        running++
        return undefined
      }
      if (waiting >= maxQueued) makeRoom(who)
      if (signal.aborted) return Promise.reject(signal.reason)
      return new Promise((resolve, reject) => {
        const gone = (): void => {
          leave(who, one)
          reject(signal.reason)
        }
        const one: Waiting = {
          enter() {
            offEnd(signal, gone)
            resolve()
          },
          giveUp(error) {
            offEnd(signal, gone)
            reject(error)
          },
        }
        onEnd(signal, gone)
        const line = lines.get(who) ?? new Set()
        lines.set(who, line.add(one))
        waiting++
      })
    },
    retake: () => void running++,
    get running() {
      return running
    },
    get waiting() {
      return waiting
    },
    release() {
      // What was retaken over the bound makes way first.
      const next = running > maxConcurrent ? undefined : lines.entries().next().value
      if (!next) return void running--
      const [who, line] = next
      const [one] = line as ReadonlySet<Waiting>
      leave(who, one as Waiting)
      // Whoever was served is last.
      if (lines.delete(who)) lines.set(who, line)
      one?.enter()
    },
  }
}

const places = new WeakMap<Capacity, Slots>()

/** The places of everything that shares this object. */
export function slotsOf(capacity: Capacity): Slots {
  let own = places.get(capacity)
  if (!own) {
    own = createSlots(capacity)
    places.set(capacity, own)
  }
  return own
}

/** One call in a line. */
interface Waiting {
  enter(): void
  giveUp(error: PegboardError): void
}
