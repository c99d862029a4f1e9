import { Worker } from 'node:worker_threads'

/** What the worker is asked. */
export type Job =
  | { readonly kind: 'read'; readonly html: string; readonly url: string }
  | {
      readonly kind: 'select'
      readonly html: string
      readonly url: string
      /** One for each result, and in it, by name: where it is, and the attribute that says it instead of its text. */
      readonly each: string
      readonly fields: Readonly<Record<string, readonly [selector: string, attribute?: string]>>
    }

/** A page as a reader sees it. */
export interface Article {
  readonly title: string
  readonly markdown: string
  /** All of the page, as no part of it stands out as its content. */
  readonly whole: boolean
  readonly byline?: string
  readonly published?: string
  readonly site?: string
  readonly language?: string
  readonly description?: string
}

export type Row = Readonly<Record<string, string>>

export interface Reader {
  /** `undefined` for a page that cannot be read in time, or at all. */
  read(html: string, url: string): Promise<Article | undefined>
  /** Finds in a page what it has many of. */
  select(job: Omit<Extract<Job, { kind: 'select' }>, 'kind'>): Promise<readonly Row[] | undefined>
  /** Ends the worker; what is read afterwards begins a new one. */
  close(): Promise<void>
}

/** A page that takes longer is made to take longer. */
const MOST_MS = 8_000
const IDLE_MS = 60_000
const MOST_MEMORY_MB = 384

/** Reads one page after the other in a worker, which is there while it is used. */
export function createReader(mostMs = MOST_MS, idleMs = IDLE_MS): Reader {
  let worker: Worker | undefined
  let idle: NodeJS.Timeout | undefined
  let last: Promise<unknown> = Promise.resolve()

  function start(): Worker {
    const made = new Worker(new URL('./reading.cjs', import.meta.url), {
      // Nothing of ours, and what the packages have to say goes nowhere.
      env: {},
      execArgv: [],
      stdout: true,
      stderr: true,
      resourceLimits: { maxOldGenerationSizeMb: MOST_MEMORY_MB },
    })
    // Whoever waits hears of it, too; where nobody does, it is of no matter.
    made.on('error', () => undefined)
    return made
  }

  async function end(): Promise<void> {
    const ended = worker
    worker = undefined
    clearTimeout(idle)
    await ended?.terminate()
  }

  async function work(job: Job): Promise<unknown> {
    clearTimeout(idle)
    worker ??= start()
    const busy = worker
    busy.ref()
    const answer = await new Promise<unknown>((resolve) => {
      const timer = setTimeout(() => done(undefined), mostMs)
      const done = (given: { readonly result: unknown } | undefined): void => {
        clearTimeout(timer)
        busy.off('message', done).off('error', failed).off('exit', failed)
        resolve(given?.result)
      }
      const failed = (): void => done(undefined)
      busy.on('message', done).on('error', failed).on('exit', failed)
      busy.postMessage(job)
    })
    // Whatever went wrong may be going on still.
    if (answer === undefined) await end()
    else {
      busy.unref()
      idle = setTimeout(() => void end(), idleMs)
      idle.unref()
    }
    return answer
  }

  const inTurn = (job: Job): Promise<unknown> => {
    const next = last.then(() => work(job))
    last = next.catch(() => undefined)
    return next
  }

  return {
    read: async (html, url) => (await inTurn({ kind: 'read', html, url })) as Article | undefined,
    select: async (job) => (await inTurn({ kind: 'select', ...job })) as readonly Row[] | undefined,
    async close() {
      await end()
      await last
    },
  }
}
