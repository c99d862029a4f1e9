import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import { canonical } from '../core/canonical.ts'
import type { Clock } from '../core/clock.ts'

/** What a sealed state stands for. */
export interface Sealed {
  /** The state of the server behind us, as it gave it. */
  readonly inner?: unknown
  /** A call that waits with us for answers, and which round of questions it is in. */
  readonly parked?: readonly [id: string, round: number]
  /** The same call is simply to be made once more. */
  readonly again?: true
}

/** Whose request a state belongs to, and which. */
export interface Binding {
  readonly principal: string
  readonly method: string
  /** Name or URI, arguments and whatever else makes it this request. */
  readonly params: unknown
}

/** Seals a state to one request of one principal, for a time. A client can carry it, not use it for anything else. */
export interface Seal {
  seal(binding: Binding, state: Sealed, ttlMs: number): string
  /** `undefined` for one that was altered, has expired or belongs to another request or principal. */
  open(binding: Binding, text: unknown): Sealed | undefined
}

/** @param key read when first needed */
export function createSeal(key: () => Buffer, clock: Clock): Seal {
  let known: Buffer | undefined
  const mark = (binding: Binding, payload: string): Buffer => {
    known ??= key()
    const request = createHash('sha256')
      .update(canonical([binding.principal, binding.method, binding.params]))
      .digest()
    return createHmac('sha256', known).update('pegboard-state-1\0').update(request).update(payload).digest()
  }
  return {
    seal(binding, state, ttlMs) {
      const payload = Buffer.from(JSON.stringify({ ...state, until: clock.now() + ttlMs })).toString('base64url')
      return `${payload}.${mark(binding, payload).toString('base64url')}`
    },
    open(binding, text) {
      if (typeof text !== 'string') return undefined
      const [payload = '', given = '', ...rest] = text.split('.')
      const right = mark(binding, payload)
      const bytes = Buffer.from(given, 'base64url')
      // Decoding ignores bits that belong to no byte: a changed last letter must not pass.
      if (rest.length > 0 || bytes.toString('base64url') !== given) return undefined
      if (bytes.length !== right.length || !timingSafeEqual(bytes, right)) return undefined
      const { until, ...state } = JSON.parse(Buffer.from(payload, 'base64url').toString()) as Sealed & { until: number }
      return until > clock.now() ? state : undefined
    },
  }
}
