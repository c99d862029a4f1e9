import { describe, expect, it } from 'vitest'
import { localCaller } from '../../src/core/caller.ts'
import { PegboardError } from '../../src/core/errors.ts'
import { createLog, silentLog } from '../../src/core/log.ts'
import { type ToolResult, valueResult } from '../../src/core/tool-result.ts'
import { createTasks } from '../../src/exec/background-tasks.ts'
import { createProcessHeartbeat } from '../../src/exec/process-heartbeat.ts'
import type { RightsLookup } from '../../src/exec/stored-caller.ts'
import { sessionOwner } from '../../src/exec/task-owner.ts'
import type { CallRequest } from '../../src/exec/tool-calls.ts'
import { createLocalAlarms } from '../../src/state/alarms.ts'
import { createMemoryStore } from '../../src/state/memory-store.ts'
import type { DocumentWrite } from '../../src/state/store.ts'
import { createManualClock } from '../clock.ts'

const turns = async (): Promise<void> => {
  for (let at = 0; at < 60; at++) await Promise.resolve()
}
const owner = sessionOwner(localCaller)
const request = { name: 'work.do', input: {}, caller: localCaller }

/** Processes that share a store and exchange messages. */
function rig(lookUpRights: RightsLookup = ({ roles }) => ({ roles })) {
  const clock = createManualClock(Date.parse('2026-01-01T00:00:00Z'))
  const store = createMemoryStore(clock)
  const ears: Array<{ readonly who: object; readonly topic: string; hear(text: string): void }> = []
  const state = { away: false, calls: 0 }
  const begun: Array<{ end(value: unknown): void; readonly request: CallRequest }> = []
  const process = () => {
    const who = {}
    const backs: Array<() => void> = []
    const logged: string[] = []
    const log = createLog((line) => logged.push(line))
    const shared = {
      store: () => ({
        ...store,
        table<T>(kind: string) {
          const table = store.table<T>(kind)
          const put = async (write: DocumentWrite<T>, expected?: number) => {
            if (state.away) throw new PegboardError('E_STATE_UNAVAILABLE', 'away')
            return table.put(write, expected)
          }
          return { ...table, put }
        },
      }),
      publish: (topic: string, text: string) => {
        for (const ear of ears) if (ear.who !== who && ear.topic === topic) ear.hear(text)
      },
      subscribe: (topic: string, hear: (text: string) => void) => void ears.push({ who, topic, hear }),
      onReconnect: (back: () => void) => void backs.push(back),
    }
    const instance = createProcessHeartbeat(shared, clock, log)
    const notices: string[] = []
    const tasks = createTasks({
      lookUpRights,
      shared,
      clock,
      log,
      instance,
      alarms: createLocalAlarms(clock, log),
      settings: { resultTtlMs: 3_600_000, maxRunning: 4 },
      deliver: async () => undefined,
      present: () => ({}),
      presentError: () => ({ result: {} }),
      call: (called) =>
        new Promise<ToolResult>((resolve, reject) => {
          state.calls++
          called.abort?.signal.addEventListener('abort', () => reject(called.abort?.signal.reason))
          begun.push({ request: called, end: (value) => resolve(valueResult(value)) })
        }),
    })
    tasks.onEnd((_owner, { status }) => notices.push(status))
    return {
      tasks,
      instance,
      notices,
      logged,
      die: () => instance.stop(),
      back: () => backs.forEach((back) => void back()),
    }
  }
  /** Time passes. Call `turns` before, if something must first set a timer. */
  const pass = async (ms: number): Promise<void> => {
    for (let left = ms; left > 0; left -= 500) {
      clock.pass(Math.min(500, left))
      await turns()
    }
  }
  const begin = async ({ tasks }: ReturnType<typeof process>, idempotent = false) => {
    const task = tasks.begin(request, { id: 'work.do', idempotent })
    await turns()
    await pass(500)
    return (await task).id
  }
  return { clock, state, begun, process, pass, begin, turns }
}

describe('tasks of several processes', () => {
  it('end at once when another process cancels them, and stay cancelled', async () => {
    const { process, begin, pass } = rig()
    const [one, other] = [process(), process()]
    const id = await begin(one)
    expect(await other.tasks.cancel(owner, id)).toMatchObject({ status: 'cancelled' })
    await turns()
    await pass(6_000)
    for (const { tasks } of [one, other]) expect(await tasks.get(owner, id)).toMatchObject({ status: 'cancelled' })
    expect([one.notices, one.logged]).toEqual([[], []])
  })

  it('are no longer polled after a wait that timed out', async () => {
    const { clock, process, begin, pass, turns } = rig()
    const [one, other] = [process(), process()]
    const id = await begin(one)
    await other.tasks.get(owner, id)
    await pass(3_000)
    const before = clock.waiting
    for (let n = 0; n < 3; n++) {
      const waiting = other.tasks.wait(owner, id, 1_000)
      await turns()
      await pass(1_500)
      expect(await waiting).toMatchObject({ status: 'running' })
    }
    await pass(3_000)
    expect(clock.waiting).toBe(before)
  })

  it('end soon after their owner loses access', async () => {
    const state = { gone: false }
    const { process, begin, pass, begun } = rig(({ roles }) => {
      if (state.gone) throw new PegboardError('E_OWNER_GONE', 'Nothing is done for "local" now.')
      return { roles }
    })
    const one = process()
    const id = await begin(one)
    await pass(20_000)
    expect(await one.tasks.get(owner, id)).toMatchObject({ status: 'running' })
    state.gone = true
    await pass(6_000)
    expect(begun[0]?.request.abort?.signal.aborted).toBe(true)
    expect(await one.tasks.get(owner, id)).toMatchObject({ status: 'cancelled' })
  })

  it('receive answers to their questions from any process', async () => {
    const { process, turns: later } = rig()
    const [one, other] = [process(), process()]
    let asking: Promise<unknown> | undefined
    const { id } = await one.tasks.adopt(
      request,
      { id: 'work.do', idempotent: false },
      {
        work: new Promise((resolve) => {
          setTimeout(async () => resolve(valueResult(await asking)), 5)
        }),
        abort: new AbortController(),
        redirectQuestions(ask) {
          asking = ask('elicitation/create', { message: 'Really?' })
        },
      },
    )
    await later()
    expect((await other.tasks.get(owner, id))?.questions).toMatchObject({
      'elicitation-1': { params: { message: 'Really?' } },
    })
    await other.tasks.reply(owner, id, { 'elicitation-1': { action: 'decline' } })
    expect(await asking).toEqual({ action: 'decline' })
    await new Promise((done) => setTimeout(done, 20))
    expect(await other.tasks.get(owner, id)).toMatchObject({
      status: 'completed',
      outcome: { data: { action: 'decline' } },
    })
  })

  it("are resumed with the owner's current rights, and not at all if the owner is gone", async () => {
    let gone = false
    const { process, begin, begun, pass, state } = rig(() => {
      if (gone) throw new PegboardError('E_OWNER_GONE', 'Nothing is done for "local" now.')
      return { roles: ['reader'] }
    })
    const [one, other, last] = [process(), process(), process()]
    const id = await begin(one, true)
    one.die()
    await pass(30_000)
    expect(await other.tasks.get(owner, id)).toMatchObject({ status: 'running' })
    expect(begun.map(({ request: { caller } }) => caller.roles)).toEqual([[], ['reader']])
    gone = true
    other.die()
    await pass(30_000)
    expect(await last.tasks.get(owner, id)).toMatchObject({
      status: 'interrupted',
      outcome: { success: false, code: 'E_OWNER_GONE' },
    })
    expect(state.calls).toBe(2)
  })

  it('report their progress to other processes a moment later', async () => {
    const { process, begin, begun, pass } = rig()
    const [one, other] = [process(), process()]
    const id = await begin(one)
    begun[0]?.request.onProgress?.(3, 10, 'third')
    expect((await one.tasks.get(owner, id))?.progress).toEqual({ done: 3, total: 10, message: 'third' })
    await pass(6_000)
    expect((await other.tasks.get(owner, id))?.progress).toEqual({ done: 3, total: 10, message: 'third' })
    begun[0]?.end('done')
    await pass(500)
    expect(await other.tasks.get(owner, id)).toMatchObject({ status: 'completed' })
  })

  it('ignore a result of a process that was considered dead', async () => {
    const { process, begin, begun, pass } = rig()
    const [one, other] = [process(), process()]
    const id = await begin(one)
    one.die()
    await pass(30_000)
    expect(await other.tasks.get(owner, id)).toMatchObject({ status: 'interrupted' })
    expect(other.notices).toEqual(['interrupted'])
    begun[0]?.end('too late')
    await pass(500)
    for (const { tasks } of [one, other]) expect(await tasks.get(owner, id)).toMatchObject({ status: 'interrupted' })
    expect(one.notices).toEqual([])
    expect(one.logged.join()).toContain('another process has taken over a task')
  })

  it('are resumed by exactly one process if they are repeatable, and otherwise by none', async () => {
    const { process, begin, state, begun, pass } = rig()
    const [one, two, three] = [process(), process(), process()]
    const id = await begin(one, true)
    one.die()
    await pass(30_000)
    await Promise.all([two, three, two].map(({ tasks }) => tasks.get(owner, id)))
    await pass(500)
    expect(state.calls).toBe(2)
    begun[1]?.end('done')
    await pass(500)
    expect(await three.tasks.get(owner, id)).toMatchObject({ status: 'completed', outcome: { data: 'done' } })
  })

  it('store their results as soon as possible', async () => {
    const { process, begin, begun, state, pass } = rig()
    const [one, other] = [process(), process()]
    const id = await begin(one)
    state.away = true
    begun[0]?.end('done')
    await pass(4_000)
    expect(await one.tasks.get(owner, id)).toMatchObject({ status: 'completed' })
    await expect(other.tasks.begin(request, { id: 'work.do', idempotent: false })).rejects.toMatchObject({
      code: 'E_STATE_UNAVAILABLE',
      retryable: true,
    })
    expect(state.calls).toBe(1)
    state.away = false
    await pass(8_000)
    expect(await other.tasks.get(owner, id)).toMatchObject({ status: 'completed', outcome: { data: 'done' } })
    expect(one.notices).toEqual(['completed'])
  })

  it('are not considered dead while no process could report that it is alive', async () => {
    const { process, begin, begun, state, pass } = rig()
    const [one, other] = [process(), process()]
    const id = await begin(one)
    state.away = true
    await pass(60_000)
    state.away = false
    other.back()
    expect(await other.tasks.get(owner, id)).toMatchObject({ status: 'running' })
    one.back()
    await pass(20_000)
    expect(await other.tasks.get(owner, id)).toMatchObject({ status: 'running' })
    begun[0]?.end('done')
    await pass(500)
    expect(await other.tasks.get(owner, id)).toMatchObject({ status: 'completed' })
  })
})

/** One process alone that runs one task at a time. */
function oneProcess(call: Parameters<typeof createTasks>[0]['call']) {
  const clock = createManualClock()
  const store = createMemoryStore(clock)
  const shared = {
    store: () => store,
    publish: () => undefined,
    subscribe: () => undefined,
    onReconnect: () => undefined,
  }
  const tasks = createTasks({
    lookUpRights: ({ roles }) => ({ roles }),
    shared,
    instance: createProcessHeartbeat(shared, clock, silentLog),
    alarms: createLocalAlarms(clock, silentLog),
    call,
    deliver: async () => undefined,
    present: () => ({}),
    presentError: () => ({ result: {} }),
    clock,
    log: silentLog,
    settings: { resultTtlMs: 3_600_000, maxRunning: 1 },
  })
  return { clock, tasks }
}

it('are limited to the latest thousand of a caller, without affecting other callers', async () => {
  const { clock, tasks } = oneProcess(async ({ input }) => valueResult(input))
  const begin = (input: number, principal: string) => {
    clock.pass(1)
    return tasks.begin({ ...request, input, caller: { ...localCaller, principal } }, { id: 'a.b', idempotent: true })
  }
  const { id } = await begin(0, 'ann')
  for (let at = 1; at <= 1_099; at++) await begin(at, 'eve')
  const kept = await tasks.list(sessionOwner({ ...localCaller, principal: 'eve' }))
  expect([kept.length, kept[0]?.outcome]).toEqual([1_000, { success: true, data: 1_099 }])
  expect(await tasks.get(sessionOwner({ ...localCaller, principal: 'ann' }), id)).toMatchObject({ status: 'completed' })
  await tasks.stop()
})

it('are limited to 64 MiB of results per principal over all sessions, without affecting others', async () => {
  const { clock, tasks } = oneProcess(async () => valueResult('x'.repeat(2_000_000)))
  const begin = (principal: string, session: string) => {
    clock.pass(1)
    const caller = { ...localCaller, principal, session }
    return tasks.begin({ ...request, caller }, { id: 'a.b', idempotent: true })
  }
  const { id } = await begin('ann', 's1')
  for (let at = 0; at < 40; at++) await begin('eve', `s${at % 4}`)
  const left = await Promise.all(
    [0, 1, 2, 3].map((at) => tasks.list(sessionOwner({ ...localCaller, principal: 'eve', session: `s${at}` }))),
  )
  expect(left.flat().length).toBe(33)
  const ann = sessionOwner({ ...localCaller, principal: 'ann', session: 's1' })
  expect(await tasks.get(ann, id)).toMatchObject({ status: 'completed' })
  await tasks.stop()
})

describe('a task of this process', () => {
  it('is reported when it ends after a wait that timed out, but not while somebody waits', async () => {
    const { process, begin, begun, pass, turns } = rig()
    const one = process()
    const [first, second] = [await begin(one), await begin(one)]
    const timedOut = one.tasks.wait(owner, first, 1_000)
    await pass(1_500)
    expect(await timedOut).toMatchObject({ status: 'running' })
    begun[0]?.end(1)
    await turns()
    expect(one.notices).toEqual(['completed'])
    const waiting = one.tasks.wait(owner, second, 10_000)
    await turns()
    begun[1]?.end(2)
    expect(await waiting).toMatchObject({ status: 'completed' })
    expect(one.notices).toEqual(['completed'])
  })
})
