import { isSet } from 'node:util/types'

/** How many signals Node remembers that were derived from one; Node 20 forgets none before that one goes. */
export function derivedFrom(signal: AbortSignal): number {
  const name = Object.getOwnPropertySymbols(signal).find(({ description }) => description === 'kDependantSignals')
  const derived = name && (signal as unknown as Record<symbol, unknown>)[name]
  // Node's own kind of set, which inherits from nothing.
  return isSet(derived) ? derived.size : 0
}
