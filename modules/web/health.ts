/** Tracks which engines failed recently. An engine that was never used counts as healthy. */
export interface Health {
  isUp(address: string): boolean
  failed(address: string, ms: number): void
  /** Checks an engine, at most once per `ms`. */
  probe(address: string, ms: number, ask: () => Promise<boolean>): Promise<boolean>
}

/** @param changed called when the result of `isUp` changes */
export function createHealth(changed: () => void, now: () => number = () => performance.now()): Health {
  const down = new Map<string, number>()
  const probes = new Map<string, { readonly until: number; readonly answer: Promise<boolean> }>()

  const isUp = (address: string): boolean => (down.get(address) ?? 0) <= now()
  function failed(address: string, ms: number): void {
    if (ms <= 0) return
    const wasUp = isUp(address)
    // An engine may have asked for a longer pause before.
    down.set(address, Math.max(now() + ms, down.get(address) ?? 0))
    if (wasUp) changed()
    setTimeout(() => {
      if (down.has(address) && isUp(address) && down.delete(address)) changed()
    }, ms + 1).unref()
  }
  return {
    isUp,
    failed,
    async probe(address, ms, ask) {
      const cached = probes.get(address)
      if (cached && cached.until > now()) return await cached.answer
      const answer = ask().catch(() => false)
      probes.set(address, { until: now() + ms, answer })
      return await answer
    },
  }
}
