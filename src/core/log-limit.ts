import { type Clock, ticksOf } from './clock.ts'

/** Limits how often a problem that lasts is logged: when it begins, and then once in each interval. */
export function createLogLimit(clock: Clock, intervalMs: number) {
  /** Oldest first. */
  const loggedAt = new Map<string, number>()
  return {
    /** True if the problem should be logged now. */
    isDue(problem: string): boolean {
      const now = ticksOf(clock)
      for (const [one, at] of loggedAt) {
        if (now - at < intervalMs) break
        loggedAt.delete(one)
      }
      if (loggedAt.has(problem)) return false
      loggedAt.set(problem, now)
      return true
    },
    /** The problem is over. Returns true if it was logged. */
    end: (problem: string): boolean => loggedAt.delete(problem),
  }
}
