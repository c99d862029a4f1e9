import { linkAbort } from '../core/abort.ts'
import type { Clock } from '../core/clock.ts'
import { createCountdown } from '../core/countdown.ts'
import { PegboardError } from '../core/errors.ts'
import { createHeldSlots } from '../core/held-slots.ts'
import type { Semaphore } from '../core/semaphore.ts'
import type { Relay } from '../core/tool.ts'
import { abortReason } from './error-reasons.ts'

export interface CallSlotRequest {
  readonly slots: Semaphore
  /** Purpose, named in messages. */
  readonly what: string
  readonly relay: Relay
  readonly signal: AbortSignal
  /** Maximum time in the queue. */
  readonly timeoutMs: number
  readonly clock: Clock
}

/**
 * Makes a request that is not a tool call (a read, a prompt, a completion) in one of the call slots of its server. Waits
 * for a slot if necessary. Tool calls take theirs in `src/exec/tool-calls.ts`.
 * @param work gets a relay that releases the slot while the client is asked something, because people take long
 * @throws PegboardError E_OVERLOADED, E_TIMEOUT, E_CANCELLED if it never got a slot
 */
export async function withCallSlot<Result>(
  request: CallSlotRequest,
  work: (relay: Relay) => Promise<Result>,
): Promise<Result> {
  const { slots, relay } = request
  await acquireSlot(request)
  const heldSlots = createHeldSlots(relay.principal)
  heldSlots.add(slots)
  const send = relay.request
  const pausingRelay: Relay = send
    ? {
        ...relay,
        // Keeps the original connection, because this function is a new object for every request.
        connection: relay.connection ?? send,
        request: (...question) => send(...question).finally(heldSlots.pause()),
      }
    : relay
  try {
    return await work(pausingRelay)
  } finally {
    heldSlots.release()
  }
}

async function acquireSlot({ slots, what, relay, signal, timeoutMs, clock }: CallSlotRequest): Promise<void> {
  const stop = new AbortController()
  const wait = slots.acquire(stop.signal, relay.principal)
  if (!wait) return
  const unlink = linkAbort(signal, stop)
  const limit = createCountdown(
    timeoutMs,
    () => stop.abort(new PegboardError('E_TIMEOUT', `${what} waited longer than ${timeoutMs} ms for a free slot.`)),
    clock,
  )
  try {
    await wait
  } catch (error) {
    throw signal.aborted ? abortReason(signal) : error
  } finally {
    limit.stop()
    unlink()
  }
}
