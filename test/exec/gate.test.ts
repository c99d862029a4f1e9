import { describe, expect, it } from 'vitest'
import { localCaller } from '../../src/core/context.ts'
import { createEnding } from '../../src/core/ending.ts'
import type { PegboardError } from '../../src/core/errors.ts'
import { noRelay, type Relay } from '../../src/core/tool.ts'
import { createGate, type Passing } from '../../src/exec/gate.ts'
import { createPolicy, type PolicySettings } from '../../src/policy/policy.ts'
import { createManualClock } from '../clock.ts'
import { makeTool } from '../tools.ts'

const person = { ...localCaller, supports: { ...localCaller.supports, elicitation: true } }

function rig(settings: PolicySettings = { ask: ['*'] }) {
  const clock = createManualClock()
  const gate = createGate({ clock })
  let asked = 0
  const request: Relay['request'] = async () => {
    asked++
    return { action: 'accept', content: {} }
  }
  const call = (change: Partial<Passing> = {}, relay: Partial<Relay> = {}): Passing => ({
    tool: makeTool('m.a'),
    input: { n: 1 },
    caller: person,
    policy: createPolicy(settings),
    relay: { ...noRelay, request, clientCapabilities: { elicitation: {} }, ...relay },
    ending: createEnding(),
    ...change,
  })
  const refusal = async (passing: Passing): Promise<PegboardError> => {
    try {
      await gate.confirm(passing)
    } catch (error) {
      return error as PegboardError
    }
    throw new Error('it was let through')
  }
  return { clock, gate, call, refusal, asked: () => asked }
}

describe('a confirmed call that its server answered with a question', () => {
  it('goes on without a second yes, once, for the same principal, tool and arguments', async () => {
    const { gate, call, asked } = rig()
    await gate.confirm(call())
    gate.goesOn(call())
    const again = { resumed: true } as const
    await gate.confirm(call({}, {}))
    await gate.confirm(call({ input: { n: 2 } }, again))
    await gate.confirm(call({ caller: { ...person, principal: 'eve' } }, again))
    await gate.confirm(call({ tool: makeTool('m.b') }, again))
    // It was yes to a tool that did less.
    await gate.confirm(call({ tool: { ...makeTool('m.a'), effect: 'destructive' } }, again))
    expect(asked()).toBe(6)
    expect(gate.confirm(call({}, again))).toBeUndefined()
    await gate.confirm(call({}, again))
    expect(asked()).toBe(7)
  })

  it('is asked about again when the answer comes too late', async () => {
    const { gate, call, clock, asked } = rig()
    gate.goesOn(call())
    clock.pass(15 * 60_000)
    await gate.confirm(call({}, { resumed: true }))
    expect(asked()).toBe(1)
  })
})

describe('a question about a call', () => {
  it('is not put to a client that only opens pages, or whose way to its person is broken', async () => {
    const { call, refusal } = rig()
    const pages = await refusal(call({}, { clientCapabilities: { elicitation: { url: {} } } }))
    expect([pages.code, pages.message]).toEqual([
      'E_CONFIRMATION_REQUIRED',
      'm.a runs only when a person says yes, and this client cannot ask one.',
    ])
    const broken = await refusal(call({}, { request: () => Promise.reject(new Error('gone')) }))
    expect([broken.code, broken.message]).toEqual([
      'E_CONFIRMATION_REQUIRED',
      'Whether m.a may run could not be asked.',
    ])
  })

  it.each([undefined, null, 'accept', {}, { action: 'ACCEPT' }, { action: 'accepted' }])(
    'takes %j for no yes',
    async (answer) => {
      const { call, refusal } = rig()
      expect((await refusal(call({}, { request: async () => answer }))).code).toBe('E_CONFIRMATION_DECLINED')
    },
  )

  it('is given up after the time of the profile that wants it, even by a client that hears no cancellation', async () => {
    const { call, refusal, clock } = rig({ ask: ['m.a'], approvalTimeoutMs: 60_000, where: 'profiles.x.' })
    const waiting = refusal(call({}, { request: () => new Promise(() => undefined) }))
    clock.pass(60_000)
    const { code, message, hint } = await waiting
    expect([code, message]).toEqual(['E_CONFIRMATION_REQUIRED', 'Nobody answered within 60 s whether m.a may run.'])
    expect(hint).toContain('profiles.x.policy.ask decides')
    expect(clock.waiting).toBe(0)
  })
})

describe('a call that its policy denies', () => {
  it('is let through by no missing question', () => {
    const { gate, call } = rig({ ask: ['m.b'], deny: ['m.a'] })
    expect(() => gate.confirm(call())).toThrow("Tool 'm.a' not found.")
  })
})
