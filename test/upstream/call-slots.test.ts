import { expect, it } from 'vitest'
import { createSemaphore } from '../../src/core/semaphore.ts'
import { noRelay, type Relay } from '../../src/core/tool.ts'
import { withCallSlot } from '../../src/upstream/call-slots.ts'
import { createManualClock } from '../clock.ts'

const never = new AbortController().signal

function rig() {
  const clock = createManualClock()
  const slots = createSemaphore({ maxConcurrent: 1, maxQueued: 2, setting: 's' })
  const request = <T>(work: (relay: Relay) => Promise<T>, relay: Relay = noRelay, signal = never): Promise<T> =>
    withCallSlot({ slots, what: 'resources/read of a', relay, signal, timeoutMs: 1_000, clock }, work)
  return { clock, slots, request }
}

const settled = () => new Promise((resolve) => setImmediate(resolve))

it('a question releases its slot, and a finished call takes none back', async () => {
  const { slots, request } = rig()
  let answer = (_: unknown): void => undefined
  const relay = { ...noRelay, request: () => new Promise((resolve) => (answer = resolve)) }
  const asks = request(async ({ request }) => [await request?.('elicitation/create', {}), slots.running], relay)
  await settled()
  expect(slots.running).toBe(0)
  expect(await request(async () => slots.running)).toBe(1)
  answer('yes')
  expect(await asks).toEqual(['yes', 1])
  expect(slots.running).toBe(0)
  const ended = request(async ({ request }) => void request?.('elicitation/create', {}), relay)
  await ended
  answer('late')
  await settled()
  expect(slots.running).toBe(0)
})

it('a queued call ends when it is cancelled or times out', async () => {
  const { clock, slots, request } = rig()
  void request(() => new Promise(() => undefined))
  const given = new AbortController()
  const ends = [request(async () => 1, noRelay, given.signal), request(async () => 2)]
  const told = Promise.all(ends.map((end) => end.catch(({ code, message }) => [code, message])))
  await settled()
  given.abort()
  clock.pass(1_100)
  expect(await told).toEqual([
    ['E_CANCELLED', 'The call was cancelled.'],
    ['E_TIMEOUT', 'resources/read of a waited longer than 1000 ms for a free slot.'],
  ])
  expect([slots.running, slots.waiting]).toEqual([1, 0])
})
