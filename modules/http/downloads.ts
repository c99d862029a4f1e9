import { randomBytes } from 'node:crypto'
import { type Caller, type Fetch, isPegboardError, type Log, type Paths, type PegboardError, ToolError } from 'pegboard'
import { checkWritable } from '../_writable.ts'
import { SETTING } from './config.ts'
import { Anew, fetched, type Told } from './fetched.ts'
import { CLAIM_S, type Kept, type KeptDownloads } from './kept.ts'

/** What was asked for, as the caller put it: a login is a name in it. */
export interface Order {
  readonly url: string
  readonly destination: string
  readonly overwrite: boolean
  readonly headers: Readonly<Record<string, string>>
  readonly auth?: string
  /** Milliseconds since the epoch. */
  readonly endsAt: number
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
  /** Why it failed. A text would make the whole answer a failure. */
  readonly error?: { readonly code: string; readonly message: string }
}

/** What a download is done with. */
export interface Means {
  readonly fetch: Fetch
  readonly paths: Paths
  readonly log: Log
  readonly maxBytes: number
  /** Of one principal at a time. */
  readonly most: number
  /** The headers of its request, with the login that it names. @throws ToolError */
  headersOf(order: Order): Readonly<Record<string, string>>
  /** What outlives this process, if anything does. */
  readonly kept: KeptDownloads | undefined
}

interface Job {
  readonly owner: string
  readonly order: Order
  readonly abort: AbortController
  state: Download
  mark?: string | undefined
  /** Why it failed, for whoever still waits. */
  failure?: PegboardError
  /** Its timeout ended it. */
  late?: true
  /** When it was over. */
  endedAt?: number
  /** Another process does it, or did: this is what it last said. */
  readonly isElsewhere?: true
  done: Promise<void>
}

export interface Downloads {
  begin(owner: Caller, order: Order, means: Means): Promise<Job>
  /** Goes on with those that a process left behind when it ended. */
  takeUp(means: Means): Promise<void>
  get(owner: Caller, id: string, means: Means): Promise<Job>
  list(owner: Caller, means: Means): Promise<readonly Download[]>
  /** Ends all that run. Those that are kept are gone on with by the next process; of the others nothing is left. */
  close(): Promise<void>
}

const FORGOTTEN_MS = 60 * 60_000
const MOST_KEPT = 200
const ownerOf = ({ principal, profile }: Caller): string => JSON.stringify([principal, profile])
const principalOf = (owner: string): unknown => JSON.parse(owner)[0]
/** Of all principals together. */
const MOST_RUNNING = 64
const partOf = ({ download_id }: Download, { destination }: Order): string =>
  `${destination}.${download_id.slice(0, 8)}.part`

/** Files that are fetched while others go on. They are seen by whoever began them, and forgotten an hour after their end. */
export function createDownloads(now: () => number = () => Date.now()): Downloads {
  const jobs = new Map<string, Job>()
  const adopting = new Map<string, Promise<Job | undefined>>()
  let closing = false
  // A clock that was set meanwhile may say anything; timers take no more.
  const leftOf = ({ endsAt }: Order): number => Math.min(Math.max(1, endsAt - now()), 2 ** 31 - 1)

  function forget(): void {
    const over = [...jobs].filter(([, job]) => job.endedAt !== undefined)
    for (const [index, [id, { endedAt = 0 }]] of over.entries())
      if (now() - endedAt > FORGOTTEN_MS || index < over.length - MOST_KEPT) jobs.delete(id)
  }
  const running = (): readonly Job[] =>
    [...jobs.values()].filter(({ endedAt, order }) => endedAt === undefined && order.endsAt > now())
  /** Whoever has many downloads keeps nobody else from theirs, unless they are very many. */
  const isFull = (owner: string, most: number): boolean => {
    const all = running()
    return (
      all.length >= MOST_RUNNING || all.filter((job) => principalOf(job.owner) === principalOf(owner)).length >= most
    )
  }

  function start(kept: Kept, means: Means): Job {
    const { owner, order, mark, state } = kept
    const job: Job = { owner, order, mark, abort: new AbortController(), state, done: Promise.resolve() }
    jobs.set(state.download_id, job)
    job.done = work(job, means)
    return job
  }

  const asKept = ({ owner, order, mark, state }: Job): Kept => ({
    owner,
    order,
    state,
    ...(mark === undefined ? {} : { mark }),
  })

  async function work(job: Job, means: Means): Promise<void> {
    const { order, state } = job
    const { paths, log, kept } = means
    const part = partOf(state, order)
    const id = state.download_id
    const renewing = kept && setInterval(() => void kept.renew(id).catch(() => undefined), (CLAIM_S * 1000) / 3).unref()
    let leave = false
    // Whatever it is that takes long.
    const late = setTimeout(() => {
      job.late = true
      job.abort.abort()
    }, leftOf(order))
    late.unref()
    try {
      await checkWritable(paths, order.destination, { exclusive: !order.overwrite })
      await fill(part, job, means)
      const { path } = await paths.move(part, order.destination, { overwrite: order.overwrite })
      job.state = { ...job.state, status: 'completed', path }
    } catch (error) {
      leave = closing && kept !== undefined
      if (job.abort.signal.aborted && !job.late) job.state = { ...job.state, status: 'cancelled' }
      else {
        if (!job.late && !isPegboardError(error)) log.error('a download broke', { error: String(error) })
        job.failure = job.late
          ? new ToolError('The download took longer than its timeout; nothing was saved.', {
              code: 'E_TIMEOUT',
              hint: 'Allow more time.',
            })
          : isPegboardError(error)
            ? error
            : new ToolError('The download broke; the details are in the log.', { code: 'E_INTERNAL' })
        const { code, message, hint } = job.failure
        job.state = { ...job.state, status: 'failed', error: { code, message: `${message} ${hint}` } }
      }
      if (!leave) await paths.remove(part).catch(unlessGone(log))
    } finally {
      clearInterval(renewing)
      clearTimeout(late)
      job.endedAt = now()
      if (!leave) await kept?.save(asKept(job)).catch(unlessGone(log))
      await kept?.release(id).catch(unlessGone(log))
    }
  }

  /** Writes what is missing of the file into its part. */
  async function fill(part: string, job: Job, { paths, fetch, kept, log, maxBytes, headersOf }: Means): Promise<void> {
    const { order } = job
    const there = await paths.stat(part).catch(() => undefined)
    let from = job.mark !== undefined && there?.kind === 'file' && there.size <= maxBytes ? there.size : 0
    const isWhole = from > 0 && from === job.state.total
    if (from > 0) job.state = { ...job.state, bytes: from, resumed: job.state.resumed + 1 }
    for (let again = true; again && !isWhole; ) {
      again = false
      if (from === 0) await paths.writeFile(part, '')
      const request = {
        url: order.url,
        headers: headersOf(order),
        timeoutMs: leftOf(order),
        maxBytes,
      }
      const before = job.state.resumed
      const tell = ({ resumed, ...told }: Told): void => {
        const { mark, ...more } = told
        job.state = { ...job.state, ...more, ...(resumed === undefined ? {} : { resumed: before + resumed }) }
        if (!('mark' in told)) return
        job.mark = mark
        void kept?.save(asKept(job)).catch(unlessGone(log))
      }
      const pieces = fetched(request, { from, mark: job.mark }, fetch, job.abort.signal, tell)
      try {
        await paths.writeFile(part, pieces, { append: true, keep: true })
      } catch (error) {
        if (!(error instanceof Anew)) throw error
        again = true
        from = 0
        job.mark = undefined
        job.state = { ...job.state, bytes: 0 }
      }
    }
  }

  /** All who want one that was left behind get the same: what we have claimed is nobody else's. */
  function adopt(id: string, means: Means): Promise<Job | undefined> {
    const begun = adopting.get(id) ?? takeOver(id, means).finally(() => adopting.delete(id))
    adopting.set(id, begun)
    return begun
  }

  async function takeOver(id: string, means: Means): Promise<Job | undefined> {
    const { kept, most } = means
    const found = await kept?.get(id)
    if (!kept || !found || jobs.has(id) || found.state.status !== 'running' || closing || isFull(found.owner, most))
      return undefined
    if (!(await kept.claim(id))) return undefined
    return start(found, means)
  }

  const downloads: Downloads = {
    async begin(owner, order, means) {
      forget()
      const { kept, most } = means
      if (isFull(ownerOf(owner), most))
        throw new ToolError(`${Math.min(most, running().length)} downloads are running already.`, {
          code: 'E_OVERLOADED',
          hint: `Wait for one or cancel it; ${SETTING}.max_downloads decides.`,
        })
      const id = randomBytes(16).toString('hex')
      const state = {
        download_id: id,
        status: 'running',
        url: order.url,
        path: order.destination,
        bytes: 0,
        resumed: 0,
      } as const
      const begun = { owner: ownerOf(owner), order, state }
      const job = start(begun, means)
      await kept?.claim(id)
      if (job.endedAt === undefined) await kept?.save(asKept(job))
      return job
    },
    async takeUp(means) {
      const left = (await means.kept?.list()) ?? []
      for (const { state } of left) if (state.status === 'running') await adopt(state.download_id, means)
    },
    async get(owner, id, means) {
      forget()
      const job = jobs.get(id) ?? (await adopt(id, means))
      if (job?.owner === ownerOf(owner)) return job
      const kept = job ? undefined : await means.kept?.get(id)
      if (kept?.owner === ownerOf(owner))
        return { ...kept, isElsewhere: true, abort: new AbortController(), done: Promise.resolve() }
      throw new ToolError(`There is no download "${id.slice(0, 60)}".`, {
        code: 'E_NOT_FOUND',
        hint: 'List the downloads; they are forgotten an hour after their end.',
      })
    },
    async list(owner, means) {
      forget()
      await downloads.takeUp(means)
      const known = [...jobs.values()].flatMap((job) => (job.owner === ownerOf(owner) ? [job.state] : []))
      const others = ((await means.kept?.list()) ?? []).flatMap((kept) =>
        kept.owner === ownerOf(owner) && !jobs.has(kept.state.download_id) ? [kept.state] : [],
      )
      return [...others, ...known]
    },
    async close() {
      closing = true
      for (const { abort } of jobs.values()) abort.abort()
      await Promise.all([...jobs.values()].map(({ done }) => done))
      jobs.clear()
      // The same module may be started again.
      closing = false
    },
  }
  return downloads
}

const unlessGone =
  (log: Log) =>
  (error: unknown): void => {
    if (!isPegboardError(error) || error.code !== 'E_NOT_FOUND')
      log.warn('what is left of a download could not be tidied up', { error: String(error) })
  }
