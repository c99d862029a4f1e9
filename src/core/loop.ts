/** The rounds of tool calls of one conversation, as the tools called in it see them: one that needs more asks here. */
export interface ToolLoop {
  /** Rounds that may be used. */
  readonly limit: number
  /** Rounds begun so far, the one that runs now included. */
  readonly used: number
  /** What `limit` can become at most. */
  readonly max: number
  /**
   * Raises the limit by `rounds`, as far as one extension and `max` allow.
   * @returns by how many it was raised; 0 when nothing is left, or `rounds` is not a positive number
   */
  extend(rounds: number): number
}

export interface RoundLimits {
  /** Rounds without any extension; default 4. */
  readonly rounds?: number
  /** The most one extension adds; default 10. */
  readonly maxExtension?: number
  /** The most there can ever be; default 32. */
  readonly max?: number
}

/** A loop and the right to begin its rounds, which tools do not have. */
export interface OwnedLoop {
  readonly loop: ToolLoop
  /** False when no round is left. */
  begin(): boolean
}

export function createToolLoop(limits: RoundLimits = {}): OwnedLoop {
  const { rounds = 4, maxExtension = 10 } = limits
  const max = Math.max(rounds, limits.max ?? 32)
  let limit = rounds
  let used = 0
  return {
    loop: {
      get limit() {
        return limit
      },
      get used() {
        return used
      },
      max,
      extend(wanted) {
        const added = Math.max(0, Math.min(Math.floor(wanted) || 0, maxExtension, max - limit))
        limit += added
        return added
      },
    },
    begin() {
      if (used >= limit) return false
      used++
      return true
    },
  }
}
