/** Time limit for scanning a folder or tree; results so far are returned then. */
const BUDGET_MS = 4_000

export interface Budget {
  /** Aborted by the caller or by the time limit. */
  readonly signal: AbortSignal
  /** Runs work within the time limit. @returns whether it was cut short */
  spend(work: (signal: AbortSignal) => Promise<void>): Promise<boolean>
}

export function createBudget(caller: AbortSignal, ms = BUDGET_MS): Budget {
  const timeLimit = AbortSignal.timeout(Math.max(0, Math.floor(ms)))
  const signal = AbortSignal.any([caller, timeLimit])
  return {
    signal,
    async spend(work) {
      try {
        await work(signal)
        return false
      } catch (error) {
        caller.throwIfAborted()
        if (!timeLimit.aborted) throw error
        return true
      }
    },
  }
}
