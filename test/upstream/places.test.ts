import { expect, it } from 'vitest'
import { createSlots } from '../../src/core/slots.ts'
import { noRelay, type Relay } from '../../src/core/tool.ts'
import { inPlace } from '../../src/upstream/places.ts'
import { createManualClock } from '../clock.ts'

const never = new AbortController().signal

function rig() {
  const clock = createManualClock()
  const slots = createSlots({ maxConcurrent: 1, maxQueued: 2, setting: 's' })
  const request = <T>(work: (relay: Relay) => Promise<T>, relay: Relay = noRelay, signal = never): Promise<T> =>
    inPlace({ slots, what: 'resources/read of a', relay, signal, timeoutMs: 1_000, clock }, work)
  return { clock, slots, request }
}

const settled = () => new Promise((resolve) => setImmediate(resolve))

it('a question leaves its place to others, and what has ended meanwhile takes none again', async () => {
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

it('what waits in line ends when it is given up or when its time is over', async () => {
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
    ['E_TIMEOUT', 'resources/read of a got no place within 1000 ms.'],
  ])
  expect([slots.running, slots.waiting]).toEqual([1, 0])
})
