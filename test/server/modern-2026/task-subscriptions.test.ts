import { describe, expect, it } from 'vitest'
import { localCaller } from '../../../src/core/caller.ts'
import { PegboardError } from '../../../src/core/errors.ts'
import { silentLog } from '../../../src/core/log.ts'
import { ProtocolFailure } from '../../../src/core/protocol-failure.ts'
import { sendTaskChanges } from '../../../src/server/modern-2026/task-subscriptions.ts'
import type { CallHost } from '../../../src/server/server-host.ts'
import { createManualClock } from '../../clock.ts'

const TASK = '0123456789ab'
const unavailable = new PegboardError('E_UPSTREAM_UNAVAILABLE', 'The server is restarting.')
const working = { taskId: TASK, status: 'working' }
const completed = { taskId: TASK, status: 'completed' }

/** A subscription to one task. Its server gives these answers, one for each poll. */
function subscribe(answers: ReadonlyArray<object | Error>) {
  const clock = createManualClock()
  const sent: unknown[] = []
  let polls = 0
  const request = async () => {
    const answer = answers[polls++]
    if (!answer || answer instanceof Error) throw answer ?? new Error('not expected')
    return answer
  }
  const host = { ownTasks: () => ({ request }), log: silentLog } as unknown as CallHost
  const wanted = { names: [TASK], clientCapabilities: {}, subscription: 'listens' }
  const stop = sendTaskChanges(host, clock, localCaller, wanted, ({ params }: { params?: { status?: unknown } }) =>
    sent.push(params?.status),
  )
  async function pass(ms: number): Promise<void> {
    clock.pass(ms)
    await new Promise((resolve) => setImmediate(resolve))
  }
  return { clock, sent, pass, stop, polls: () => polls }
}

describe('notifications of a task', () => {
  it('continue after polls that failed', async () => {
    const { sent, pass, polls } = subscribe([working, unavailable, new Error('aborted'), working, completed])
    for (const ms of [0, 2_000, 2_000, 4_000, 2_000]) await pass(ms)
    expect(polls()).toBe(5)
    expect(sent).toEqual(['working', 'completed'])
  })

  it('wait longer after each failed poll, but at most 30 s', async () => {
    const { pass, polls } = subscribe(Array.from({ length: 9 }, () => unavailable))
    await pass(0)
    for (const ms of [2_000, 4_000, 8_000, 16_000, 30_000, 30_000]) {
      const before = polls()
      await pass(ms - 1)
      expect(polls()).toBe(before)
      await pass(1)
      expect(polls()).toBe(before + 1)
    }
  })

  it.each([
    ['its server does not know the task', new ProtocolFailure(-32602, 'There is no such task')],
    ['its server has no tasks', new ProtocolFailure(-32601, 'Method not found')],
    ['its client may not see the task', new PegboardError('E_SECRET_BLOCKED', 'The result has a credential.')],
  ])('end if %s', async (_, error) => {
    const { clock, pass, polls } = subscribe([error])
    await pass(0)
    expect([polls(), clock.waiting]).toEqual([1, 0])
  })

  it('end with the subscription, also while a failed poll waits to be repeated', async () => {
    const { clock, pass, stop } = subscribe([unavailable])
    await pass(0)
    expect(clock.waiting).toBe(1)
    stop()
    expect(clock.waiting).toBe(0)
  })
})
