import { randomBytes } from 'node:crypto'
import { notFound, overloaded } from '../_errors.ts'
import { endWithoutAccess } from '../_while-allowed.ts'
import type { Command, CommandExit } from './command.ts'

export interface Job {
  readonly id: string
  readonly owner: string
  readonly label: string
  readonly command: Command
  ended?: CommandExit & { readonly at: number }
}

/** Background commands. */
export interface Jobs {
  /**
   * Reserves one of the owner's `max` slots and starts the command, which is ended when `mayGoOn` returns false. All
   * owners together have four times as many slots.
   * @throws ToolError E_OVERLOADED
   */
  add(owner: string, label: string, max: number, start: () => Promise<Command>, hasAccess?: () => boolean): Promise<Job>
  /** @throws ToolError E_NOT_FOUND, also for jobs of others */
  get(owner: string, id: string): Job
  list(owner: string): readonly Job[]
  stop(): Promise<void>
}

/** How long a finished job is remembered, and how many of one owner. */
const KEEP_MS = 3_600_000
const MAX_KEPT = 64
/** Owners that can use all of their slots at once. */
const OWNERS_WITH_ALL_SLOTS = 4

export function createJobs(now: () => number = Date.now): Jobs {
  const jobs = new Map<string, Job>()
  const starting: string[] = []
  let isStopped = false

  function removeOldJobs(): void {
    const countByOwner = new Map<string, number>()
    for (const { id, owner, ended } of [...jobs.values()].reverse()) {
      if (!ended) continue
      const count = (countByOwner.get(owner) ?? 0) + 1
      countByOwner.set(owner, count)
      if (ended.at + KEEP_MS < now() || count > MAX_KEPT) jobs.delete(id)
    }
  }

  return {
    async add(owner, label, max, start, hasAccess) {
      removeOldJobs()
      const running = [...[...jobs.values()].filter(({ ended }) => !ended).map((job) => job.owner), ...starting]
      const ownCount = running.filter((jobOwner) => jobOwner === owner).length
      if (ownCount >= max || running.length >= max * OWNERS_WITH_ALL_SLOTS)
        throw overloaded(
          ownCount >= max
            ? `${ownCount} background commands are already running.`
            : 'Too many background commands of other principals are running.',
          'Wait for one, or stop one with task_kill; see modules.shell.config.max_background.',
        )
      starting.push(owner)
      try {
        const command = await start()
        const job: Job = { id: randomBytes(16).toString('hex'), owner, label, command }
        jobs.set(job.id, job)
        const stopChecking = hasAccess && endWithoutAccess(hasAccess, () => void command.stop('stopped'))
        void command.ended.then((ended) => {
          stopChecking?.()
          job.ended = { ...ended, at: now() }
        })
        // It was started while all jobs were being stopped.
        if (isStopped) await command.stop('stopped')
        return job
      } finally {
        starting.splice(starting.indexOf(owner), 1)
      }
    },
    get(owner, id) {
      removeOldJobs()
      const job = jobs.get(id)
      if (job?.owner === owner) return job
      throw notFound('Unknown background command.', 'task_list lists them; they are removed an hour after their end.')
    },
    list(owner) {
      removeOldJobs()
      return [...jobs.values()].filter((job) => job.owner === owner)
    },
    async stop() {
      isStopped = true
      await Promise.all([...jobs.values()].filter(({ ended }) => !ended).map(({ command }) => command.stop('stopped')))
    },
  }
}
