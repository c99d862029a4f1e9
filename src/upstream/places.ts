import type { Clock } from '../core/clock.ts'
import { createCountdown } from '../core/countdown.ts'
import { createEnding } from '../core/ending.ts'
import { isPegboardError, PegboardError } from '../core/errors.ts'
import type { Slots } from '../core/slots.ts'
import type { Relay } from '../core/tool.ts'

export interface PlaceWanted {
  readonly slots: Slots
  /** What it is for, in messages. */
  readonly what: string
  readonly relay: Relay
  readonly signal: AbortSignal
  /** How long it may wait in line. */
  readonly timeoutMs: number
  readonly clock: Clock
}

/**
 * Makes a request in one of the places that calls of the same server have, waiting in their line.
 * @param work gets a relay whose questions are asked without holding the place: a person takes long
 * @throws PegboardError E_OVERLOADED, E_TIMEOUT, E_CANCELLED where it never came to it
 */
export async function inPlace<Result>(wanted: PlaceWanted, work: (relay: Relay) => Promise<Result>): Promise<Result> {
  const { slots, relay } = wanted
  await entered(wanted)
  let away = 0
  let over = false
  const send = relay.request
  const asking: Relay = send
    ? {
        ...relay,
        // Whose it is must stay known: this function is another for every request.
        connection: relay.connection ?? send,
        async request(...question) {
          if (away++ === 0) slots.release()
          try {
            return await send(...question)
          } finally {
            if (--away === 0 && !over) slots.retake()
          }
        },
      }
    : relay
  try {
    return await work(asking)
  } finally {
    over = true
    if (away === 0) slots.release()
  }
}

async function entered({ slots, what, relay, signal, timeoutMs, clock }: PlaceWanted): Promise<void> {
  const ending = createEnding()
  const wait = slots.take(ending, relay.principal)
  if (!wait) return
  const gone = (): void =>
    ending.abort(
      isPegboardError(signal.reason) ? signal.reason : new PegboardError('E_CANCELLED', 'The call was cancelled.'),
    )
  const limit = createCountdown(
    timeoutMs,
    () => ending.abort(new PegboardError('E_TIMEOUT', `${what} got no place within ${timeoutMs} ms.`)),
    clock,
  )
  signal.addEventListener('abort', gone, { once: true })
  if (signal.aborted) gone()
  try {
    await wait
  } finally {
    limit.stop()
    signal.removeEventListener('abort', gone)
  }
}
