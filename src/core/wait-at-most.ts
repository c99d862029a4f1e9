import { type Clock, systemClock } from './clock.ts'

/**
 * Waits for work, at most `ms` milliseconds.
 * @param late gives the result after that time, or throws; default: the result is `undefined`
 * @param clock default: the clock of the system, whose timers do not keep the process alive
 */
export async function waitAtMost<T, Late = undefined>(
  ms: number,
  work: Promise<T>,
  late: () => Late = () => undefined as Late,
  clock: Clock = systemClock,
): Promise<T | Late> {
  let cancel = (): void => undefined
  const passed = new Promise<void>((resolve) => {
    cancel = clock.after(ms, resolve)
  })
  try {
    return await Promise.race([work, passed.then(late)])
  } finally {
    cancel()
  }
}
