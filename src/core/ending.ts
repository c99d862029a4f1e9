import type { CallContext } from './context.ts'

/** Says that something is to end, as an `AbortSignal` or as what stands in for one. */
export type Stop = AbortSignal | Ending

/**
 * What an `AbortController` is, for calls, of which few are aborted: the signal is made when somebody asks for it. A
 * signal with a listener costs more than the rest of a call, most of it when memory is cleaned up.
 */
export interface Ending {
  readonly aborted: boolean
  readonly reason: unknown
  /** Only the first reason counts. */
  abort(reason: unknown): void
  /** Calls `fn` when it is aborted. One that is already is not told again. */
  listen(fn: () => void): void
  unlisten(fn: () => void): void
  /** The same for those who take nothing else. */
  readonly signal: AbortSignal
}

export function createEnding(): Ending {
  let controller: AbortController | undefined
  let first: (() => void) | undefined
  let others: Set<() => void> | undefined
  let aborted = false
  let reason: unknown
  return {
    get aborted() {
      return aborted
    },
    get reason() {
      return reason
    },
    abort(why) {
      if (aborted) return
      aborted = true
      reason = why
      const told = [...(first ? [first] : []), ...(others ?? [])]
      first = undefined
      others = undefined
      for (const fn of told) fn()
      controller?.abort(why)
    },
    listen(fn) {
      if (aborted) return
      if (first === undefined) first = fn
      else {
        others ??= new Set()
        others.add(fn)
      }
    },
    unlisten(fn) {
      if (first === fn) first = undefined
      else others?.delete(fn)
    },
    get signal() {
      if (!controller) {
        controller = new AbortController()
        if (aborted) controller.abort(reason)
      }
      return controller.signal
    },
  }
}

/** Calls `fn` once when it ends; the other of the pair takes that back. */
export function onEnd(stop: Stop, fn: () => void): void {
  if ('listen' in stop) stop.listen(fn)
  else stop.addEventListener('abort', fn, { once: true })
}
export function offEnd(stop: Stop, fn: () => void): void {
  if ('listen' in stop) stop.unlisten(fn)
  else stop.removeEventListener('abort', fn)
}

// Modules get a signal; that there is something lighter behind it is between the call path and the servers.
const ENDING = Symbol('ending')

export const withEnding = (ctx: CallContext, ending: Ending): CallContext => {
  ;(ctx as { [ENDING]?: Ending })[ENDING] = ending
  return ctx
}
export const stopOf = (ctx: CallContext): Stop => (ctx as { readonly [ENDING]?: Ending })[ENDING] ?? ctx.signal
