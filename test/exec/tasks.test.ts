import { describe, expect, it } from 'vitest'
import { localCaller } from '../../src/core/context.ts'
import { createEnding } from '../../src/core/ending.ts'
import { PegboardError } from '../../src/core/errors.ts'
import { createLog, silentLog } from '../../src/core/log.ts'
import { type ToolResult, valueResult } from '../../src/core/result.ts'
import type { CallRequest } from '../../src/exec/call.ts'
import { createInstance } from '../../src/exec/instance.ts'
import { sessionOwner } from '../../src/exec/owner.ts'
import type { RightsNow } from '../../src/exec/stored-caller.ts'
import { createTasks } from '../../src/exec/tasks.ts'
import { createLocalAlarms } from '../../src/state/alarms.ts'
import { createMemoryStore } from '../../src/state/memory.ts'
import type { Write } from '../../src/state/store.ts'
import { createManualClock } from '../clock.ts'

const turns = async (): Promise<void> => {
  for (let at = 0; at < 60; at++) await Promise.resolve()
}
const owner = sessionOwner(localCaller)
const request = { name: 'work.do', input: {}, caller: localCaller }

/** Processes that share a store and hear each other. */
function rig(rightsNow: RightsNow = ({ roles }) => ({ roles })) {
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
          const put = async (write: Write<T>, expected?: number) => {
            if (state.away) throw new PegboardError('E_STATE_UNAVAILABLE', 'away')
            return table.put(write, expected)
          }
          return { ...table, put }
        },
      }),
      tell: (topic: string, text: string) => {
        for (const ear of ears) if (ear.who !== who && ear.topic === topic) ear.hear(text)
      },
      hear: (topic: string, hear: (text: string) => void) => void ears.push({ who, topic, hear }),
      onBack: (back: () => void) => void backs.push(back),
    }
    const instance = createInstance(shared, clock, log)
    const notices: string[] = []
    const tasks = createTasks({
      rightsNow,
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
  it('end at once when another process is asked to end them, and stay cancelled', async () => {
    const { process, begin, pass } = rig()
    const [one, other] = [process(), process()]
    const id = await begin(one)
    expect(await other.tasks.cancel(owner, id)).toMatchObject({ status: 'cancelled' })
    await turns()
    await pass(6_000)
    for (const { tasks } of [one, other]) expect(await tasks.get(owner, id)).toMatchObject({ status: 'cancelled' })
    expect([one.notices, one.logged]).toEqual([[], []])
  })

  it('hear the answers to their questions from whichever process gets them', async () => {
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
        ending: createEnding(),
        askedBy(ask) {
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

  it('are begun again with the rights their owner has then, and not at all when it is gone', async () => {
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

  it('say how far they are to whoever asks another process, a moment later', async () => {
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

  it('are not what their process made of them once it was taken for dead', async () => {
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
    expect(one.logged.join()).toContain('another process took a task for dead')
  })

  it('are begun again by one process when they may be, and by no two', async () => {
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

  it('keep what came of them as soon as they can', async () => {
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

  it('are nobody’s dead while all of them could not say that they live', async () => {
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

it('keeps the latest thousand tasks of a caller at most, and none of another goes for them', async () => {
  const clock = createManualClock()
  const store = createMemoryStore(clock)
  const shared = { store: () => store, tell: () => undefined, hear: () => undefined, onBack: () => undefined }
  const tasks = createTasks({
    rightsNow: ({ roles }) => ({ roles }),
    shared,
    instance: createInstance(shared, clock, silentLog),
    alarms: createLocalAlarms(clock, silentLog),
    call: async ({ input }) => valueResult(input),
    deliver: async () => undefined,
    present: () => ({}),
    presentError: () => ({ result: {} }),
    clock,
    log: silentLog,
    settings: { resultTtlMs: 3_600_000, maxRunning: 1 },
  })
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
