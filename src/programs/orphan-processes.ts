import { type Descendants, findMarked, findMarkedInTurns, type ProcessesByMark } from './descendants.ts'

/**
 * Finds processes that outlive the program that started them. Requests at about the same time share one scan of all
 * processes.
 */
export type OrphanProcesses = ReturnType<typeof createOrphanProcesses>

/** Minimum time between scans, because failing programs may end many times a second. */
const PAUSE_MS = 100
const NOBODY: Descendants = new Map()

export function createOrphanProcesses(platform: string) {
  let next: Promise<ProcessesByMark> | undefined
  let rest: Promise<void> = Promise.resolve()
  let timer: NodeJS.Timeout | undefined

  /** A scan that begins after the request. */
  function look(): Promise<ProcessesByMark> {
    // A caller is waiting for the end of the pause.
    timer?.ref()
    next ??= rest.then(() => {
      next = undefined
      const found = findMarkedInTurns(platform)
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
    /** The processes with this mark. */
    of: async (mark: string): Promise<Descendants> => (await look()).get(mark) ?? NOBODY,
    /** The same, synchronously; blocks for long. */
    now: (mark: string): Descendants => findMarked(platform).get(mark) ?? NOBODY,
  }
}
