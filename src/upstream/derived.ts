import { isSet } from 'node:util/types'

/**
 * Node keeps, with a signal, a weak reference to each that `AbortSignal.any` derived from it; Node 20 until that signal goes
 * itself. The SDK derives one for each request from that of the connection, which may last for weeks: those that nobody has
 * any more are taken out here. Where Node keeps none, nothing happens.
 * @returns how many are left
 */
export function forgetDerived(signal: AbortSignal): number {
  const name = Object.getOwnPropertySymbols(signal).find(({ description }) => description === 'kDependantSignals')
  const derived = name && (signal as unknown as Record<symbol, unknown>)[name]
  // Node's own kind of set, which inherits from nothing.
  if (!isSet(derived)) return 0
  for (const one of derived as Set<WeakRef<AbortSignal>>) if (one.deref() === undefined) derived.delete(one)
  return derived.size
}
