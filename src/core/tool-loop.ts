/** The rounds of tool calls of one conversation. A tool that needs more rounds calls `extend`. */
export interface ToolLoop {
  /** Number of rounds that may be used. */
  readonly limit: number
  /** Number of started rounds, including the current one. */
  readonly used: number
  /** Maximum that `limit` can reach. */
  readonly max: number
  /**
   * Raises the limit, as far as one extension and `max` allow.
   * @returns by how much it was raised; 0 if nothing is left or `rounds` is not a positive number
   */
  extend(rounds: number): number
}

export interface RoundLimits {
  /** Initial rounds; default 4. */
  readonly rounds?: number
  /** Maximum per extension; default 10. */
  readonly maxExtension?: number
  /** Maximum in total; default 32. */
  readonly max?: number
}

/** The loop for its owner, who may begin rounds. Tools get only `loop`. */
export interface OwnedLoop {
  readonly loop: ToolLoop
  /** Begins a round; false if none is left. */
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
      extend(requestedRounds) {
        const added = Math.max(0, Math.min(Math.floor(requestedRounds) || 0, maxExtension, max - limit))
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
