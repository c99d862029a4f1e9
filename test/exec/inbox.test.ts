import { expect, it } from 'vitest'
import { localCaller } from '../../src/core/caller.ts'
import { silentLog } from '../../src/core/log.ts'
import { createInbox } from '../../src/exec/inbox.ts'
import { lastingOwner } from '../../src/exec/task-owner.ts'
import { createMemoryStore } from '../../src/state/memory-store.ts'
import { createManualClock } from '../clock.ts'

const owner = lastingOwner(localCaller)
const turn = () => new Promise((done) => setImmediate(done))

function rig() {
  const clock = createManualClock()
  const store = createMemoryStore(clock)
  const inbox = createInbox(
    { store: () => store, publish: () => undefined, subscribe: () => undefined, onReconnect: () => undefined },
    clock,
    silentLog,
  )
  return { inbox, store }
}

it('keeps the latest thousand unread lines', async () => {
  const { inbox, store } = rig()
  for (let n = 0; n < 1_500; n++) {
    inbox.add(owner, `line ${n}`)
    if (n % 100 === 0) await turn()
  }
  await turn()
  expect(await store.table('notice').count(owner)).toBeLessThanOrEqual(1_050)
  const lines = await inbox.take(localCaller)
  expect([lines.length, lines[0], lines.at(-1)]).toEqual([1_000, 'line 500', 'line 1499'])
  expect([await inbox.take(localCaller), inbox.has(localCaller)]).toEqual([[], false])
})

it('returns a limited number of lines, and says how many are left', async () => {
  const { inbox } = rig()
  for (let n = 0; n < 5; n++) inbox.add(owner, `line ${n}`)
  await turn()
  expect(await inbox.take(localCaller, 2)).toEqual(['line 0', 'line 1', '3 more: read notifications://inbox.'])
  expect(await inbox.take(localCaller, 3)).toEqual(['line 2', 'line 3', 'line 4'])
  expect(inbox.has(localCaller)).toBe(false)
})

it('shortens a long line', async () => {
  const { inbox } = rig()
  inbox.add(owner, 'x'.repeat(3_000))
  await turn()
  expect((await inbox.take(localCaller))[0]).toHaveLength(2_000)
})
