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

interface Made extends Ending {
  aborted: boolean
  reason: unknown
  controller: AbortController | undefined
  first: (() => void) | undefined
  others: Set<() => void> | undefined
}

// Shared by all: an object literal with a getter of its own costs a hidden class each time, which is freed late.
const shared: Pick<Ending, 'abort' | 'listen' | 'unlisten' | 'signal'> & ThisType<Made> = {
  abort(why) {
    if (this.aborted) return
    this.aborted = true
    this.reason = why
    const told = [...(this.first ? [this.first] : []), ...(this.others ?? [])]
    this.first = undefined
    this.others = undefined
    for (const fn of told) fn()
    this.controller?.abort(why)
  },
  listen(fn) {
    if (this.aborted) return
    if (this.first === undefined) this.first = fn
    else {
      this.others ??= new Set()
      this.others.add(fn)
    }
  },
  unlisten(fn) {
    if (this.first === fn) this.first = undefined
    else this.others?.delete(fn)
  },
  get signal() {
    if (!this.controller) {
      this.controller = new AbortController()
      if (this.aborted) this.controller.abort(this.reason)
    }
    return this.controller.signal
  },
}

export function createEnding(): Ending {
  const made = Object.create(shared) as Made
  made.aborted = false
  made.reason = undefined
  made.controller = undefined
  made.first = undefined
  made.others = undefined
  return made
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

/** A context whose signal nobody may ask for. */
export interface EndedContext extends CallContext {
  readonly ending: Ending
}
export const stopOf = (ctx: CallContext): Stop => (ctx as Partial<EndedContext>).ending ?? ctx.signal
