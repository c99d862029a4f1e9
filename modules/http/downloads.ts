import { randomUUID } from 'node:crypto'
import { type Caller, type Fetch, isPegboardError, type Log, type Paths, type PegboardError, ToolError } from 'pegboard'
import { SETTING } from './config.ts'

export interface Order {
  readonly url: string
  readonly destination: string
  readonly overwrite: boolean
  readonly headers: Readonly<Record<string, string>>
  readonly timeoutMs: number
  readonly maxBytes: number
}

export interface Download {
  readonly download_id: string
  readonly status: 'running' | 'completed' | 'failed' | 'cancelled'
  readonly url: string
  readonly path: string
  readonly bytes: number
  /** As the server says; absent when it does not. */
  readonly total?: number
  /** How often it was taken up again where it had broken off. */
  readonly resumed: number
  readonly code?: string
  readonly error?: string
}

interface Job {
  readonly owner: string
  readonly abort: AbortController
  state: Download
  /** Why it failed, for whoever still waits. */
  failure?: PegboardError
  /** When it was over. */
  endedAt?: number
  done: Promise<void>
}

export interface Downloads {
  begin(owner: Caller, order: Order, fetch: Fetch, paths: Paths, most: number, log: Log): Job
  get(owner: Caller, id: string): Job
  list(owner: Caller): readonly Download[]
  /** Ends all that run, and what they had written is gone when it resolves. */
  close(): Promise<void>
}

const KEPT_MS = 60 * 60_000
const MOST_KEPT = 200
const MOST_RESUMES = 5
const ownerOf = ({ principal, profile }: Caller): string => JSON.stringify([principal, profile])

/** Files that are fetched while others go on. They are seen by whoever began them, and forgotten an hour after their end. */
export function createDownloads(now: () => number = () => performance.now()): Downloads {
  const jobs = new Map<string, Job>()

  function forget(): void {
    const over = [...jobs].filter(([, job]) => job.endedAt !== undefined)
    for (const [index, [id, { endedAt = 0 }]] of over.entries())
      if (now() - endedAt > KEPT_MS || index < over.length - MOST_KEPT) jobs.delete(id)
  }

  async function work(job: Job, order: Order, fetch: Fetch, paths: Paths, log: Log): Promise<void> {
    const tell = (change: Partial<Download>): void => {
      job.state = { ...job.state, ...change }
    }
    try {
      const pieces = fetched(order, fetch, job.abort.signal, tell)
      const { path } = await paths.writeFile(order.destination, pieces, { exclusive: !order.overwrite })
      tell({ status: 'completed', path })
    } catch (error) {
      if (job.abort.signal.aborted) return tell({ status: 'cancelled' })
      if (!isPegboardError(error)) log.error('a download broke', { error: String(error) })
      job.failure = isPegboardError(error)
        ? error
        : new ToolError('The download broke; the details are in the log.', { code: 'E_INTERNAL' })
      const { code, message, hint } = job.failure
      tell({ status: 'failed', code, error: `${message} ${hint}` })
    } finally {
      job.endedAt = now()
    }
  }

  return {
    begin(owner, order, fetch, paths, most, log) {
      forget()
      if ([...jobs.values()].filter(({ endedAt }) => endedAt === undefined).length >= most)
        throw new ToolError(`${most} downloads are running already.`, {
          code: 'E_OVERLOADED',
          hint: `Wait for one or cancel it; ${SETTING}.max_downloads decides.`,
        })
      const id = randomUUID()
      const job: Job = {
        owner: ownerOf(owner),
        abort: new AbortController(),
        state: { download_id: id, status: 'running', url: order.url, path: order.destination, bytes: 0, resumed: 0 },
        done: Promise.resolve(),
      }
      jobs.set(id, job)
      job.done = work(job, order, fetch, paths, log)
      return job
    },
    get(owner, id) {
      forget()
      const job = jobs.get(id)
      if (job?.owner === ownerOf(owner)) return job
      throw new ToolError(`There is no download "${id.slice(0, 60)}".`, {
        code: 'E_NOT_FOUND',
        hint: 'List the downloads; they are forgotten an hour after their end.',
      })
    },
    list(owner) {
      forget()
      return [...jobs.values()].flatMap((job) => (job.owner === ownerOf(owner) ? [job.state] : []))
    },
    async close() {
      for (const { abort } of jobs.values()) abort.abort()
      await Promise.all([...jobs.values()].map(({ done }) => done))
      jobs.clear()
    },
  }
}

/** The bytes of a file. Where it breaks off, the rest is asked for, if the server says that the file is still the same. */
async function* fetched(
  { url, headers, timeoutMs, maxBytes }: Order,
  fetch: Fetch,
  signal: AbortSignal,
  tell: (change: Partial<Download>) => void,
): AsyncGenerator<Uint8Array> {
  const endAt = performance.now() + timeoutMs
  let [bytes, resumed] = [0, 0]
  let total: number | undefined
  let mark: string | undefined
  const ask = async (from: number): Promise<Response> => {
    const range: Record<string, string> = from === 0 ? {} : { range: `bytes=${from}-`, 'if-range': mark ?? '' }
    const limits = { timeoutMs: Math.max(1, Math.ceil(endAt - performance.now())), maxBytes, maxWireBytes: maxBytes }
    return await fetch(url, { headers: { ...headers, ...range, 'accept-encoding': 'identity' }, signal, ...limits })
  }
  for (;;) {
    try {
      const answer = await ask(bytes)
      if (!answer.ok) throw new ToolError(`The address answered with the status ${answer.status}; nothing was saved.`)
      if (bytes > 0 && !continues(answer, bytes))
        throw new ToolError('The file changed while it was fetched; nothing was saved.', { hint: 'Begin again.' })
      if (bytes === 0) {
        const etag = answer.headers.get('etag')
        mark = etag && !etag.startsWith('W/') ? etag : undefined
        const length = answer.headers.get('content-length')
        if (length !== null && !answer.headers.has('content-encoding')) total = Number(length)
        if (total !== undefined && total > maxBytes) throw tooLarge(maxBytes)
        tell(total === undefined ? {} : { total })
      }
      for await (const piece of (answer.body ?? []) as AsyncIterable<Uint8Array>) {
        bytes += piece.length
        if (bytes > maxBytes) throw tooLarge(maxBytes)
        yield piece
        tell({ bytes })
      }
      return
    } catch (error) {
      const broke = isPegboardError(error) && error.code === 'E_BACKEND_UNAVAILABLE'
      if (!broke || bytes === 0 || mark === undefined || resumed >= MOST_RESUMES) throw error
      tell({ resumed: ++resumed })
    }
  }
}

const continues = (answer: Response, from: number): boolean =>
  answer.status === 206 && (answer.headers.get('content-range') ?? '').startsWith(`bytes ${from}-`)

const tooLarge = (most: number): ToolError =>
  new ToolError(`The file is larger than ${most} bytes; nothing was saved.`, {
    code: 'E_TOO_LARGE',
    hint: `${SETTING}.max_download decides.`,
  })
