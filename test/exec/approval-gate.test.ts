import { describe, expect, it } from 'vitest'
import { localCaller } from '../../src/core/caller.ts'
import type { PegboardError } from '../../src/core/errors.ts'
import { noRelay, type Relay } from '../../src/core/tool.ts'
import { createApprovalGate, type PendingCall } from '../../src/exec/approval-gate.ts'
import { createPolicy, type PolicySettings } from '../../src/policy/policy.ts'
import { createManualClock } from '../clock.ts'
import { makeTool } from '../tools.ts'

const person = { ...localCaller, supports: { ...localCaller.supports, elicitation: true } }

function rig(settings: PolicySettings = { ask: ['*'] }) {
  const clock = createManualClock()
  const gate = createApprovalGate({ clock, hide: (text) => text })
  let asked = 0
  const request: Relay['request'] = async () => {
    asked++
    return { action: 'accept', content: {} }
  }
  const call = (change: Partial<PendingCall> = {}, relay: Partial<Relay> = {}): PendingCall => ({
    tool: makeTool('m.a'),
    input: { n: 1 },
    caller: person,
    policy: createPolicy(settings),
    relay: { ...noRelay, request, clientCapabilities: { elicitation: {} }, ...relay },
    signal: new AbortController().signal,
    ...change,
  })
  const askIfNeeded = (passing: PendingCall) => {
    const rule = gate.check(passing)
    return rule && gate.ask(passing, rule)
  }
  const refusal = async (passing: PendingCall): Promise<PegboardError> => {
    try {
      await askIfNeeded(passing)
    } catch (error) {
      return error as PegboardError
    }
    throw new Error('it was let through')
  }
  return { clock, gate, call, askIfNeeded, refusal, asked: () => asked }
}

describe('an approved call that its server answers with a question', () => {
  it('continues without a second approval, once, for the same principal, tool and arguments', async () => {
    const { gate, call, askIfNeeded, asked } = rig()
    await askIfNeeded(call())
    gate.keepApproval(call())
    const again = { resumed: true } as const
    await askIfNeeded(call({}, {}))
    await askIfNeeded(call({ input: { n: 2 } }, again))
    await askIfNeeded(call({ caller: { ...person, principal: 'eve' } }, again))
    await askIfNeeded(call({ tool: makeTool('m.b') }, again))
    // The approval was for a tool with a lower effect.
    await askIfNeeded(call({ tool: { ...makeTool('m.a'), effect: 'destructive' } }, again))
    expect(asked()).toBe(6)
    expect(askIfNeeded(call({}, again))).toBeUndefined()
    await askIfNeeded(call({}, again))
    expect(asked()).toBe(7)
  })

  it('needs a new approval if the answer has no signed state', async () => {
    const { gate, call, askIfNeeded, asked } = rig()
    gate.keepApproval(call())
    await askIfNeeded(call({}, { inputResponses: {} }))
    expect(asked()).toBe(1)
    // The answer with the state still needs none.
    expect(askIfNeeded(call({}, { inputResponses: {}, resumed: true }))).toBeUndefined()
  })

  it('needs a new approval when the answer arrives too late', async () => {
    const { gate, call, askIfNeeded, clock, asked } = rig()
    gate.keepApproval(call())
    clock.pass(15 * 60_000)
    await askIfNeeded(call({}, { resumed: true }))
    expect(asked()).toBe(1)
  })
})

describe('an approval question', () => {
  it('is not sent to a client that only opens pages, or that cannot reach its user', async () => {
    const { call, refusal } = rig()
    const pages = await refusal(call({}, { clientCapabilities: { elicitation: { url: {} } } }))
    expect([pages.code, pages.message]).toEqual([
      'E_CONFIRMATION_REQUIRED',
      'm.a needs the approval of a person, and this client cannot ask one.',
    ])
    const broken = await refusal(call({}, { request: () => Promise.reject(new Error('gone')) }))
    expect([broken.code, broken.message]).toEqual([
      'E_CONFIRMATION_REQUIRED',
      'The client could not show the approval request for m.a.',
    ])
  })

  it.each([undefined, null, 'accept', {}, { action: 'ACCEPT' }, { action: 'accepted' }])(
    'does not treat %j as a yes',
    async (answer) => {
      const { call, refusal } = rig()
      expect((await refusal(call({}, { request: async () => answer }))).code).toBe('E_CONFIRMATION_DECLINED')
    },
  )

  it("times out after the profile's time, even if a client ignores the cancellation", async () => {
    const { call, refusal, clock } = rig({ ask: ['m.a'], approvalTimeoutMs: 60_000, settingPrefix: 'profiles.x.' })
    const waiting = refusal(call({}, { request: () => new Promise(() => undefined) }))
    clock.pass(60_000)
    const { code, message, hint } = await waiting
    expect([code, message]).toEqual([
      'E_CONFIRMATION_REQUIRED',
      'Nobody answered the approval request for m.a within 60 s.',
    ])
    expect(hint).toContain('or change profiles.x.policy.ask')
    expect(clock.waiting).toBe(0)
  })
})

describe('a call that its policy denies', () => {
  it('is not allowed because the question is missing', () => {
    const { gate, call } = rig({ ask: ['m.b'], deny: ['m.a'] })
    expect(() => gate.check(call())).toThrow("Tool 'm.a' not found.")
  })
})
