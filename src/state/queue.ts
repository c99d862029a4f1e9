import { randomBytes } from 'node:crypto'
import type { Queue, Worker } from 'bullmq'
import type { Redis } from 'ioredis'
import { type Clock, createJumpDetector, systemClock } from '../core/clock.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import type { Alarms, Planned } from './alarms.ts'
import { reached } from './redis.ts'

/** Alarms rung at once by one process. */
const CONCURRENCY = 256
/** A process that is silent for this long loses what it was doing to another. */
const LOCK_MS = 10_000
const STALLED_MS = 5_000
/** What was kept and not set, because a process died in between, is found again this often. */
const LOOK_MS = 5 * 60_000
/** The clock of this machine is looked at this often: by it BullMQ keeps the times of alarms. */
const CLOCK_MS = 5_000

export interface QueueOptions {
  readonly connection: () => Redis
  /** Of all keys. */
  readonly prefix: string
  readonly name: string
  readonly clock: Clock
  readonly log: Log
  /** Calls back when Redis was away and is there again. */
  readonly onBack: (listener: () => void) => void
}

/**
 * Alarms of all processes on one Redis, as delayed jobs of a BullMQ queue: each rings in one of them, and in another when that dies
 * in the middle.
 */
export function createQueueAlarms({ connection, prefix, name, clock, log, onBack }: QueueOptions): Alarms {
  let opening: Promise<Queue> | undefined
  let worker: Worker | undefined
  let workerConnection: Redis | undefined
  let cancelLook: (() => void) | undefined
  let cancelClock: (() => void) | undefined
  /** Part of the names of alarms since the clock was set: those of before lie at other times than was meant. */
  let anew = ''
  const jumped = createJumpDetector(systemClock)
  function watchClock(): void {
    cancelClock = clock.after(CLOCK_MS, watchClock)
    if (jumped() === 0) return
    anew = `-${randomBytes(6).toString('hex')}`
    void look()
  }
  let planned: (() => Promise<readonly Planned[]>) | undefined

  const open = (): Promise<Queue> => {
    opening ??= openQueue()
    return opening
  }
  async function openQueue(): Promise<Queue> {
    const { Queue } = await bullmq()
    const queue = new Queue(name, {
      connection: connection() as never,
      prefix,
      // Nobody reads them.
      streams: { events: { maxLen: 100 } },
      defaultJobOptions: { removeOnComplete: true, removeOnFail: true, attempts: 1 },
    })
    queue.on('error', trouble)
    return queue
  }

  let last = ''
  function trouble(error: unknown): void {
    if (messageOf(error) === last) return
    last = messageOf(error)
    log.warn('the queue has trouble', { error: last })
  }

  // As a span: a machine whose clock is ahead rings too early, and whoever is rung looks at the common time and sets it again.
  /** The same alarm set twice is one. */
  const jobOf = ({ id, at }: Planned) => ({
    name: 'ring',
    data: { id },
    opts: { jobId: `${id}-${at}${anew}`, delay: Math.max(0, at - clock.now()) },
  })

  async function look(): Promise<void> {
    cancelLook?.()
    cancelLook = clock.after(LOOK_MS, () => void look())
    try {
      const all = (await planned?.()) ?? []
      if (all.length > 0) await (await open()).addBulk(all.map(jobOf))
    } catch (error) {
      log.warn('what is planned could not be looked at; it is tried again', { error: messageOf(error) })
    }
  }
  onBack(() => {
    if (planned) void look()
  })

  return {
    async set(id, at) {
      const queue = await open()
      const { name: ring, data, opts } = jobOf({ id, at })
      // One that rings, here or elsewhere, may have been heard before what is set now was kept.
      const rings = (await reached(queue.getJobState(opts.jobId))) === 'active'
      const jobId = rings ? `${opts.jobId}-${randomBytes(6).toString('hex')}` : opts.jobId
      await reached(queue.add(ring, data, { ...opts, jobId }))
    },
    // It rings for nothing; whoever hears it looks first.
    clear() {},
    async start(ring, all) {
      planned = all
      const { Worker } = await bullmq()
      workerConnection = connection().duplicate({ maxRetriesPerRequest: null, commandTimeout: undefined as never })
      workerConnection.on('error', trouble)
      worker = new Worker(name, (job) => ring((job.data as { id: string }).id), {
        connection: workerConnection as never,
        prefix,
        concurrency: CONCURRENCY,
        lockDuration: LOCK_MS,
        stalledInterval: STALLED_MS,
        maxStalledCount: 10,
      })
      worker.on('error', trouble)
      worker.on('ready', () => {
        last = ''
      })
      worker.on('failed', (_job, error) => log.error('what was due could not be done', { error: messageOf(error) }))
      watchClock()
      await look()
    },
    async stop() {
      cancelClock?.()
      cancelLook?.()
      planned = undefined
      // Without Redis nobody could be told that the worker goes.
      await Promise.race([worker?.close(), new Promise<void>((resolve) => clock.after(CLOSE_MS, resolve))])
      workerConnection?.disconnect()
      await (await opening?.catch(() => undefined))?.close().catch(trouble)
    },
  }
}

const CLOSE_MS = 3_000

async function bullmq(): Promise<typeof import('bullmq')> {
  try {
    return await import('bullmq')
  } catch (error) {
    throw new PegboardError('E_STATE', 'state.url names Redis, and the packages for it are not installed.', {
      hint: 'npm install ioredis bullmq',
      cause: error,
    })
  }
}
