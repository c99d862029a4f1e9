import { createHmac, randomUUID } from 'node:crypto'
import type { Caller } from '../core/caller.ts'
import { createJumpDetector, ticksOf } from '../core/clock.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import { randomId, toId } from '../core/random-id.ts'
import { type Delivery, textOf } from './channel-delivery.ts'
import { createDueCalls, type DueWorkOptions, isOwnerGone, isToolDisabled } from './due-calls.ts'
import { createDueQueue, type DueEntry, isDueEntry, POSTPONED, type RunResult } from './due-queue.ts'
import { type FailedOutcome, type Outcome, shortenOutcome } from './outcome.ts'
import { isRelative, nextRun, parseScheduleTime, skippedRuns } from './schedule-times.ts'
import { refreshCaller, type StoredCaller, toStoredCaller } from './stored-caller.ts'
import { lastingOwner } from './task-owner.ts'

/** A scheduled call, or a scheduled message. */
export interface Job extends DueEntry {
  readonly caller: StoredCaller
  readonly label?: string
  /** Tool to call; absent: only `message` is delivered. */
  readonly tool?: string
  readonly params?: Readonly<Record<string, unknown>>
  readonly message?: string
  readonly cron?: string
  readonly timezone?: string
  /** Maximum number of runs; 0: no limit. */
  readonly maxRuns: number
  readonly runs: number
  /** The time at which `nextAt` was computed; absent in jobs of earlier versions. */
  readonly plannedAt?: number
  /** The time was given as a span, such as `in 5m`, not as a time of day. */
  readonly relative?: boolean
  readonly lastAt?: number
  /** Number of times that passed without a run, because no process ran or the run before had not ended. */
  readonly skipped?: number
  /** Identifies the current run, and is its `callId`. A repeated run has the same. */
  readonly runKey?: string
  /** Set if the process of a run died, so that the run is repeated. `again.nextAt` is the time of the run after that. */
  readonly again?: { readonly nextAt: number | null }
  /** The current run is a repetition. */
  readonly repeated?: boolean
  /** Number of runs that ended with their process. */
  readonly interrupted?: number
  /** Delay of the current run. */
  readonly lateMs?: number
  /** Error code of the refused runs, while the job is paused. */
  readonly pausedBy?: string
  /** Channel for the results (default: the owner's notices). */
  readonly channel?: string
  readonly last?: Outcome
}

export interface NewJob
  extends Pick<Job, 'label' | 'tool' | 'params' | 'message' | 'cron' | 'timezone' | 'channel'>,
    Partial<Pick<Job, 'maxRuns'>> {
  /** Exactly one of `when` and `cron`. */
  readonly when?: string
}

export type ListedJob = Job & { readonly id: string }
type RepeatedJob = Job & { readonly cron: string }

export interface Scheduler {
  start(): Promise<void>
  /** Adds a job. It replaces a job with the same label. @throws PegboardError E_VALIDATION, E_OVERLOADED */
  add(caller: Caller, job: NewJob): Promise<ListedJob>
  get(caller: Caller, id: string): Promise<ListedJob | undefined>
  list(caller: Caller): Promise<readonly ListedJob[]>
  cancel(caller: Caller, id: string): Promise<ListedJob | undefined>
  stop(): Promise<void>
}

export interface SchedulerOptions extends DueWorkOptions {
  /** True if running a tool twice does no harm. */
  readonly isIdempotent: (who: StoredCaller, name: string) => boolean
  /** Random bytes shared by all processes of one store. */
  key(): Buffer
  /** Maximum delay in milliseconds after which a missed one-time job still runs. */
  readonly graceMs: number
  readonly delivery: Pick<Delivery, 'send'>
}

const isJob = (value: unknown): boolean =>
  isDueEntry(value) && Number.isInteger(value['runs']) && Number.isInteger(value['maxRuns'])

const MAX_JOBS = 500
const MAX_CHARS = 2_000
/** A clock set back by more than this was wrong. After a smaller change, daily jobs are not repeated. */
const WRONG_MS = 3 * 60 * 60_000
/** After the clock was set, no job is dropped as missed for this long, because the clock may be set back. */
const UNSURE_MS = 10 * 60_000
/** A run that starts later than this is reported as late. */
const LATE_MS = 2_000
const INTERRUPTED: Outcome = {
  success: false,
  code: 'E_SHUTTING_DOWN',
  error: 'The server ended while it was running.',
}

export function createScheduler(options: SchedulerOptions): Scheduler {
  const { lookUpRights, lacksTool, isIdempotent, store, clock, log, inbox, instance, alarms, key, graceMs, delivery } =
    options
  const call = createDueCalls(options, 'job')
  const detectJump = createJumpDetector(clock)
  let unsureUntil = Number.NEGATIVE_INFINITY
  function checkClock(): void {
    const jumpMs = detectJump()
    if (jumpMs === 0) return
    unsureUntil = ticksOf(clock) + UNSURE_MS
    log.warn('the clock was set, or the machine slept: jobs follow the new time', {
      seconds: Math.round(jumpMs / 1_000),
    })
  }
  const dueQueue = createDueQueue<Job>({
    alarms,
    table: store.table<Job>('job', isJob),
    clock,
    log,
    instance,
    claim(job, now) {
      if (job.again) {
        const { again, ...rest } = job
        return { ...rest, nextAt: again.nextAt, plannedAt: now, repeated: true }
      }
      const late = now - (job.nextAt ?? now)
      if (!isRepeated(job) && late > graceMs) return undefined
      const runs = job.runs + 1
      const isLastRun = !isRepeated(job) || (job.maxRuns > 0 && runs >= job.maxRuns)
      const { lateMs: _before, repeated: _then, ...rest } = skipMissed(job, now)
      return {
        ...rest,
        runs,
        runKey: randomUUID(),
        plannedAt: now,
        ...(late >= LATE_MS ? { lateMs: late } : {}),
        nextAt: isLastRun ? null : nextRunOf(job, now),
      }
    },
    dropped(job) {
      inbox.add(lastingOwner(job.caller), `Scheduled job ${nameOf(job)} was missed and is dropped.`)
    },
    replan(job, now) {
      checkClock()
      return correctPlan(job, now)
    },
    claimDelayMs(job, now) {
      const isTooLate = !isRepeated(job) && !job.again && now - (job.nextAt ?? now) > graceMs
      return isTooLate ? Math.max(0, unsureUntil - ticksOf(clock)) : 0
    },
    lacksTool: ({ caller, tool }) => tool !== undefined && lacksTool(caller, tool),
    async run(id, _owner, job, mayPostpone) {
      const owner = lastingOwner(job.caller)
      const { caller, tool, params, runKey } = job
      const last =
        tool === undefined
          ? undefined
          : await call({ id, caller, tool, params, callId: runKey, before: job.last, mayPostpone })
      if (last === POSTPONED) return last
      if (last && 'stopped' in last) return afterInterruption(id, owner, job, last.mayRepeat)
      if (isRepeated(job)) {
        if (isOwnerGone(last)) return afterRefusal(id, owner, job, last, 'its owner has no access')
        if (isDisabled(job, last)) return afterRefusal(id, owner, job, last, 'its tool is disabled')
      }
      const notify = async (): Promise<void> => {
        if (job.message !== undefined) inbox.add(owner, `[REMINDER] ${job.message}`)
        else if (last && !(await sendToChannel(job, id, last)))
          inbox.add(owner, `Scheduled job ${nameOf({ ...job, id })}${lateOf(job)} ${formatOutcome(last)}`)
      }
      return { change: (current) => afterRun(current, last, clock.now()), notify }
    },
    abandoned: (id, owner, job) =>
      afterInterruption(
        id,
        owner,
        job,
        !job.repeated && (job.tool === undefined || isIdempotent(job.caller, job.tool)),
      ),
  })

  function afterInterruption(id: string, owner: string, job: Job, mayRepeat: boolean): RunResult<Job> {
    const name = nameOf({ ...job, id })
    const { pausedBy: _before, ...rest } = job
    const interrupted: Job = { ...rest, last: INTERRUPTED, interrupted: (job.interrupted ?? 0) + 1 }
    if (mayRepeat) {
      const now = clock.now()
      return {
        change: () => ({ ...interrupted, nextAt: now, plannedAt: now, again: { nextAt: job.nextAt } }),
        notify: () => inbox.add(owner, `Scheduled job ${name} was interrupted, and is run again.`),
      }
    }
    return {
      change: () => (job.nextAt === null ? undefined : interrupted),
      notify: () => inbox.add(owner, `Scheduled job ${name} was interrupted, and is not run again.`),
    }
  }

  /** True if the operator disabled the tool. A tool can fail with the same code. */
  const isDisabled = ({ caller, tool }: Job, last: Outcome | undefined): last is FailedOutcome =>
    tool !== undefined && isToolDisabled(last) && lacksTool(caller, tool)

  /**
   * Pauses a repeated job until the cause is gone: the run does not count, and the owner gets one notice about all runs
   * until then. A later run finds out whether the cause is gone.
   */
  function afterRefusal(
    id: string,
    owner: string,
    job: RepeatedJob,
    last: FailedOutcome,
    cause: string,
  ): RunResult<Job> {
    return {
      change: (current) => ({
        ...current,
        runs: job.repeated ? current.runs : current.runs - 1,
        nextAt: current.nextAt ?? nextRunOf(job, clock.now()),
        last: shortenOutcome(last),
        pausedBy: last.code,
      }),
      notify() {
        if (job.pausedBy === last.code) return
        if (isToolDisabled(last))
          log.warn('a job was paused, because its tool is disabled', { job: id, tool: job.tool })
        const name = nameOf({ ...job, id })
        inbox.add(owner, `Scheduled job ${name} ${formatOutcome(last)} It is paused while ${cause}.`)
      },
    }
  }

  /** True if the result was sent to the job's channel. */
  async function sendToChannel({ caller, channel }: Job, id: string, last: Outcome): Promise<boolean> {
    if (channel === undefined) return false
    try {
      await delivery.send(refreshCaller(caller, lookUpRights), channel, textOf(last, MAX_CHARS))
      return true
    } catch (error) {
      log.warn('the result of a job could not be sent', { job: id, channel, error: messageOf(error) })
      return false
    }
  }

  const find = async (caller: Caller, id: string): Promise<ListedJob | undefined> => {
    const job = await dueQueue.get(lastingOwner(caller), id)
    return job && { ...job, id }
  }
  const list = async (caller: Caller): Promise<readonly ListedJob[]> =>
    (await dueQueue.list(lastingOwner(caller))).map(({ id, value }) => ({ ...value, id }))

  return {
    start: dueQueue.start,
    async add(caller, { when, ...newJob }) {
      const now = clock.now()
      const nextAt = isRepeated(newJob) ? nextRunOf(newJob, now) : parseScheduleTime(when ?? '', now)
      const owner = lastingOwner(caller)
      const id = newJob.label === undefined ? randomId() : idOf(key(), owner, newJob.label)
      const job: Job = {
        ...newJob,
        caller: toStoredCaller(caller),
        maxRuns: newJob.maxRuns ?? 0,
        runs: 0,
        createdAt: now,
        plannedAt: now,
        ...(when !== undefined && isRelative(when) ? { relative: true } : {}),
        nextAt,
      }
      if (!(await dueQueue.add(id, owner, job, MAX_JOBS)))
        throw new PegboardError('E_OVERLOADED', `There are ${MAX_JOBS} scheduled jobs already.`, {
          hint: 'Cancel some with schedule_cancel.',
        })
      // Earlier versions, or another key, gave the same label another id.
      for (const { id: older, label } of newJob.label === undefined ? [] : await list(caller))
        if (label === newJob.label && older !== id) await dueQueue.change(owner, older, () => undefined)
      return { ...job, id }
    },
    get: find,
    list,
    async cancel(caller, id) {
      const job = await dueQueue.change(lastingOwner(caller), id, () => undefined)
      return job && { ...job, id }
    },
    stop: dueQueue.stop,
  }
}

const isRepeated = <T extends Pick<Job, 'cron'>>(job: T): job is T & { readonly cron: string } => job.cron !== undefined
const nextRunOf = ({ cron, timezone = 'UTC' }: Pick<RepeatedJob, 'cron' | 'timezone'>, after: number): number =>
  nextRun(cron, timezone, after)
const skippedRunsOf = ({ cron, timezone = 'UTC' }: RepeatedJob, from: number, to: number): number =>
  skippedRuns(cron, timezone, from, to)

/** The same id for the same label, so that of two jobs made at once one replaces the other. */
const idOf = (key: Buffer, owner: string, label: string): string =>
  toId(
    createHmac('sha256', key)
      .update(JSON.stringify(['job', owner, label]))
      .digest(),
  )

const nameOf = ({ label, tool, id }: Partial<Pick<ListedJob, 'label' | 'tool' | 'id'>>): string =>
  [label ?? id, tool && `(${tool})`].filter(Boolean).join(' ')

/** The job with a corrected time if it was planned by a clock that was ahead; else `undefined`. */
function correctPlan(job: Job, now: number): Job | undefined {
  const plannedAt = job.plannedAt ?? Math.max(job.createdAt, job.lastAt ?? 0)
  const aheadMs = plannedAt - now
  if (aheadMs < 1_000) return undefined
  // A repeated run is due at any time.
  if (job.again) return { ...job, nextAt: now, plannedAt: now }
  if (job.nextAt === null) return undefined
  // A span is counted again. A time of day is the same on a correct clock.
  if (!isRepeated(job)) return job.relative ? { ...job, nextAt: job.nextAt - aheadMs, plannedAt: now } : undefined
  const nextAt = nextRunOf(job, now)
  const intervalMs = nextRunOf(job, nextAt) - nextAt
  return aheadMs < Math.min(WRONG_MS, intervalMs) ? undefined : { ...job, nextAt, plannedAt: now }
}

/** The job after a run that ended at `at`; undefined if it was the last one. */
function afterRun(job: Job, last: Outcome | undefined, at: number): Job | undefined {
  const { lateMs: _over, pausedBy: _before, nextAt, ...rest } = job
  if (nextAt === null) return undefined
  const done = { ...rest, nextAt, lastAt: at, ...(last ? { last: shortenOutcome(last) } : {}) }
  if (nextAt > at || !isRepeated(job)) return done
  // Runs of one job never overlap, so the times that passed meanwhile are skipped.
  const skipped = (job.skipped ?? 0) + 1 + skippedRunsOf(job, nextAt, at)
  return { ...done, nextAt: nextRunOf(job, at), plannedAt: at, skipped }
}

/** Counts the missed times, without the one that runs now. */
function skipMissed(job: Job, now: number): Job {
  if (!isRepeated(job) || job.nextAt === null) return job
  const missed = skippedRunsOf(job, job.nextAt, now)
  return missed === 0 ? job : { ...job, skipped: (job.skipped ?? 0) + missed }
}

const lateOf = ({ lateMs }: Job): string => (lateMs === undefined ? '' : `, ${Math.round(lateMs / 1_000)} s late,`)

const formatOutcome = (outcome: Outcome): string =>
  outcome.success ? `gave ${JSON.stringify(outcome.data)}` : `failed: ${outcome.error}`
