import { createHash, createHmac } from 'node:crypto'
import { toCanonicalJson } from '../core/canonical.ts'
import type { Clock } from '../core/clock.ts'
import { equalsInConstantTime } from '../core/equals-in-constant-time.ts'
import type { InputCount } from '../core/server-requests.ts'

export interface SealedState extends InputCount {
  /** The state of the server, unchanged. */
  readonly inner?: unknown
  /** A call that waits for answers, and its round of questions. */
  readonly parked?: readonly [id: string, round: number]
  /** The call starts again, without its answers. */
  readonly again?: true
}

/** The request that a state belongs to. */
export interface StateBinding {
  readonly principal: string
  readonly method: string
  /** Name or URI, arguments and whatever else makes it this request. */
  readonly params: unknown
}

/**
 * Signs states, so that a client can return them but use them for no other request.
 * @param key called once, when first needed
 */
export function createSeal(key: () => Buffer, clock: Clock) {
  let cachedKey: Buffer | undefined
  const sign = (binding: StateBinding, payload: string): string => {
    cachedKey ??= key()
    const request = createHash('sha256')
      .update(toCanonicalJson([binding.principal, binding.method, binding.params]))
      .digest()
    return createHmac('sha256', cachedKey)
      .update('pegboard-state-1\0')
      .update(request)
      .update(payload)
      .digest('base64url')
  }
  return {
    seal(binding: StateBinding, state: SealedState, ttlMs: number): string {
      const payload = Buffer.from(JSON.stringify({ ...state, until: clock.now() + ttlMs })).toString('base64url')
      return `${payload}.${sign(binding, payload)}`
    },
    /** Undefined if it was changed, has expired, or belongs to another request or principal. */
    open(binding: StateBinding, text: unknown): SealedState | undefined {
      if (typeof text !== 'string') return undefined
      const [payload = '', signature = '', ...rest] = text.split('.')
      // Compared as text: decoding ignores trailing bits, so a changed last character would pass.
      if (rest.length > 0 || !equalsInConstantTime(signature, sign(binding, payload))) return undefined
      const { until, ...state } = JSON.parse(Buffer.from(payload, 'base64url').toString()) as SealedState & {
        until: number
      }
      return until > clock.now() ? state : undefined
    },
  }
}
