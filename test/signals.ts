import { isSet } from 'node:util/types'

/** How many derived signals Node remembers for a signal; Node 20 forgets none before the source is gone. */
export function derivedFrom(signal: AbortSignal): number {
  const name = Object.getOwnPropertySymbols(signal).find(({ description }) => description === 'kDependantSignals')
  const derived = name && (signal as unknown as Record<symbol, unknown>)[name]
  // Node's internal set class, which inherits from nothing.
  return isSet(derived) ? derived.size : 0
}
