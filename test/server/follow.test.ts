import { expect, it } from 'vitest'
import { localCaller } from '../../src/core/context.ts'
import { silentLog } from '../../src/core/log.ts'
import { follow } from '../../src/server/follow.ts'
import type { ServerHost } from '../../src/server/host.ts'
import { createManualClock } from '../clock.ts'

/** A host of one server whose answers come when a test says so. */
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
  return { clock, asked, answers, following: follow(host, clock, localCaller, uris) }
}

const settled = () => new Promise((resolve) => setImmediate(resolve))

it('what is followed is known when the last server has answered, and one that hangs keeps nobody longer than 2 s', async () => {
  const { clock, answers, following } = rig()
  let begun: readonly string[] | undefined
  void following.begun.then((uris) => (begun = uris))
  answers.get('a://1')?.yes()
  answers.get('a://2')?.no()
  clock.pass(1_999)
  await settled()
  expect(begun).toBeUndefined()
  clock.pass(1)
  await settled()
  // The third may still be.
  expect(begun).toEqual(['a://1', 'a://3'])
})

it('does not hold the clock when all have answered', async () => {
  const { clock, answers, following } = rig()
  for (const { yes } of answers.values()) yes()
  expect(await following.begun).toEqual(['a://1', 'a://2', 'a://3'])
  expect(clock.waiting).toBe(0)
})

it('takes back what was said yes to, also when that comes late, and nothing else: others may follow it', async () => {
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
