import { expect, it } from 'vitest'
import { type Caller, localCaller } from '../../src/core/caller.ts'
import { createInjectedTools } from '../../src/view/injected-tools.ts'
import { createManualClock } from '../clock.ts'

const session: Caller = { ...localCaller, session: 's1' }

it('tools are injected for a session, or for a principal and profile without one', () => {
  const injected = createInjectedTools(createManualClock())
  let told = 0
  injected.onChange(() => told++)
  expect(injected.add(session, ['a.x', 'b.y'])).toEqual(['a.x', 'b.y'])
  expect(injected.add(session, ['b.y'])).toEqual([])
  expect(injected.of(session)).toEqual(['a.x', 'b.y'])
  expect(injected.of({ ...session, session: 's2' })).toEqual([])
  expect(injected.of(localCaller)).toEqual([])
  expect(injected.clear(session)).toBe(2)
  expect([injected.of(session), told]).toEqual([[], 2])
})

it('expire after half an hour, with their session, and when a new answer begins', () => {
  const clock = createManualClock()
  const injected = createInjectedTools(clock)
  injected.add(session, ['a.x'])
  clock.pass(30 * 60_000)
  expect(injected.of(session)).toEqual([])
  injected.add(session, ['a.x'])
  injected.forget('s1')
  expect([injected.of(session), clock.waiting]).toEqual([[], 0])
  const turn = (generation: string): Caller => ({ ...session, turn: { generation } })
  injected.add(turn('g1'), ['a.x'])
  injected.clearIfNewAnswer(turn('g1'))
  injected.clearIfNewAnswer(session)
  expect(injected.of(session)).toEqual(['a.x'])
  injected.clearIfNewAnswer(turn('g2'))
  expect(injected.of(session)).toEqual([])
})

it('are the same in every process that serves the clients', () => {
  const ears: Array<(text: string) => void> = []
  const process = () => {
    const own: Array<(text: string) => void> = []
    return createInjectedTools(createManualClock(), {
      publish: (_topic, text) => {
        for (const hear of ears) if (!own.includes(hear)) hear(text)
      },
      subscribe: (_topic, hear) => {
        own.push(hear)
        ears.push(hear)
      },
    })
  }
  const [one, other] = [process(), process()]
  let changes = 0
  other.onChange(() => changes++)
  expect(one.add(localCaller, ['a.b', 'c.d'])).toEqual(['a.b', 'c.d'])
  expect([other.of(localCaller), changes]).toEqual([['a.b', 'c.d'], 1])
  expect(other.add(localCaller, ['c.d', 'e.f'])).toEqual(['e.f'])
  expect(one.of(localCaller)).toEqual(['a.b', 'c.d', 'e.f'])
  expect(one.clear(localCaller)).toBe(3)
  expect(other.of(localCaller)).toEqual([])
})
