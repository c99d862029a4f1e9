import { expect, it } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { silentLog } from '../../src/core/log.ts'
import { semaphoreOf } from '../../src/core/semaphore.ts'
import { noRelay } from '../../src/core/tool.ts'
import type { Connection } from '../../src/upstream/connection.ts'
import { createTimestamps } from '../../src/upstream/resource-claims.ts'
import { createEndpoints } from '../../src/upstream/server-endpoints.ts'

/** A server that answers on request of the test. */
function rig() {
  const asked: string[] = []
  const answers: Array<{ yes(): void; no(): void }> = []
  const request = (method: string, { uri }: Readonly<Record<string, unknown>>) =>
    new Promise<Readonly<Record<string, unknown>>>((resolve, reject) => {
      asked.push(`${method} ${uri}`)
      answers.push({ yes: () => resolve({}), no: () => reject(new Error('no room')) })
    })
  const capabilities = { resources: { subscribe: true } }
  const endpoints = createEndpoints({
    id: 's',
    shared: { clock: systemClock, timestamps: createTimestamps(systemClock) },
    timeoutMs: () => 1_000,
    log: silentLog,
    ready: async () => ({ era: 'legacy', capabilities, request }) as unknown as Connection,
    live: () => undefined,
    keyOf: () => '',
    request,
    slots: () => semaphoreOf({ maxConcurrent: 8, maxQueued: 8, setting: 's.maxQueued' }),
    tasks: {},
    hasTasks: () => false,
    claims: { since: () => undefined, names: () => [] },
    promptNamed: (name) => name,
  })
  const ask = (method: string) => endpoints.request(method, { uri: 'a://1' }, noRelay, new AbortController().signal)
  return { asked, answers, endpoints, ask }
}

const settled = () => new Promise((resolve) => setImmediate(resolve))

it('concurrent subscribers to a resource share one request and its answer', async () => {
  const { asked, answers, endpoints, ask } = rig()
  const told: string[] = []
  const both = () =>
    [1, 2].map((n) =>
      ask('resources/subscribe').then(
        () => told.push(`${n} yes`),
        ({ message }) => told.push(`${n} ${message}`),
      ),
    )
  const first = both()
  await settled()
  expect([asked, told]).toEqual([['resources/subscribe a://1'], []])
  answers[0]?.no()
  await Promise.all(first)
  expect([told, endpoints.follows('')]).toEqual([['1 no room', '2 no room'], false])
  told.length = 0
  const second = both()
  await settled()
  answers[1]?.yes()
  await Promise.all(second)
  expect([asked.length, told]).toEqual([2, ['1 yes', '2 yes']])
  await ask('resources/unsubscribe')
  expect([asked.length, endpoints.follows('')]).toEqual([2, true])
  const last = ask('resources/unsubscribe')
  await settled()
  answers[2]?.yes()
  await last
  expect([asked[2], endpoints.follows('')]).toEqual(['resources/unsubscribe a://1', false])
})
