import { createHmac, randomUUID } from 'node:crypto'
import { type Clock, createJumpDetector, ticksOf } from '../core/clock.ts'
import type { Caller } from '../core/context.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import { asHandle, newHandle } from '../core/handle.ts'
import type { Log } from '../core/log.ts'
import type { ToolResult } from '../core/result.ts'
import type { Alarms } from '../state/alarms.ts'
import type { Store } from '../state/store.ts'
import type { CallRequest } from './call.ts'
import { type Delivery, textOf } from './delivery.ts'
import { createDues, type Due, isDue, LEFT } from './dues.ts'
import type { Inbox } from './inbox.ts'
import type { Instance } from './instance.ts'
import { type Lacks, onBehalf } from './on-behalf.ts'
import type { Outcome } from './outcome.ts'
import { lastingOwner } from './owner.ts'
import { callerAgain, callerNow, type RightsNow, type StoredCaller, storedCaller } from './stored-caller.ts'
import { isRelative, momentOf, nextOf, skippedBy } from './when.ts'

/** A call, or a line of text, that comes later. */
export interface Job extends Due {
  readonly caller: StoredCaller
  readonly label?: string
  /** What is called; absent: only `message` is told. */
  readonly tool?: string
  readonly params?: Readonly<Record<string, unknown>>
  readonly message?: string
  readonly cron?: string
  readonly timezone?: string
  /** 0 has no end. */
  readonly maxRuns: number
  readonly runs: number
  /** What the clock said when `nextAt` was computed; absent in jobs of earlier versions. */
  readonly plannedAt?: number
  /** `nextAt` is a span after `plannedAt`, not a time of day. */
  readonly relative?: boolean
  readonly lastAt?: number
  /** Times that passed without a run, because nothing ran then or the run before was not over. */
  readonly skipped?: number
  /** Names the run that is under way, and is its `callId`; the same when it is begun again. */
  readonly runKey?: string
  /** The process of the run has died: it is begun once more, and the next time after that is `nextAt`. */
  readonly again?: { readonly nextAt: number | null }
  /** The run that is under way was begun before. */
  readonly repeated?: boolean
  /** How many runs ended with their process. */
  readonly interrupted?: number
  /** How much too late the run that is under way began. */
  readonly lateMs?: number
  /** Where what comes of it is sent; default its owner's notices. */
  readonly channel?: string
  readonly last?: Outcome
}

export interface NewJob {
  readonly label?: string
  readonly tool?: string
  readonly params?: Readonly<Record<string, unknown>>
  readonly message?: string
  /** One of these two. */
  readonly when?: string
  readonly cron?: string
  readonly timezone?: string
  readonly maxRuns?: number
  readonly channel?: string
}

export type Listed = Job & { readonly id: string }

export interface Schedule {
  start(): Promise<void>
  /** A job of the same label takes the place of the older one. @throws PegboardError E_VALIDATION, E_OVERLOADED */
  add(caller: Caller, job: NewJob): Promise<Listed>
  get(caller: Caller, id: string): Promise<Listed | undefined>
  list(caller: Caller): Promise<readonly Listed[]>
  cancel(caller: Caller, id: string): Promise<Listed | undefined>
  stop(): Promise<void>
}

export interface ScheduleOptions {
  readonly call: (request: CallRequest) => Promise<ToolResult>
  readonly rightsNow: RightsNow
  readonly lacks: Lacks
  /** Whether a tool does no harm when a run of it is made again. */
  readonly isIdempotent: (who: StoredCaller, name: string) => boolean
  readonly store: Store
  readonly clock: Clock
  readonly log: Log
  readonly inbox: Inbox
  readonly instance: Instance
  readonly alarms: Alarms
  /** Random bytes that all processes of the same store know. */
  key(): Buffer
  /** How late a missed one-shot may still run after a restart. */
  readonly graceMs: number
  readonly delivery: Pick<Delivery, 'send'>
}

const isJob = (value: unknown): boolean =>
  isDue(value) && Number.isInteger(value['runs']) && Number.isInteger(value['maxRuns'])

const MAX_JOBS = 500
const MAX_CHARS = 2_000
/** A clock that was set back by more than this was wrong before; by less, daily jobs of that time are not repeated. */
const WRONG_MS = 3 * 60 * 60_000
/** So long after the clock was set nothing is dropped as missed: it may be set back. */
const UNSURE_MS = 10 * 60_000
/** A run that begins later than this is told as late. */
const LATE_MS = 2_000
const INTERRUPTED: Outcome = {
  success: false,
  code: 'E_SHUTTING_DOWN',
  error: 'The server ended while it was running.',
}

export function createSchedule({
  call,
  rightsNow,
  lacks,
  isIdempotent,
  store,
  clock,
  log,
  inbox,
  instance,
  alarms,
  key,
  graceMs,
  delivery,
}: ScheduleOptions): Schedule {
  const run = onBehalf(call, rightsNow)
  const jumped = createJumpDetector(clock)
  let unsureUntil = Number.NEGATIVE_INFINITY
  function noticeJump(): void {
    const by = jumped()
    if (by === 0) return
    unsureUntil = ticksOf(clock) + UNSURE_MS
    log.warn('the clock was set, or the machine slept: jobs go by the new time', { seconds: Math.round(by / 1_000) })
  }
  const dues = createDues<Job>({
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
      if (job.cron === undefined && late > graceMs) {
        inbox.add(lastingOwner(callerAgain(job.caller)), `Scheduled job ${nameOf(job)} was missed and is dropped.`)
        return undefined
      }
      const runs = job.runs + 1
      const over = job.cron === undefined || (job.maxRuns > 0 && runs >= job.maxRuns)
      const { lateMs: _before, repeated: _then, ...rest } = skipping(job, now)
      return {
        ...rest,
        runs,
        runKey: randomUUID(),
        plannedAt: now,
        ...(late >= LATE_MS ? { lateMs: late } : {}),
        nextAt: over ? null : nextOf(job.cron as string, job.timezone ?? 'UTC', now),
      }
    },
    replan(job, now) {
      noticeJump()
      return replanned(job, now)
    },
    hold({ cron, nextAt, again }, now) {
      const tooLate = cron === undefined && !again && now - (nextAt ?? now) > graceMs
      return tooLate ? Math.max(0, unsureUntil - ticksOf(clock)) : 0
    },
    lacks: ({ caller, tool }) => tool !== undefined && lacks(caller, tool),
    async run(id, _owner, job, mayLeave) {
      const owner = lastingOwner(callerAgain(job.caller))
      const last = job.tool === undefined ? undefined : await run(job.caller, job.tool, job.params ?? {}, job.runKey)
      if (last?.success === false && last.code === 'E_NOT_FOUND' && job.tool !== undefined)
        if (lacks(job.caller, job.tool) && (await mayLeave())) {
          log.warn('a job is left to other processes, because its tool is not in this one', { job: id, tool: job.tool })
          return LEFT
        }
      if (last?.success === false && last.code === 'E_OWNER_GONE')
        log.warn('a job was refused, because its owner may not come in any more', { job: id, error: last.error })
      const tell = async (): Promise<void> => {
        if (job.message !== undefined) inbox.add(owner, `[REMINDER] ${job.message}`)
        else if (last && !(await sent(job, id, last)))
          inbox.add(owner, `Scheduled job ${nameOf({ ...job, id })}${lateOf(job)} ${said(last)}`)
      }
      const change = (now: Job): Job | undefined => {
        if (now.nextAt === null) return undefined
        const at = clock.now()
        const { lateMs: _over, ...rest } = now
        const done = { ...rest, lastAt: at, ...(last ? { last } : {}) }
        // It never runs twice at once: the times that came meanwhile are over.
        if (now.nextAt > at || now.cron === undefined) return done
        const { timezone = 'UTC' } = now
        return {
          ...done,
          nextAt: nextOf(now.cron, timezone, at),
          plannedAt: at,
          skipped: (now.skipped ?? 0) + 1 + skippedBy(now.cron, timezone, now.nextAt, at),
        }
      }
      return { change, tell }
    },
    abandoned(id, owner, job) {
      const name = nameOf({ ...job, id })
      const ended: Job = { ...job, last: INTERRUPTED, interrupted: (job.interrupted ?? 0) + 1 }
      if (!job.repeated && (job.tool === undefined || isIdempotent(job.caller, job.tool))) {
        inbox.add(owner, `Scheduled job ${name} was interrupted, and is run again.`)
        const now = clock.now()
        return { ...ended, nextAt: now, plannedAt: now, again: { nextAt: job.nextAt } }
      }
      inbox.add(owner, `Scheduled job ${name} was interrupted, and is not run again.`)
      return job.nextAt === null ? undefined : ended
    },
  })

  /** Whether what came of it is where its owner wants it. */
  async function sent({ caller, channel }: Job, id: string, last: Outcome): Promise<boolean> {
    if (channel === undefined) return false
    try {
      await delivery.send(callerNow(caller, rightsNow), channel, textOf(last, MAX_CHARS))
      return true
    } catch (error) {
      log.warn('the result of a job could not be sent', { job: id, channel, error: messageOf(error) })
      return false
    }
  }

  const find = async (caller: Caller, id: string): Promise<Listed | undefined> => {
    const job = await dues.get(lastingOwner(caller), id)
    return job && { ...job, id }
  }
  const list = async (caller: Caller): Promise<readonly Listed[]> =>
    (await dues.list(lastingOwner(caller))).map(({ id, value }) => ({ ...value, id }))

  return {
    start: dues.start,
    async add(caller, { when, ...given }) {
      const now = clock.now()
      const nextAt =
        given.cron === undefined ? momentOf(when ?? '', now) : nextOf(given.cron, given.timezone ?? 'UTC', now)
      const owner = lastingOwner(caller)
      const id = given.label === undefined ? newHandle() : idOf(key(), owner, given.label)
      const job: Job = {
        ...given,
        caller: storedCaller(caller),
        maxRuns: given.maxRuns ?? 0,
        runs: 0,
        createdAt: now,
        plannedAt: now,
        ...(when !== undefined && isRelative(when) ? { relative: true } : {}),
        nextAt,
      }
      if (!(await dues.add(id, owner, job, MAX_JOBS)))
        throw new PegboardError('E_OVERLOADED', `There are ${MAX_JOBS} scheduled jobs already.`, {
          hint: 'Cancel some with schedule_cancel.',
        })
      // One that was named otherwise: by an earlier version, or with another key.
      for (const { id: older, label } of given.label === undefined ? [] : await list(caller))
        if (label === given.label && older !== id) await dues.change(owner, older, () => undefined)
      return { ...job, id }
    },
    get: find,
    list,
    async cancel(caller, id) {
      const job = await dues.change(lastingOwner(caller), id, () => undefined)
      return job && { ...job, id }
    },
    stop: dues.stop,
  }
}

/** The same for the same label: of two that are made at once one takes the place of the other. */
const idOf = (key: Buffer, owner: string, label: string): string =>
  asHandle(
    createHmac('sha256', key)
      .update(JSON.stringify(['job', owner, label]))
      .digest(),
  )

const nameOf = ({
  label,
  tool,
  id,
}: {
  readonly label?: string
  readonly tool?: string
  readonly id?: string
}): string => [label ?? id, tool && `(${tool})`].filter(Boolean).join(' ')

/** With its next time by the clock of now, where the kept one was computed when the clock was ahead; else `undefined`. */
function replanned(job: Job, now: number): Job | undefined {
  const plannedAt = job.plannedAt ?? Math.max(job.createdAt, job.lastAt ?? 0)
  const ahead = plannedAt - now
  // One that is begun again is due whatever the clock says.
  if (job.again && ahead >= 1_000) return { ...job, nextAt: now, plannedAt: now }
  if (ahead < 1_000 || job.nextAt === null) return undefined
  if (job.cron === undefined) return job.relative ? { ...job, nextAt: job.nextAt - ahead, plannedAt: now } : undefined
  const { cron, timezone = 'UTC' } = job
  const nextAt = nextOf(cron, timezone, now)
  const interval = nextOf(cron, timezone, nextAt) - nextAt
  return ahead < Math.min(WRONG_MS, interval) ? undefined : { ...job, nextAt, plannedAt: now }
}

/** With the times that passed before now, but for the one that is made up for. */
function skipping(job: Job, now: number): Job {
  if (job.cron === undefined || job.nextAt === null) return job
  const missed = skippedBy(job.cron, job.timezone ?? 'UTC', job.nextAt, now)
  return missed === 0 ? job : { ...job, skipped: (job.skipped ?? 0) + missed }
}

const lateOf = ({ lateMs }: Job): string => (lateMs === undefined ? '' : `, ${Math.round(lateMs / 1_000)} s late,`)

const said = (outcome: Outcome): string =>
  outcome.success ? `gave ${JSON.stringify(outcome.data)}` : `failed: ${outcome.error}`
