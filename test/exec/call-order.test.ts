import { expect, it } from 'vitest'
import { localCaller } from '../../src/core/caller.ts'
import { createCallOrder } from '../../src/exec/call-order.ts'
import { createManualClock } from '../clock.ts'

it('knows tools that a principal called one after the other twice, in one session', () => {
  const clock = createManualClock()
  const order = createCallOrder(clock)
  const ann = { ...localCaller, principal: 'ann', session: 's1' }
  for (const tool of ['git.add', 'git.commit', 'git.push', 'git.add', 'git.commit']) order.add(ann, tool)
  expect(order.around('ann', 'git.commit')).toEqual({ before: ['git.add'], after: [] })
  expect(order.around('ann', 'git.add')).toEqual({ before: [], after: ['git.commit'] })
  expect(order.around('bob', 'git.commit')).toEqual({ before: [], after: [] })
})

it('does not connect calls of two sessions, or calls that are ten minutes apart', () => {
  const clock = createManualClock()
  const order = createCallOrder(clock)
  const one = { ...localCaller, session: 's1' }
  const two = { ...localCaller, session: 's2' }
  for (let n = 0; n < 3; n++) {
    order.add(one, 'git.add')
    order.add(two, 'git.commit')
    clock.pass(11 * 60_000)
    order.add(one, 'git.push')
    clock.pass(11 * 60_000)
  }
  for (const tool of ['git.add', 'git.commit', 'git.push'])
    expect(order.around(localCaller.principal, tool)).toEqual({ before: [], after: [] })
})
