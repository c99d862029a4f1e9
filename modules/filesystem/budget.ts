/** So long a folder or tree is looked at; then what was found is the answer. */
const BUDGET_MS = 4_000

export interface Budget {
  /** Aborted by the caller, or when the time is over. */
  readonly signal: AbortSignal
  /** Does work until the time is over. @returns whether it was cut short */
  spend(work: (signal: AbortSignal) => Promise<void>): Promise<boolean>
}

export function createBudget(caller: AbortSignal, ms = BUDGET_MS): Budget {
  const late = AbortSignal.timeout(Math.max(0, Math.floor(ms)))
  const signal = AbortSignal.any([caller, late])
  return {
    signal,
    async spend(work) {
      try {
        await work(signal)
        return false
      } catch (error) {
        caller.throwIfAborted()
        if (!late.aborted) throw error
        return true
      }
    },
  }
}
