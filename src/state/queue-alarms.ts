import { randomBytes } from 'node:crypto'
import type { Queue, Worker } from 'bullmq'
import type { Redis } from 'ioredis'
import { type Clock, createJumpDetector, systemClock } from '../core/clock.ts'
import { messageOf } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { lazy } from '../core/once.ts'
import { waitAtMost } from '../core/wait-at-most.ts'
import type { Alarms, PlannedAlarm } from './alarms.ts'
import { convertFailure, createMissingPackageError } from './redis-store.ts'

/** Maximum number of alarms that one process handles at once. */
const CONCURRENCY = 256
/** After this long without a sign of life, another process takes over a process's alarms. */
const LOCK_MS = 10_000
const STALLED_MS = 5_000
/** How often stored items without an alarm are looked for: a process may die before it sets the alarm. */
const CHECK_MS = 5 * 60_000
/** How often this machine's clock is checked, because BullMQ stores alarm times by it. */
const CLOCK_MS = 5_000

export interface QueueOptions {
  readonly connection: () => Redis
  /** Prefix of all Redis keys. */
  readonly prefix: string
  readonly name: string
  readonly clock: Clock
  readonly log: Log
  /** Registers a listener that is called when Redis is reachable again. */
  readonly onReconnect: (listener: () => void) => void
}

/**
 * Alarms shared by all processes on one Redis, as delayed jobs of a BullMQ queue. Each alarm rings in one process,
 * and in another one if that process dies while handling it.
 */
export function createQueueAlarms({ connection, prefix, name, clock, log, onReconnect }: QueueOptions): Alarms {
  let worker: Worker | undefined
  let workerConnection: Redis | undefined
  let cancelLook: (() => void) | undefined
  let cancelClock: (() => void) | undefined
  /** Added to alarm names after a clock change, because alarms set earlier ring at the wrong time. */
  let anew = ''
  const jumped = createJumpDetector(systemClock)
  function watchClock(): void {
    cancelClock = clock.after(CLOCK_MS, watchClock)
    if (jumped() === 0) return
    anew = `-${randomBytes(6).toString('hex')}`
    void setMissingAlarms()
  }
  let planned: (() => Promise<readonly PlannedAlarm[]>) | undefined

  const opening = lazy(async (): Promise<Queue> => {
    const { Queue } = await bullmq()
    const queue = new Queue(name, {
      connection: connection() as never,
      prefix,
      // Nobody reads the event stream.
      streams: { events: { maxLen: 100 } },
      defaultJobOptions: { removeOnComplete: true, removeOnFail: true, attempts: 1 },
    })
    queue.on('error', logError)
    return queue
  })

  let last = ''
  function logError(error: unknown): void {
    if (messageOf(error) === last) return
    last = messageOf(error)
    log.warn('the queue reported an error', { error: last })
  }

  /**
   * The job id makes setting the same alarm twice a no-op. The time is a delay: if this machine's clock is ahead, the
   * alarm rings early, and the listener checks the shared time and sets it again.
   */
  const jobOf = ({ id, at }: PlannedAlarm) => ({
    name: 'ring',
    data: { id },
    opts: { jobId: `${id}-${at}${anew}`, delay: Math.max(0, at - clock.now()) },
  })

  async function setMissingAlarms(): Promise<void> {
    cancelLook?.()
    cancelLook = clock.after(CHECK_MS, () => void setMissingAlarms())
    try {
      const all = (await planned?.()) ?? []
      if (all.length > 0) await (await opening.get()).addBulk(all.map(jobOf))
    } catch (error) {
      log.warn('cannot read the scheduled jobs; Pegboard tries again', { error: messageOf(error) })
    }
  }
  onReconnect(() => {
    if (planned) void setMissingAlarms()
  })

  return {
    async set(id, at) {
      const queue = await opening.get()
      const { name: ring, data, opts } = jobOf({ id, at })
      // An alarm that is ringing now may have been read before the latest change was stored.
      const rings = (await convertFailure(queue.getJobState(opts.jobId))) === 'active'
      const jobId = rings ? `${opts.jobId}-${randomBytes(6).toString('hex')}` : opts.jobId
      await convertFailure(queue.add(ring, data, { ...opts, jobId }))
    },
    // Nothing to do: a needless alarm is ignored by its listener.
    clear() {},
    async start(ring, all) {
      planned = all
      const { Worker } = await bullmq()
      workerConnection = connection().duplicate({ maxRetriesPerRequest: null, commandTimeout: undefined as never })
      workerConnection.on('error', logError)
      worker = new Worker(name, (job) => ring((job.data as { id: string }).id), {
        connection: workerConnection as never,
        prefix,
        concurrency: CONCURRENCY,
        lockDuration: LOCK_MS,
        stalledInterval: STALLED_MS,
        maxStalledCount: 10,
      })
      worker.on('error', logError)
      worker.on('ready', () => {
        last = ''
      })
      worker.on('failed', (_job, error) => log.error('cannot run a due job', { error: messageOf(error) }))
      watchClock()
      await setMissingAlarms()
    },
    async stop() {
      cancelClock?.()
      cancelLook?.()
      planned = undefined
      // Without Redis, closing the worker would wait forever.
      if (worker) await waitAtMost(CLOSE_MS, worker.close(), undefined, clock)
      workerConnection?.disconnect()
      await (await opening.made?.catch(() => undefined))?.close().catch(logError)
    },
  }
}

const CLOSE_MS = 3_000

async function bullmq(): Promise<typeof import('bullmq')> {
  try {
    return await import('bullmq')
  } catch (error) {
    throw createMissingPackageError(error)
  }
}
