import { expect, it } from 'vitest'
import { localCaller } from '../../src/core/caller.ts'
import { PegboardError } from '../../src/core/errors.ts'
import { silentLog } from '../../src/core/log.ts'
import { valueResult } from '../../src/core/tool-result.ts'
import { createTasks } from '../../src/exec/background-tasks.ts'
import { createProcessHeartbeat } from '../../src/exec/process-heartbeat.ts'
import { sessionOwner } from '../../src/exec/task-owner.ts'
import type { CallRequest } from '../../src/exec/tool-calls.ts'
import { createLocalAlarms } from '../../src/state/alarms.ts'
import { createMemoryStore } from '../../src/state/memory-store.ts'
import type { Store, Table } from '../../src/state/store.ts'
import { createManualClock } from '../clock.ts'

const turns = async (): Promise<void> => {
  for (let at = 0; at < 40; at++) await Promise.resolve()
}
const owner = sessionOwner(localCaller)
const tool = { id: 'a.b', idempotent: true }
const request = (name: string): CallRequest => ({ name, input: {}, caller: localCaller })

/** Calls end when the test releases them. */
function rig() {
  const clock = createManualClock(1_000_000)
  const memory = createMemoryStore(clock)
  const disk = { full: false }
  const store: Store = {
    close: memory.close,
    table<T>(kind: string): Table<T> {
      const table = memory.table<T>(kind)
      return {
        ...table,
        put: async (...write) => {
          if (disk.full) throw new PegboardError('E_STATE', 'The state could not be written: full.')
          return table.put(...write)
        },
      }
    },
  }
  const shared = {
    store: () => store,
    publish: () => undefined,
    subscribe: () => undefined,
    onReconnect: () => undefined,
  }
  const ends = new Map<string, () => void>()
  const calls: string[] = []
  const tasks = createTasks({
    lookUpRights: ({ roles }) => ({ roles }),
    clock,
    log: silentLog,
    shared,
    instance: createProcessHeartbeat(shared, clock, silentLog),
    alarms: createLocalAlarms(clock, silentLog),
    settings: { resultTtlMs: 60_000, maxRunning: 3 },
    call: ({ name }) => {
      calls.push(name)
      return new Promise((resolve) => ends.set(name, () => resolve(valueResult(`${name} done`))))
    },
    present: () => ({ content: [] }),
    presentError: () => ({ result: {} }),
    deliver: async () => undefined,
  })
  const begin = async (name: string) => {
    const begun = tasks.begin(request(name), tool)
    await turns()
    clock.pass(300)
    return begun
  }
  const end = async (name: string): Promise<void> => {
    ends.get(name)?.()
    await turns()
  }
  return { clock, memory, tasks, disk, calls, begin, end }
}

it('the arguments of a task are kept only while it runs', async () => {
  const { memory, begin, end } = rig()
  const { id } = await begin('x')
  const input = async (): Promise<unknown> => (await memory.table<{ input?: unknown }>('task').get(id))?.value.input
  expect(await input()).toEqual({})
  await end('x')
  expect(await input()).toBeUndefined()
})

it('a result is kept for its lifetime only', async () => {
  const { clock, tasks, begin, end } = rig()
  const { id } = await begin('x')
  await end('x')
  clock.pass(59_000)
  expect(await tasks.get(owner, id)).toMatchObject({ status: 'completed', outcome: { data: 'x done' } })
  clock.pass(2_000)
  expect([await tasks.get(owner, id), await tasks.list(owner)]).toEqual([undefined, []])
})

it('if nothing can be stored, no task starts, and the error says why', async () => {
  const { tasks, disk, calls, begin } = rig()
  disk.full = true
  await expect(tasks.begin(request('x'), tool)).rejects.toMatchObject({ code: 'E_STATE' })
  expect(calls).toEqual([])
  disk.full = false
  expect(await begin('x')).toMatchObject({ status: 'running' })
})

it('the limit of running tasks holds per caller', async () => {
  const { tasks, begin } = rig()
  for (const name of ['x', 'y', 'z']) await begin(name)
  await expect(tasks.begin(request('more'), tool)).rejects.toMatchObject({
    code: 'E_OVERLOADED',
    hint: expect.stringContaining('execution.tasks.maxRunning'),
  })
  const eve = tasks.begin({ ...request('eve'), caller: { ...localCaller, principal: 'eve' } }, tool)
  await turns()
  expect(await tasks.list(sessionOwner({ ...localCaller, principal: 'eve' }))).toHaveLength(1)
  void eve
})
