/** Tracks which engines failed recently. An engine that was never used counts as healthy. */
export interface Health {
  isHealthy(address: string): boolean
  markFailed(address: string, ms: number): void
  /** Checks an engine, at most once per `ms`. */
  probe(address: string, ms: number, check: () => Promise<boolean>): Promise<boolean>
}

/** @param changed called when the result of `isUp` changes */
export function createHealth(changed: () => void, now: () => number = () => performance.now()): Health {
  const downUntil = new Map<string, number>()
  const probes = new Map<string, { readonly expiresAt: number; readonly answer: Promise<boolean> }>()

  const isHealthy = (address: string): boolean => (downUntil.get(address) ?? 0) <= now()
  function markFailed(address: string, ms: number): void {
    if (ms <= 0) return
    const wasHealthy = isHealthy(address)
    // An engine may have asked for a longer pause before.
    downUntil.set(address, Math.max(now() + ms, downUntil.get(address) ?? 0))
    if (wasHealthy) changed()
    setTimeout(() => {
      if (downUntil.has(address) && isHealthy(address) && downUntil.delete(address)) changed()
    }, ms + 1).unref()
  }
  return {
    isHealthy,
    markFailed,
    async probe(address, ms, check) {
      const cached = probes.get(address)
      if (cached && cached.expiresAt > now()) return await cached.answer
      const answer = check().catch(() => false)
      probes.set(address, { expiresAt: now() + ms, answer })
      return await answer
    },
  }
}
