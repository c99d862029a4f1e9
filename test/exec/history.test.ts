import { describe, expect, it } from 'vitest'
import { epochMs } from '../../src/core/clock.ts'
import { localCaller } from '../../src/core/context.ts'
import { createHistory } from '../../src/exec/history.ts'

const ada = { ...localCaller, principal: 'ada', session: 's1' }

describe('what ran', () => {
  it('is kept in order with its outcome and the shape of its arguments, and none of their values', () => {
    const history = createHistory()
    history.add(
      'm.a',
      ada,
      { path: '/secret', n: 1, list: [1], none: null, on: true },
      { id: 'c1' },
      10,
      2.4,
      undefined,
    )
    history.add('m.b', ada, {}, { id: undefined }, 20, 1, 'E_TIMEOUT')
    const at = Math.round(epochMs(10))
    expect(history.latest(10, ada)).toEqual([
      {
        callId: 'c1',
        tool: 'm.a',
        ok: true,
        at,
        ms: 2,
        principal: 'ada',
        profile: 'default',
        session: 's1',
        arguments: 'path: string, n: number, list: array, none: null, on: boolean',
      },
      {
        callId: expect.stringMatching(/^[0-9a-f-]{36}$/),
        tool: 'm.b',
        ok: false,
        code: 'E_TIMEOUT',
        at: at + 10,
        ms: 1,
        principal: 'ada',
        profile: 'default',
        session: 's1',
        arguments: '',
      },
    ])
  })

  it('has a name that stays the same for what is asked twice', () => {
    const history = createHistory()
    history.add('m.a', ada, {}, { id: undefined }, 0, 1, undefined)
    expect(history.latest(1, ada)).toEqual(history.latest(1, ada))
  })

  it('is the last thousand runs, and each principal and session sees its own', () => {
    const history = createHistory()
    for (let n = 0; n < 1_500; n++)
      history.add(`m.t${n}`, n % 3 === 0 ? ada : localCaller, {}, { id: `${n}` }, n, 1, undefined)
    const all = history.latest(5_000, { principal: 'ada' })
    expect([all.length, all[0]?.tool, all.at(-1)?.tool]).toEqual([333, 'm.t501', 'm.t1497'])
    expect(history.latest(2, { principal: 'local' }).map(({ tool }) => tool)).toEqual(['m.t1498', 'm.t1499'])
    expect(history.latest(2, { principal: 'ada', session: 's2' })).toEqual([])
  })

  it('says little of many arguments', () => {
    const history = createHistory()
    const many = Object.fromEntries(Array.from({ length: 50 }, (_, n) => [`${'k'.repeat(60)}${n}`, n]))
    history.add('m.a', ada, many, { id: '' }, 0, 1, undefined)
    const [{ arguments: shape = '' } = {}] = history.latest(1, ada)
    expect([shape.split(', ').length, shape.endsWith(', …'), shape.length < 700]).toEqual([13, true, true])
  })
})
