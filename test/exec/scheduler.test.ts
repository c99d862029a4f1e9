import { describe, expect, it } from 'vitest'
import { localCaller } from '../../src/core/caller.ts'
import { createSteadyClock } from '../../src/core/clock.ts'
import { PegboardError } from '../../src/core/errors.ts'
import { createLog, silentLog } from '../../src/core/log.ts'
import { valueResult } from '../../src/core/tool-result.ts'
import { createInbox } from '../../src/exec/inbox.ts'
import { createProcessHeartbeat } from '../../src/exec/process-heartbeat.ts'
import { createScheduler } from '../../src/exec/scheduler.ts'
import { type RightsLookup, type StoredCaller, toStoredCaller } from '../../src/exec/stored-caller.ts'
import { lastingOwner } from '../../src/exec/task-owner.ts'
import type { CallRequest } from '../../src/exec/tool-calls.ts'
import { createWatchers, type NewWatcher } from '../../src/exec/watchers.ts'
import { createLocalAlarms } from '../../src/state/alarms.ts'
import { createMemoryStore } from '../../src/state/memory-store.ts'
import { createManualClock } from '../clock.ts'

const HOUR = 3_600_000
const turns = async (): Promise<void> => {
  for (let at = 0; at < 40; at++) await Promise.resolve()
}

/** A store, a clock, and any number of processes. */
function rig(
  answer: (request: CallRequest, nth: number) => unknown = () => 'done',
  rights: RightsLookup = ({ roles }) => ({ roles }),
) {
  const clock = createManualClock(Date.parse('2026-01-01T00:00:00Z'))
  const store = createMemoryStore(clock)
  const calls: string[] = []
  const logged: string[] = []
  const sent: string[][] = []
  const send = async (_caller: unknown, channel: string, text: string): Promise<void> => {
    if (channel === 'gone') throw new PegboardError('E_NOT_FOUND', 'no such channel')
    sent.push([channel, text])
  }
  /**
   * @param options.lacks the process does not have the tools
   * @param options.isDisabled the operator disabled their server in this process
   */
  const process = ({ lacks: lacking = false, isDisabled = false, idempotent = false } = {}) => {
    const nobody = () => undefined
    const shared = { store: () => store, publish: nobody, subscribe: nobody, onReconnect: nobody }
    const steady = createSteadyClock(clock)
    const inbox = createInbox(shared, clock, silentLog)
    const instance = createProcessHeartbeat(shared, clock, silentLog)
    const options = {
      lookUpRights: (who: StoredCaller) => rights(who),
      lacksTool: () => lacking,
      hasInvalidServer: () => false,
      store,
      clock,
      log: createLog((line) => logged.push(JSON.parse(line).message), 'warn'),
      inbox,
      instance,
      call: async (request: CallRequest) => {
        calls.push(request.name)
        if (isDisabled) throw new PegboardError('E_TOOL_DISABLED', `'${request.name}' is not available.`)
        if (lacking) throw new PegboardError('E_NOT_FOUND', `Tool '${request.name}' not found.`)
        return valueResult(await answer(request, calls.length))
      },
    }
    return {
      inbox,
      instance,
      schedule: createScheduler({
        ...options,
        isIdempotent: () => idempotent,
        delivery: { send },
        graceMs: HOUR,
        key: () => Buffer.alloc(32, 7),
        alarms: createLocalAlarms(clock, silentLog),
      }),
      watchers: createWatchers({
        ...options,
        volatileParts: () => ['took', 'headers.date'],
        steady,
        alarms: createLocalAlarms(steady, silentLog),
      }),
      notices: async () => {
        await turns()
        return inbox.take(localCaller)
      },
      die: () => instance.stop(),
    }
  }
  const pass = async (ms: number): Promise<void> => {
    for (let left = ms; left > 0; left -= 1_000) {
      clock.pass(Math.min(1_000, left))
      await turns()
    }
  }
  return { clock, store, calls, logged, sent, process, pass }
}

const watcher = (more: Partial<NewWatcher> = {}): NewWatcher => ({
  tool: 'a.b',
  params: {},
  label: 'it',
  intervalMs: 30_000,
  maxChecks: 0,
  strategy: 'always',
  batchSize: 10,
  ...more,
})

describe('a schedule', () => {
  it('runs a job once on time, reports it, and forgets it', async () => {
    const { process, pass, calls } = rig()
    const { schedule, notices } = process()
    await schedule.start()
    const { id, nextAt } = await schedule.add(localCaller, { tool: 'a.b', when: 'in 5s', label: 'tea' })
    expect(nextAt).toBe(Date.parse('2026-01-01T00:00:05Z'))
    await pass(4_000)
    expect(calls).toEqual([])
    await pass(1_000)
    expect(calls).toEqual(['a.b'])
    expect(await notices()).toEqual(['Scheduled job tea (a.b) gave "done"'])
    expect([await schedule.get(localCaller, id), await schedule.list(localCaller)]).toEqual([undefined, []])
    await pass(60_000)
    expect(calls).toHaveLength(1)
  })

  it('runs twice and ends if two runs are requested', async () => {
    const { process, pass, calls } = rig()
    const { schedule } = process()
    await schedule.start()
    await schedule.add(localCaller, { tool: 'a.b', cron: '*/15 * * * *', maxRuns: 2 })
    await pass(2 * HOUR)
    expect(calls).toEqual(['a.b', 'a.b'])
    expect(await schedule.list(localCaller)).toEqual([])
  })

  it('continues with a job whose end could not be stored once', async () => {
    const { process, pass, calls, store } = rig()
    const { schedule } = process()
    await schedule.start()
    await schedule.add(localCaller, { tool: 'a.b', cron: '*/5 * * * *' })
    const table = store.table('job')
    const { put } = table
    let failing = 0
    table.put = (write, expected) => {
      const { by } = write.value as { readonly by?: string }
      if (by !== undefined || ++failing > 1) return put(write, expected)
      return Promise.reject(new Error('disk is full'))
    }
    await pass(20 * 60_000)
    expect(failing).toBeGreaterThan(1)
    expect(calls).toHaveLength(4)
  })

  it('cancels a job, hides it from other callers, and stores five hundred per caller', async () => {
    const { process, pass, calls } = rig()
    const { schedule } = process()
    await schedule.start()
    const eve = { ...localCaller, principal: 'eve' }
    const { id } = await schedule.add(localCaller, { tool: 'a.b', when: 'in 5s' })
    expect([await schedule.get(eve, id), await schedule.cancel(eve, id)]).toEqual([undefined, undefined])
    expect(await schedule.cancel(localCaller, id)).toMatchObject({ id })
    await pass(10_000)
    expect(calls).toEqual([])
    for (let at = 0; at < 500; at++) await schedule.add(localCaller, { tool: 'a.b', when: 'in 1d' })
    await expect(schedule.add(localCaller, { tool: 'a.b', when: 'in 1d' })).rejects.toMatchObject({
      code: 'E_OVERLOADED',
    })
    await schedule.add(eve, { tool: 'a.b', when: 'in 1d' })
  })

  it('has at most five hundred jobs and one per label, however many are created at once', async () => {
    const { process } = rig()
    const [one, other] = [process(), process()]
    const made = await Promise.allSettled(
      Array.from({ length: 520 }, (_, n) =>
        (n % 2 === 0 ? one : other).schedule.add(localCaller, { tool: 'a.b', when: 'in 1d' }),
      ),
    )
    expect(made.filter(({ status }) => status === 'fulfilled')).toHaveLength(500)
    const eve = { ...localCaller, principal: 'eve' }
    await Promise.all(
      [one, other, one].map(({ schedule }) => schedule.add(eve, { message: 'x', when: 'in 1d', label: 'x' })),
    )
    expect(await one.schedule.list(eve)).toHaveLength(1)
    const watching = await Promise.allSettled(
      Array.from({ length: 110 }, (_, n) => (n % 2 === 0 ? one : other).watchers.add(localCaller, watcher())),
    )
    expect(watching.filter(({ status }) => status === 'fulfilled')).toHaveLength(100)
    await expect(one.watchers.add(localCaller, watcher())).rejects.toMatchObject({ code: 'E_WATCH_LIMIT' })
  })

  it('removes a completed watcher to make room for a new one', async () => {
    const { process, pass } = rig()
    const { watchers } = process()
    await watchers.start()
    for (let n = 0; n < 100; n++)
      await watchers.add(localCaller, watcher({ maxChecks: n === 7 ? 1 : 0, label: `w${n}` }))
    await expect(watchers.add(localCaller, watcher())).rejects.toMatchObject({ code: 'E_WATCH_LIMIT' })
    await pass(30_000)
    await watchers.add(localCaller, watcher({ label: 'new' }))
    const labels = (await watchers.list(localCaller)).map(({ label }) => label)
    expect([labels.length, labels.includes('w7'), labels.at(-1)]).toEqual([100, false, 'new'])
  })

  it('starts as many jobs on time as may run at once; others due at the same time are spread over a second', async () => {
    const at: Array<readonly [string, number]> = []
    const { process, pass, clock } = rig(({ name }) => at.push([name, clock.now() % 60_000]))
    const { schedule } = process()
    await schedule.start()
    for (let n = 0; n < 32; n++) await schedule.add(localCaller, { tool: `job.n${n}`, cron: '* * * * *' })
    await pass(59_000)
    const steps = async (): Promise<void> => {
      for (let n = 0; n < 80; n++) {
        clock.pass(25)
        await turns()
      }
    }
    await steps()
    expect(at.map(([, ms]) => ms)).toEqual(Array.from({ length: 32 }, () => 0))
    for (let n = 32; n < 52; n++) await schedule.add(localCaller, { tool: `job.n${n}`, cron: '* * * * *' })
    const rounds: Array<ReadonlyMap<string, number>> = []
    for (let n = 0; n < 2; n++) {
      at.length = 0
      await pass(58_000)
      await steps()
      rounds.push(new Map(at))
    }
    const [first = new Map<string, number>(), second = new Map<string, number>()] = rounds
    expect([first.size, second.size]).toEqual([52, 52])
    const spread = [...first].filter(([, ms]) => ms > 0)
    expect(spread.length).toBeGreaterThanOrEqual(18)
    expect(new Set(spread.map(([, ms]) => ms)).size).toBeGreaterThan(8)
    expect(Math.max(...spread.map(([, ms]) => ms))).toBeLessThanOrEqual(1_000)
    // Jobs that are due at the same time again keep their offsets.
    const both = [...second].filter(([name, ms]) => ms > 0 && (first.get(name) ?? 0) > 0)
    expect(both.length).toBeGreaterThan(0)
    for (const [name, ms] of both) expect(ms, name).toBe(first.get(name))
  })

  it('keeps one job per label', async () => {
    const { process, pass, calls } = rig()
    const { schedule } = process()
    await schedule.start()
    const first = await schedule.add(localCaller, { tool: 'a.b', when: 'in 5s', label: 'x' })
    const second = await schedule.add(localCaller, { tool: 'c.d', when: 'in 6s', label: 'x' })
    expect(second.id).toBe(first.id)
    await pass(10_000)
    expect(calls).toEqual(['c.d'])
  })

  it('continues with a job that an earlier version stored under a shorter name, until its label is reused', async () => {
    const { process, pass, calls, store } = rig()
    const { schedule } = process()
    await schedule.start()
    const { id, ...value } = await schedule.add(localCaller, { tool: 'a.b', when: 'in 1h', label: 'x' })
    await schedule.cancel(localCaller, id)
    await store.table('job').put({ id: '0123456789ab', owner: lastingOwner(localCaller), value })
    expect(await schedule.get(localCaller, '0123456789ab')).toMatchObject({ tool: 'a.b' })
    const next = await schedule.add(localCaller, { tool: 'c.d', when: 'in 5s', label: 'x' })
    expect((await schedule.list(localCaller)).map((job) => job.id)).toEqual([next.id])
    await pass(10_000)
    expect(calls).toEqual(['c.d'])
  })

  it('survives its process; a missed run is made up within its grace period, or dropped with a notice', async () => {
    const { process, pass, calls, clock } = rig()
    const before = process()
    await before.schedule.start()
    await before.schedule.add(localCaller, { tool: 'soon.run', when: 'in 30m' })
    await before.schedule.add(localCaller, { tool: 'late.run', when: 'in 5m', label: 'late' })
    await before.schedule.add(localCaller, { tool: 'often.run', cron: '0 * * * *' })
    await before.schedule.stop()
    clock.pass(70 * 60_000)
    const after = process()
    await after.schedule.start()
    await pass(1_000)
    expect(calls.sort()).toEqual(['often.run', 'soon.run'])
    expect(await after.notices()).toContain('Scheduled job late (late.run) was missed and is dropped.')
    await pass(HOUR)
    expect(calls.filter((name) => name === 'often.run')).toHaveLength(2)
  })

  it('reports a missed run once, even if two processes find it at the same moment', async () => {
    const { process, pass, clock } = rig()
    const before = process()
    await before.schedule.start()
    await before.schedule.add(localCaller, { tool: 'a.b', when: 'in 1m', label: 'tea' })
    await before.schedule.stop()
    clock.pass(3 * HOUR)
    const [one, other] = [process(), process()]
    await Promise.all([one.schedule.start(), other.schedule.start()])
    await pass(30_000)
    expect([...(await one.notices()), ...(await other.notices())]).toEqual([
      'Scheduled job tea (a.b) was missed and is dropped.',
    ])
  })

  it('runs each job in only one of several processes', async () => {
    const { process, pass, calls } = rig()
    const all = [process(), process(), process()]
    for (const { schedule } of all) await schedule.start()
    for (let at = 0; at < 20; at++)
      await all[at % 3]?.schedule.add(localCaller, { tool: `job.n${at}`, when: `in ${70 + at}s` })
    await pass(200_000)
    expect(calls).toHaveLength(20)
    expect(new Set(calls).size).toBe(20)
  })

  it('does not repeat what a process was doing when it died', async () => {
    const { process, pass, calls } = rig(() => new Promise(() => undefined))
    const first = process()
    await first.schedule.start()
    await first.schedule.add(localCaller, { tool: 'pay.now', when: 'in 5s', label: 'pay' })
    await pass(6_000)
    expect(calls).toEqual(['pay.now'])
    const second = process()
    await second.schedule.start()
    await pass(HOUR)
    expect([calls.length, await second.notices()]).toEqual([1, []])
    first.die()
    await pass(HOUR)
    expect([calls.length, await second.notices()]).toEqual([
      1,
      [expect.stringContaining('Scheduled job pay (pay.now) was interrupted, and is not run again.')],
    ])
    expect(await second.schedule.list(localCaller)).toEqual([])
  })

  it('repeats once, with the same key, what a process was doing when it died, if the tool is repeatable', async () => {
    const keys: (string | undefined)[] = []
    const { process, pass } = rig(({ callId }) => {
      keys.push(callId)
      return keys.length < 3 ? new Promise(() => undefined) : 'done'
    })
    const processes = [1, 2, 3].map(() => process({ idempotent: true }))
    const [first, second, third] = processes as [
      ReturnType<typeof process>,
      ReturnType<typeof process>,
      ReturnType<typeof process>,
    ]
    await first.schedule.start()
    const { id } = await first.schedule.add(localCaller, { tool: 'pay.now', cron: '0 * * * *', label: 'pay' })
    await pass(HOUR)
    expect(keys).toHaveLength(1)
    await second.schedule.start()
    first.die()
    await pass(60_000)
    expect([keys.length, keys[1] === keys[0]]).toEqual([2, true])
    expect(await second.notices()).toEqual([
      expect.stringContaining('Scheduled job pay (pay.now) was interrupted, and is run again.'),
    ])
    expect(await second.schedule.get(localCaller, id)).toMatchObject({ runs: 1, interrupted: 1 })
    // It ends its process each time, so it is not started a third time.
    await third.schedule.start()
    second.die()
    await pass(60_000)
    expect(keys).toHaveLength(2)
    expect((await third.notices()).join()).toContain('was interrupted, and is not run again.')
    await pass(HOUR)
    expect(keys[2]).not.toBe(keys[0])
    expect(await third.schedule.get(localCaller, id)).toMatchObject({ runs: 2, interrupted: 2 })
  })

  it('runs again what a stopping process rejected before it started, but not what it ended', async () => {
    let stopping = true
    const { process, pass, calls } = rig(({ name }) => {
      if (stopping)
        throw new PegboardError('E_SHUTTING_DOWN', 'The server is stopping.', { retryable: name === 'pay.later' })
      return 'done'
    })
    const { schedule, notices } = process()
    await schedule.start()
    for (const tool of ['pay.later', 'pay.now']) await schedule.add(localCaller, { tool, when: 'in 5s', label: tool })
    await pass(5_000)
    await schedule.stop()
    expect(calls.sort()).toEqual(['pay.later', 'pay.now'])
    stopping = false
    const next = process()
    await next.schedule.start()
    await pass(5_000)
    expect(calls.slice(2)).toEqual(['pay.later'])
    expect([...(await notices()), ...(await next.notices())].map((line) => line.replace(/ \(.*\)/, '')).sort()).toEqual(
      [
        'Scheduled job pay.later gave "done"',
        'Scheduled job pay.later was interrupted, and is run again.',
        'Scheduled job pay.now was interrupted, and is not run again.',
      ],
    )
  })

  it('runs within 15 s what a process planned before it died', async () => {
    const { process, pass, calls, clock } = rig()
    const [first, second] = [process(), process()]
    await second.schedule.start()
    await pass(3_000)
    await first.schedule.start()
    await first.schedule.add(localCaller, { tool: 'a.b', when: 'in 1s' })
    await first.schedule.stop()
    first.die()
    await pass(15_000)
    expect([calls, clock.now()]).toEqual([['a.b'], Date.parse('2026-01-01T00:00:18Z')])
  })

  it('checks the policy at run time, and reports the decision', async () => {
    let blocked = false
    const { process, pass } = rig(() => {
      if (blocked) throw new PegboardError('E_NOT_FOUND', "Tool 'a.b' not found.")
      return 'done'
    })
    const { schedule } = process()
    await schedule.start()
    const { id } = await schedule.add(localCaller, { tool: 'a.b', cron: '* * * * *' })
    await pass(60_000)
    expect((await schedule.get(localCaller, id))?.last).toEqual({ success: true, data: 'done' })
    blocked = true
    await pass(60_000)
    expect((await schedule.get(localCaller, id))?.last).toMatchObject({
      success: false,
      error: expect.stringContaining("E_NOT_FOUND: Tool 'a.b' not found."),
    })
  })

  it("runs with the owner's current rights, and not at all if the owner is gone", async () => {
    let now: readonly string[] | undefined = ['admin']
    const seen: (readonly string[])[] = []
    const { process, pass, logged } = rig(
      ({ caller }) => void seen.push(caller.roles),
      () => {
        if (now) return { roles: now }
        throw new PegboardError('E_OWNER_GONE', 'Nothing is done for "ann" now.')
      },
    )
    const { schedule, inbox } = process()
    const ann = { ...localCaller, principal: 'ann', roles: ['admin'], byToken: true } as const
    await schedule.start()
    const { id } = await schedule.add(ann, { tool: 'a.b', cron: '* * * * *', label: 'x' })
    await pass(60_000)
    now = ['reader']
    await pass(60_000)
    now = undefined
    await pass(60_000)
    expect(seen).toEqual([['admin'], ['reader']])
    expect((await schedule.get(ann, id))?.last).toEqual({
      success: false,
      code: 'E_OWNER_GONE',
      error: expect.stringContaining('E_OWNER_GONE: Nothing is done for "ann" now.'),
    })
    expect((await inbox.take(ann)).at(-1)).toContain(
      'Scheduled job x (a.b) failed: E_OWNER_GONE: Nothing is done for "ann" now.',
    )
    await pass(10 * 60_000)
    const gone = 'a job did not run, because its owner no longer has access'
    expect(logged).toEqual([gone])
    now = ['auditor']
    await pass(60_000)
    expect(seen.at(-1)).toEqual(['auditor'])
    now = undefined
    await pass(60_000)
    expect(logged).toEqual([gone, gone])
  })

  it('pauses a repeated job whose owner is gone: one notice, one warning, and no run is counted', async () => {
    let gone = true
    const { process, pass, calls, logged, clock } = rig(
      () => 'done',
      ({ roles }) => {
        if (gone) throw new PegboardError('E_OWNER_GONE', 'Nothing is done for "local" now.')
        return { roles }
      },
    )
    const first = process()
    await first.schedule.start()
    const { id } = await first.schedule.add(localCaller, { tool: 'a.b', cron: '* * * * *', label: 'x', maxRuns: 2 })
    await pass(5 * 60_000)
    await first.schedule.stop()
    const second = process()
    await second.schedule.start()
    for (let hour = 0; hour < 48; hour++) {
      clock.pass(HOUR)
      await pass(2_000)
    }
    expect(await first.notices()).toEqual([
      expect.stringMatching(
        /^Scheduled job x \(a\.b\) failed: E_OWNER_GONE: .* It is paused while its owner has no access\.$/,
      ),
    ])
    expect(logged).toEqual(['a job did not run, because its owner no longer has access'])
    expect(await second.schedule.get(localCaller, id)).toMatchObject({ runs: 0, nextAt: expect.any(Number) })
    gone = false
    await pass(10 * 60_000)
    expect(calls).toHaveLength(2)
    expect(await second.schedule.list(localCaller)).toEqual([])
  })

  it('pauses a repeated job whose tool is disabled: one notice, one warning, and no run is counted', async () => {
    const { process, pass, calls, logged } = rig()
    const disabled = process({ lacks: true, isDisabled: true })
    await disabled.schedule.start()
    const { id } = await disabled.schedule.add(localCaller, { tool: 'a.b', cron: '* * * * *', label: 'x', maxRuns: 2 })
    await pass(5 * 60_000)
    expect(await disabled.notices()).toEqual([
      expect.stringMatching(
        /^Scheduled job x \(a\.b\) failed: E_TOOL_DISABLED: 'a\.b' is not available\. .* It is paused while its tool is disabled\.$/,
      ),
    ])
    expect(logged).toEqual(['a job was paused, because its tool is disabled'])
    expect(await disabled.schedule.get(localCaller, id)).toMatchObject({ runs: 0, nextAt: expect.any(Number) })
    await disabled.schedule.stop()
    calls.length = 0
    const enabled = process()
    await enabled.schedule.start()
    await pass(5 * 60_000)
    expect(calls).toEqual(['a.b', 'a.b'])
    expect(await enabled.notices()).toEqual(Array(2).fill('Scheduled job x (a.b) gave "done"'))
    expect(await enabled.schedule.list(localCaller)).toEqual([])
  })

  it('does not pause a repeated job whose tool itself fails with the error of a disabled tool', async () => {
    const { process, pass, logged } = rig(() => {
      throw new PegboardError('E_TOOL_DISABLED', 'The account is suspended.')
    })
    const { schedule, notices } = process()
    await schedule.start()
    await schedule.add(localCaller, { tool: 'a.b', cron: '* * * * *', label: 'x', maxRuns: 2 })
    await pass(3 * 60_000)
    const all = await notices()
    expect(all).toHaveLength(2)
    for (const notice of all) {
      expect(notice).toContain('Scheduled job x (a.b) failed: E_TOOL_DISABLED: The account is suspended.')
      expect(notice).not.toContain('paused')
    }
    expect(logged).toEqual([])
    expect(await schedule.list(localCaller)).toEqual([])
  })

  it('sends a second notice about a pause after a run that was interrupted', async () => {
    const { process, pass } = rig(() => new Promise(() => undefined))
    const paused = expect.stringContaining('It is paused while its tool is disabled.')
    const disabled = process({ lacks: true, isDisabled: true })
    await disabled.schedule.start()
    await disabled.schedule.add(localCaller, { tool: 'a.b', cron: '* * * * *', label: 'x' })
    await pass(60_000)
    await disabled.schedule.stop()
    expect(await disabled.notices()).toEqual([paused])
    const enabled = process()
    await enabled.schedule.start()
    await pass(60_000)
    enabled.die()
    const disabledAgain = process({ lacks: true, isDisabled: true })
    await disabledAgain.schedule.start()
    await pass(2 * HOUR)
    expect(await disabledAgain.notices()).toEqual([expect.stringContaining('was interrupted'), paused])
  })

  it('sends a notice about the pause also if the last run failed with the same error', async () => {
    const { process, pass, logged } = rig(() => {
      throw new PegboardError('E_TOOL_DISABLED', 'The account is suspended.')
    })
    const enabled = process()
    await enabled.schedule.start()
    await enabled.schedule.add(localCaller, { tool: 'a.b', cron: '* * * * *', label: 'x' })
    await pass(60_000)
    await enabled.schedule.stop()
    expect(await enabled.notices()).toEqual([expect.not.stringContaining('paused')])
    const disabled = process({ lacks: true, isDisabled: true })
    await disabled.schedule.start()
    await pass(3 * 60_000)
    expect(await disabled.notices()).toEqual([expect.stringContaining('It is paused while its tool is disabled.')])
    expect(logged).toEqual(['a job was paused, because its tool is disabled'])
  })

  it('fails a one-time job whose tool is disabled', async () => {
    const { process, pass } = rig()
    const { schedule, notices } = process({ lacks: true, isDisabled: true })
    await schedule.start()
    await schedule.add(localCaller, { tool: 'a.b', when: 'in 5s', label: 'x' })
    await pass(6_000)
    const [notice, ...others] = await notices()
    expect(notice).toContain("Scheduled job x (a.b) failed: E_TOOL_DISABLED: 'a.b' is not available.")
    expect(notice).not.toContain('paused')
    expect(others).toEqual([])
    expect(await schedule.list(localCaller)).toEqual([])
  })

  it("sends a job's result to its channel, or reports the failure to the owner", async () => {
    const { process, pass, sent } = rig()
    const { schedule, notices } = process()
    await schedule.start()
    await schedule.add(localCaller, { tool: 'a.b', when: 'in 5s', channel: 'fake:42' })
    await schedule.add(localCaller, { tool: 'c.d', when: 'in 5s', channel: 'gone', label: 'x' })
    await pass(6_000)
    expect(sent).toEqual([['fake:42', 'done']])
    expect(await notices()).toEqual(['Scheduled job x (c.d) gave "done"'])
  })

  it('says that a job ran late because its process was not running', async () => {
    const { process, pass, calls, clock } = rig()
    const first = process()
    await first.schedule.start()
    await first.schedule.add(localCaller, { tool: 'a.b', when: 'in 5s', label: 'tea' })
    await pass(4_000)
    await first.schedule.stop()
    first.die()
    clock.pass(5_000)
    const second = process()
    await second.schedule.start()
    await pass(1_000)
    expect([calls, await second.notices()]).toEqual([['a.b'], ['Scheduled job tea (a.b), 5 s late, gave "done"']])
  })

  it('makes up one run for all missed ones, and counts the others', async () => {
    const { process, pass, calls, clock } = rig()
    const first = process()
    await first.schedule.start()
    const { id } = await first.schedule.add(localCaller, { tool: 'a.b', cron: '* * * * *' })
    await first.schedule.stop()
    clock.pass(3 * HOUR)
    const second = process()
    await second.schedule.start()
    await pass(1_000)
    expect([calls.length, await second.schedule.get(localCaller, id)]).toMatchObject([1, { runs: 1, skipped: 179 }])
    await pass(60_000)
    expect([calls.length, await second.schedule.get(localCaller, id)]).toMatchObject([2, { runs: 2, skipped: 179 }])
  })

  it('never runs a job twice at once: overlapping runs are counted as skipped', async () => {
    let most = 0
    let now = 0
    const { process, pass, clock } = rig(
      () =>
        new Promise((done) => {
          most = Math.max(most, ++now)
          clock.after(5 * 60_000 - 1_000, () => {
            now--
            done(1)
          })
        }),
    )
    const { schedule } = process()
    await schedule.start()
    const { id } = await schedule.add(localCaller, { tool: 'a.b', cron: '* * * * *' })
    await pass(21 * 60_000)
    expect([most, await schedule.get(localCaller, id)]).toMatchObject([1, { runs: 5, skipped: 16 }])
  })

  it('runs all of ten thousand jobs due in one second, with limited concurrency', async () => {
    let most = 0
    let now = 0
    const { process, clock, calls, store } = rig(async () => {
      most = Math.max(most, ++now)
      await Promise.resolve()
      now--
    })
    const job = { maxRuns: 0, runs: 0, createdAt: 0, nextAt: clock.now() + 60_000 }
    for (let n = 0; n < 10_000; n++) {
      const caller = { ...localCaller, principal: `p${n % 20}` }
      await store.table('job').put({
        id: `j${n}`,
        owner: lastingOwner(caller),
        value: { ...job, caller: toStoredCaller(caller), tool: `t.n${n}` },
      })
    }
    await process().schedule.start()
    clock.pass(60_000)
    const all = (): number => {
      clock.pass(100)
      return calls.length
    }
    await expect.poll(all, { timeout: 30_000 }).toBe(10_000)
    expect([new Set(calls).size, most]).toEqual([10_000, 36])
  })

  it('sends reminders', async () => {
    const { process, pass, calls } = rig()
    const { schedule, notices } = process()
    await schedule.start()
    await schedule.add(localCaller, { message: 'stretch', when: 'in 1m' })
    await pass(60_000)
    expect([await notices(), calls]).toEqual([['[REMINDER] stretch'], []])
  })
})

describe('a watcher', () => {
  /** 1, 1, 2, a failure, 2. */
  const script = (_request: CallRequest, nth: number): unknown => {
    if (nth === 4) throw new PegboardError('E_TOOL_FAILED', 'it broke')
    return { value: nth < 3 ? 1 : 2 }
  }

  it('polls first after one interval, and as often as requested', async () => {
    const { process, pass, calls } = rig()
    const { watchers } = process()
    await watchers.start()
    const { id } = await watchers.add(localCaller, watcher({ maxChecks: 2 }))
    await pass(29_000)
    expect(calls).toHaveLength(0)
    await pass(1_000)
    expect(calls).toHaveLength(1)
    await pass(120_000)
    expect(calls).toHaveLength(2)
    expect(await watchers.get(localCaller, id)).toMatchObject({ status: 'completed', checks: 2, nextAt: null })
  })

  for (const [strategy, more, checks] of [
    ['on_change', {}, [3, 4, 5]],
    ['on_error', {}, [4, 5]],
    ['on_threshold', { expression: 'result.value > 1' }, [3, 5]],
    ['summary', { batchSize: 2 }, [2, 4]],
    ['always', {}, [1, 2, 3, 4, 5]],
  ] as const)
    it(`reports ${strategy}`, async () => {
      const { process, pass } = rig(script)
      const { watchers, notices } = process()
      await watchers.start()
      await watchers.add(localCaller, watcher({ strategy, maxChecks: 5, ...more }))
      await pass(5 * 30_000)
      const told = await notices()
      expect(told.map((line) => Number(/check (\d+)/.exec(line)?.[1]))).toEqual(checks)
      for (const line of told) expect(line.startsWith('[WATCHER UPDATE] it (')).toBe(true)
    })

  it('reports what changed, without the parts that differ in each call', async () => {
    const { process, pass } = rig((_request, nth) => ({
      status: nth < 4 ? 200 : 500,
      headers: { date: `check ${nth}`, type: 'text' },
      rows: Array.from({ length: nth < 4 ? 3 : 1 }),
      page: `${'a'.repeat(1_000)}${nth < 3 ? 'old' : 'new'}${'z'.repeat(1_000)}`,
      took: nth,
    }))
    const { watchers, notices } = process()
    await watchers.start()
    const { id } = await watchers.add(localCaller, watcher({ strategy: 'on_change', maxChecks: 4 }))
    await pass(4 * 30_000)
    const [page = '', rest, ...others] = await notices()
    expect(page).toMatch(/check 3: page: "a{20}oldz+… → "a{20}newz+…\. watch_history shows the results\.$/)
    expect(rest).toBe(
      `[WATCHER UPDATE] it (${id}, a.b), check 4: status: 200 → 500, rows: 3 items → 1 item. watch_history shows the results.`,
    )
    expect(others).toEqual([])
    expect((await watchers.get(localCaller, id))?.history.at(-1)?.preview).not.toContain('check 4')
  })

  it('pauses, and keeps its latest results', async () => {
    const { process, pass, calls } = rig()
    const { watchers } = process()
    await watchers.start()
    const { id } = await watchers.add(localCaller, watcher())
    await pass(60_000)
    await watchers.pause(localCaller, id)
    await pass(90_000)
    expect(calls).toHaveLength(2)
    expect(await watchers.resume(localCaller, id)).toMatchObject({ status: 'running' })
    await pass(30_000)
    const seen = await watchers.get(localCaller, id)
    expect(seen?.history.map(({ check, preview }) => [check, preview])).toEqual([
      [1, '"done"'],
      [2, '"done"'],
      [3, '"done"'],
    ])
    await watchers.remove(localCaller, id)
    await pass(60_000)
    expect(calls).toHaveLength(3)
  })

  it('pauses when its owner is gone, and can be resumed by the owner', async () => {
    let gone = false
    const { process, pass, calls } = rig(
      () => 1,
      ({ roles }) => {
        if (gone) throw new PegboardError('E_OWNER_GONE', 'Nothing is done for "local" now.')
        return { roles }
      },
    )
    const { watchers, notices } = process()
    await watchers.start()
    const { id } = await watchers.add(localCaller, watcher({ strategy: 'on_change' }))
    await pass(30_000)
    gone = true
    await pass(90_000)
    expect([calls.length, await watchers.get(localCaller, id)]).toMatchObject([1, { status: 'paused', checks: 1 }])
    expect(await notices()).toEqual([
      expect.stringContaining(`[WATCHER UPDATE] it (${id}) rests: E_OWNER_GONE: Nothing is done for "local" now.`),
    ])
    gone = false
    await watchers.resume(localCaller, id)
    await pass(30_000)
    expect(calls).toHaveLength(2)
  })

  it('pauses while the operator has disabled its tool', async () => {
    const { process, pass, calls, logged } = rig(() => 1)
    const { watchers, notices } = process({ lacks: true, isDisabled: true })
    await watchers.start()
    const { id } = await watchers.add(localCaller, watcher())
    await pass(90_000)
    expect([calls.length, await watchers.get(localCaller, id)]).toMatchObject([1, { status: 'paused', checks: 0 }])
    expect(await notices()).toEqual([
      expect.stringContaining(`[WATCHER UPDATE] it (${id}) rests: E_TOOL_DISABLED: 'a.b' is not available.`),
    ])
    expect(logged).toEqual(['a watcher was paused, because its tool is disabled'])
  })

  it('continues after a restart, and ends when its tool is gone', async () => {
    const { process, pass, calls } = rig(() => 1)
    const before = process()
    await before.watchers.start()
    await before.watchers.add(localCaller, watcher({ strategy: 'on_change' }))
    await pass(30_000)
    expect([calls.length, (await before.watchers.list(localCaller)).length]).toEqual([1, 1])
    await before.watchers.stop()
    const after = process({ lacks: true })
    await after.watchers.start()
    await pass(30_000)
    expect(await after.watchers.list(localCaller)).toEqual([])
    expect(await after.notices()).toEqual([expect.stringContaining("ended: E_NOT_FOUND: Tool 'a.b' not found.")])
  })

  it('continues if the tool itself returns nothing', async () => {
    const { process, pass } = rig(() => {
      throw new PegboardError('E_NOT_FOUND', "'a.txt' does not exist.")
    })
    const { watchers } = process()
    await watchers.start()
    await watchers.add(localCaller, watcher())
    await pass(60_000)
    expect((await watchers.list(localCaller)).map(({ checks }) => checks)).toEqual([2])
  })
})

const YEAR = 365 * 24 * HOUR

describe('a changed system clock', () => {
  it('a year ahead and back does not affect a minutely job and a five-second watcher', async () => {
    const { process, pass, calls, clock } = rig()
    const { schedule, watchers } = process()
    await schedule.start()
    await watchers.start()
    const { id: job } = await schedule.add(localCaller, { tool: 'job.run', cron: '* * * * *' })
    const { id: seen } = await watchers.add(localCaller, watcher({ tool: 'watch.look', intervalMs: 5_000 }))
    const count = (name: string) => calls.filter((one) => one === name).length
    await pass(60_000)
    expect([count('job.run'), count('watch.look')]).toEqual([1, 12])
    clock.jump(YEAR)
    await pass(70_000)
    expect([count('job.run'), count('watch.look')]).toEqual([3, 26])
    clock.jump(-YEAR)
    await pass(120_000)
    expect([count('job.run'), count('watch.look')]).toEqual([5, 50])
    expect((await schedule.get(localCaller, job))?.nextAt).toBe(Date.parse('2026-01-01T00:05:00Z'))
    expect((await watchers.get(localCaller, seen))?.nextAt).toBe(Date.parse('2026-01-01T00:04:15Z'))
  })

  it('an hour back stops no watcher and no minutely job, and repeats no job with a time of day', async () => {
    const { process, pass, calls, clock } = rig()
    const { schedule, watchers } = process()
    await schedule.start()
    await watchers.start()
    await schedule.add(localCaller, { tool: 'job.run', cron: '* * * * *' })
    await schedule.add(localCaller, { tool: 'daily.run', cron: '1 0 * * *' })
    await schedule.add(localCaller, { tool: 'once.run', when: 'in 5m' })
    await watchers.add(localCaller, watcher({ tool: 'watch.look' }))
    await pass(120_000)
    clock.jump(-HOUR)
    calls.length = 0
    await pass(5 * 60_000 + 15_000)
    const count = (name: string) => calls.filter((one) => one === name).length
    expect([count('job.run'), count('watch.look'), count('once.run')]).toEqual([5, 10, 1])
    await pass(70 * 60_000)
    expect(count('daily.run')).toBe(0)
  })

  it('a moment back repeats nothing', async () => {
    const { process, pass, calls, clock } = rig()
    const { schedule } = process()
    await schedule.start()
    await schedule.add(localCaller, { tool: 'job.run', cron: '* * * * *' })
    await pass(61_000)
    clock.jump(-2_500)
    await pass(50_000)
    expect(calls).toEqual(['job.run'])
  })

  it('far ahead drops no job as missed for ten minutes, in which it may be corrected', async () => {
    const { process, pass, calls, clock } = rig()
    const { schedule, notices } = process()
    await schedule.start()
    await schedule.add(localCaller, { tool: 'soon.run', when: 'in 30m' })
    await schedule.add(localCaller, { tool: 'late.run', when: '2026-01-02T00:00:00Z', label: 'late' })
    clock.jump(YEAR)
    await pass(9 * 60_000)
    clock.jump(-YEAR)
    await pass(31 * 60_000)
    expect([calls, await notices()]).toEqual([['soon.run'], [expect.stringContaining('Scheduled job')]])
    clock.jump(YEAR)
    await pass(11 * 60_000)
    expect(await notices()).toEqual(['Scheduled job late (late.run) was missed and is dropped.'])
  })

  it('ahead when a job is created gives it no time that a corrected clock would reach in a year', async () => {
    const { process, pass, calls, clock } = rig()
    clock.jump(YEAR)
    const first = process()
    await first.schedule.start()
    await first.watchers.start()
    await first.schedule.add(localCaller, { tool: 'job.run', cron: '* * * * *' })
    await first.schedule.add(localCaller, { tool: 'once.run', when: 'in 5m' })
    await first.watchers.add(localCaller, watcher({ tool: 'watch.look' }))
    await first.schedule.stop()
    await first.watchers.stop()
    clock.jump(-YEAR)
    const second = process()
    await second.schedule.start()
    await second.watchers.start()
    await pass(5 * 60_000 + 1_000)
    const count = (name: string) => calls.filter((one) => one === name).length
    expect([count('job.run'), count('watch.look'), count('once.run')]).toEqual([5, 10, 1])
  })

  it('ahead during work does not make a dead process look alive', async () => {
    const { process, pass, clock, calls } = rig(() => new Promise(() => undefined))
    clock.jump(YEAR)
    const first = process()
    await first.schedule.start()
    await first.schedule.add(localCaller, { tool: 'pay.now', when: 'in 5s', label: 'pay' })
    await pass(6_000)
    first.die()
    clock.jump(-YEAR)
    const second = process()
    await second.schedule.start()
    await pass(120_000)
    expect([calls.length, await second.notices()]).toEqual([
      1,
      [expect.stringContaining('Scheduled job pay (pay.now) was interrupted, and is not run again.')],
    ])
  })
})

describe('a process without a tool, among several', () => {
  const both = async ({ isDisabled = false } = {}) => {
    const one = rig()
    const [without, having] = [one.process({ lacks: true, isDisabled }), one.process()]
    for (const { instance, watchers, schedule } of [without, having]) {
      await instance.join()
      // The process without the tool checks first.
      await watchers.start()
      await schedule.start()
    }
    return { ...one, without, having }
  }

  it('leaves a watcher to the others', async () => {
    const { without, having, pass, calls } = await both()
    await without.watchers.add(localCaller, watcher())
    await pass(5 * 60_000)
    const [seen] = await having.watchers.list(localCaller)
    expect(seen?.checks).toBeGreaterThanOrEqual(4)
    expect(seen?.history.every(({ success }) => success)).toBe(true)
    expect(calls.length).toBeGreaterThan(seen?.checks ?? 0)
    expect(await having.notices()).not.toContainEqual(expect.stringContaining('ended'))
  })

  it('leaves jobs to the others, each to run once', async () => {
    const { without, having, pass } = await both()
    await without.schedule.add(localCaller, { tool: 'a.b', when: 'in 30s', label: 'tea' })
    await without.schedule.add(localCaller, { tool: 'a.b', cron: '*/15 * * * *', maxRuns: 2, label: 'bell' })
    await pass(HOUR)
    const told = [...(await without.notices()), ...(await having.notices())]
    expect(told.filter((text) => text.startsWith('Scheduled job tea'))).toEqual([
      expect.stringMatching(/^Scheduled job tea \(a\.b\)(?:, \d+ s late,)? gave "done"$/),
    ])
    expect(
      told.filter((text) => text.startsWith('Scheduled job bell (a.b)') && text.includes('gave "done"')),
    ).toHaveLength(2)
    expect(told.filter((text) => text.includes('E_NOT_FOUND'))).toEqual([])
    expect(await having.schedule.list(localCaller)).toEqual([])
  })

  it('leaves jobs to the others if the operator disabled the server of their tool here', async () => {
    const { without, having, pass } = await both({ isDisabled: true })
    await without.schedule.add(localCaller, { tool: 'a.b', when: 'in 30s', label: 'tea' })
    await pass(5 * 60_000)
    expect([...(await without.notices()), ...(await having.notices())]).toEqual([
      expect.stringMatching(/^Scheduled job tea \(a\.b\)(?:, \d+ s late,)? gave "done"$/),
    ])
  })

  it('drops a watcher that no process can run for an hour', async () => {
    const one = rig()
    const all = [one.process({ lacks: true }), one.process({ lacks: true })] as const
    for (const { instance, watchers } of all) {
      await instance.join()
      await watchers.start()
    }
    await all[0].watchers.add(localCaller, watcher())
    await one.pass(HOUR / 2)
    expect(await all[0].watchers.list(localCaller)).toHaveLength(1)
    await one.pass(HOUR / 2 + 2 * 60_000)
    expect(await all[0].watchers.list(localCaller)).toEqual([])
    // Each process is asked once, and the one that left it once more.
    expect(one.calls).toHaveLength(3)
    expect([...(await all[0].notices()), ...(await all[1].notices())]).toContainEqual(
      expect.stringContaining("ended: E_NOT_FOUND: Tool 'a.b' not found."),
    )
  })

  it('respects changes made meanwhile', async () => {
    const { without, having, pass } = await both()
    await having.watchers.stop()
    const { id } = await without.watchers.add(localCaller, watcher())
    await pass(40_000)
    expect(await without.watchers.pause(localCaller, id)).toMatchObject({ status: 'paused', nextAt: null })
    await pass(120_000)
    expect(await without.watchers.get(localCaller, id)).toMatchObject({ status: 'paused', checks: 0 })
  })
})
