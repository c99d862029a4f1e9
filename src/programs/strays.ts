import { type Descendants, type Marked, marked, soonMarked } from './descendants.ts'

/** Who is left of programs that ended. All who ask at about the same time are told by one look at all processes. */
export interface Strays {
  /** Those that have the mark. */
  of(mark: string): Promise<Descendants>
  /** The same in this turn of the loop, which is long. */
  now(mark: string): Descendants
}

/** From the end of a look to the next: programs that fail may end many times a second. */
const PAUSE_MS = 100
const NOBODY: Descendants = new Map()

export function createStrays(platform: string): Strays {
  let next: Promise<Marked> | undefined
  let rest: Promise<void> = Promise.resolve()
  let timer: NodeJS.Timeout | undefined

  /** One that begins after it was asked for. */
  function look(): Promise<Marked> {
    // Somebody waits for the end of the pause now.
    timer?.ref()
    next ??= rest.then(() => {
      next = undefined
      const found = soonMarked(platform)
      rest = found.then(pause, pause)
      return found
    })
    return next
  }

  const pause = (): Promise<void> =>
    new Promise((resolve) => {
      timer = setTimeout(resolve, PAUSE_MS)
      if (!next) timer.unref()
    })

  return {
    of: async (mark) => (await look()).get(mark) ?? NOBODY,
    now: (mark) => marked(platform).get(mark) ?? NOBODY,
  }
}
