import { expect, it } from 'vitest'
import { localCaller } from '../../../src/core/caller.ts'
import { silentLog } from '../../../src/core/log.ts'
import { subscribeToResources } from '../../../src/server/modern-2026/resource-subscriptions.ts'
import type { ServerHost } from '../../../src/server/server-host.ts'
import { createManualClock } from '../../clock.ts'

/** A host with one server that answers on request of the test. */
function rig() {
  const clock = createManualClock()
  const asked: string[] = []
  const answers = new Map<string, { yes(): void; no(): void }>()
  const request = (method: string, { uri }: Readonly<Record<string, unknown>>) =>
    new Promise<object>((resolve, reject) => {
      asked.push(`${method} ${uri}`)
      answers.set(String(uri), { yes: () => resolve({}), no: () => reject(new Error('no')) })
    })
  const uris = ['a://1', 'a://2', 'a://3']
  const owner = { id: 's', resources: uris.map((uri) => ({ uri })), templates: [], tools: [], endpoints: { request } }
  const host = { view: () => ({ owners: [owner] }), log: silentLog } as unknown as ServerHost
  return { clock, asked, answers, following: subscribeToResources(host, clock, localCaller, uris) }
}

const settled = () => new Promise((resolve) => setImmediate(resolve))

it('subscriptions are acknowledged when the last server has answered, or after 2 s', async () => {
  const { clock, answers, following } = rig()
  let begun: readonly string[] | undefined
  void following.acceptedUris.then((uris) => (begun = uris))
  answers.get('a://1')?.yes()
  answers.get('a://2')?.no()
  clock.pass(1_999)
  await settled()
  expect(begun).toBeUndefined()
  clock.pass(1)
  await settled()
  // The third may still arrive.
  expect(begun).toEqual(['a://1', 'a://3'])
})

it('does not keep a timer when all have answered', async () => {
  const { clock, answers, following } = rig()
  for (const { yes } of answers.values()) yes()
  expect(await following.acceptedUris).toEqual(['a://1', 'a://2', 'a://3'])
  expect(clock.waiting).toBe(0)
})

it('cancels only its own subscriptions, also when a server answers late', async () => {
  const { asked, answers, following } = rig()
  answers.get('a://1')?.yes()
  answers.get('a://2')?.no()
  following.stop()
  await settled()
  expect(asked.slice(3)).toEqual(['resources/unsubscribe a://1'])
  answers.get('a://3')?.yes()
  await settled()
  expect(asked.slice(3)).toEqual(['resources/unsubscribe a://1', 'resources/unsubscribe a://3'])
})
