import { randomBytes } from 'node:crypto'
import { ToolError } from 'pegboard'
import type { Command, Ended } from './command.ts'

export interface Job {
  readonly id: string
  readonly owner: string
  readonly label: string
  readonly command: Command
  ended?: Ended & { readonly at: number }
}

/** Commands in the background. */
export interface Jobs {
  /** Keeps a place and starts. @throws ToolError E_OVERLOADED */
  add(owner: string, label: string, max: number, start: () => Promise<Command>): Promise<Job>
  /** @throws ToolError E_NOT_FOUND, for those of others too */
  get(owner: string, id: string): Job
  list(owner: string): readonly Job[]
  stop(): Promise<void>
}

/** How long one that has ended is remembered. */
const KEPT_MS = 3_600_000
const MAX_KEPT = 64

export function createJobs(now: () => number = Date.now): Jobs {
  const jobs = new Map<string, Job>()
  let starting = 0
  let stopped = false

  function tidy(): void {
    const over = [...jobs.values()].filter(({ ended }) => ended)
    for (const [at, { id, ended }] of over.entries())
      if ((ended?.at ?? 0) + KEPT_MS < now() || at < over.length - MAX_KEPT) jobs.delete(id)
  }

  return {
    async add(owner, label, max, start) {
      tidy()
      const running = [...jobs.values()].filter(({ ended }) => !ended).length + starting
      if (running >= max)
        throw new ToolError(`${running} commands run in the background already.`, {
          code: 'E_OVERLOADED',
          hint: 'Wait for one, or end one with task_kill; modules.shell.config.max_background decides.',
        })
      starting++
      try {
        const command = await start()
        const job: Job = { id: randomBytes(16).toString('hex'), owner, label, command }
        jobs.set(job.id, job)
        void command.ended.then((ended) => {
          job.ended = { ...ended, at: now() }
        })
        // It was started while everything was being ended.
        if (stopped) await command.stop('stopped')
        return job
      } finally {
        starting--
      }
    },
    get(owner, id) {
      tidy()
      const job = jobs.get(id)
      if (job?.owner === owner) return job
      throw new ToolError('There is no such background command.', {
        code: 'E_NOT_FOUND',
        hint: 'task_list shows those there are; they are forgotten an hour after their end.',
      })
    },
    list(owner) {
      tidy()
      return [...jobs.values()].filter((job) => job.owner === owner)
    },
    async stop() {
      stopped = true
      await Promise.all([...jobs.values()].filter(({ ended }) => !ended).map(({ command }) => command.stop('stopped')))
    },
  }
}
