import { randomBytes } from 'node:crypto'
import { type Caller, type Fetch, isPegboardError, type Log, type Paths, type PegboardError, ToolError } from 'pegboard'
import { notFound, overloaded } from '../_errors.ts'
import { endWithoutAccess } from '../_while-allowed.ts'
import { checkWritable } from '../_writable.ts'
import { SETTING } from './config.ts'
import { CLAIM_S, type DownloadStore, type StoredDownload } from './download-store.ts'
import { type DownloadProgress, fetchResumable, RestartNeeded } from './resumable-fetch.ts'

/** The request as the caller made it; a login is stored by name. */
export interface DownloadOrder {
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
  /** According to the server; absent if unknown. */
  readonly total?: number
  /** How often it was resumed. */
  readonly resumed: number
  /** Why it failed. A plain text would turn the whole answer into an error. */
  readonly error?: { readonly code: string; readonly message: string }
}

/** What a download needs. */
export interface DownloadContext {
  readonly fetch: Fetch
  readonly paths: Paths
  readonly log: Log
  readonly maxBytes: number
  /** Per principal. */
  readonly most: number
  /** Headers of the request, with the login that it names. @throws ToolError */
  headersOf(order: DownloadOrder): Readonly<Record<string, string>>
  /** Storage that outlives this process, if there is one. */
  readonly kept: DownloadStore | undefined
  /** The caller, for `mayGoOn` and `mayResume`. */
  readonly by: unknown
  /** True while an owner still has access. */
  mayGoOn(by: unknown): boolean
  /** True if an owner still has access and may download. */
  mayResume(by: unknown): boolean
}

interface Job {
  readonly owner: string
  readonly by: unknown
  readonly order: DownloadOrder
  readonly abort: AbortController
  state: Download
  mark?: string | undefined
  /** Why it failed, for callers that still wait. */
  failure?: PegboardError
  /** Ended by its timeout. */
  late?: true
  endedAt?: number
  /** Run by another process; this is its last known state. */
  readonly isElsewhere?: true
  done: Promise<void>
}

export interface Downloads {
  begin(owner: Caller, order: DownloadOrder, means: DownloadContext): Promise<Job>
  /** Resumes downloads of a process that has ended. */
  takeUp(means: DownloadContext): Promise<void>
  get(owner: Caller, id: string, means: DownloadContext): Promise<Job>
  list(owner: Caller, means: DownloadContext): Promise<readonly Download[]>
  /** Stops all running downloads. Stored ones are resumed by the next process; others are removed. */
  close(): Promise<void>
}

const FORGOTTEN_MS = 60 * 60_000
const MOST_KEPT = 200
const ownerOf = ({ principal, profile }: Caller): string => JSON.stringify([principal, profile])
const principalOf = (owner: string): unknown => JSON.parse(owner)[0]
/** For all principals together. */
const MOST_RUNNING = 64
const partOf = ({ download_id }: Download, { destination }: DownloadOrder): string =>
  `${destination}.${download_id.slice(0, 8)}.part`

/** Files downloaded in the background. Only their owner sees them; they are forgotten an hour after they end. */
export function createDownloads(now: () => number = () => Date.now()): Downloads {
  const jobs = new Map<string, Job>()
  const adopting = new Map<string, Promise<Job | undefined>>()
  let closing = false
  // Bounded, because the clock may have been set and timers have a maximum.
  const leftOf = ({ endsAt }: DownloadOrder): number => Math.min(Math.max(1, endsAt - now()), 2 ** 31 - 1)

  function forget(): void {
    const over = [...jobs].filter(([, job]) => job.endedAt !== undefined)
    for (const [index, [id, { endedAt = 0 }]] of over.entries())
      if (now() - endedAt > FORGOTTEN_MS || index < over.length - MOST_KEPT) jobs.delete(id)
  }
  const running = (): readonly Job[] =>
    [...jobs.values()].filter(({ endedAt, order }) => endedAt === undefined && order.endsAt > now())
  /** A principal with many downloads does not block others, up to the global limit. */
  const isFull = (owner: string, most: number): boolean => {
    const all = running()
    return (
      all.length >= MOST_RUNNING || all.filter((job) => principalOf(job.owner) === principalOf(owner)).length >= most
    )
  }

  function start(stored: StoredDownload, means: DownloadContext): Job {
    const { owner, by, order, mark, state } = stored
    const job: Job = { owner, by, order, mark, abort: new AbortController(), state, done: Promise.resolve() }
    jobs.set(state.download_id, job)
    job.done = work(job, means)
    return job
  }

  const asKept = ({ owner, by, order, mark, state }: Job): StoredDownload => ({
    owner,
    by,
    order,
    state,
    ...(mark === undefined ? {} : { mark }),
  })

  async function work(job: Job, means: DownloadContext): Promise<void> {
    const { order, state } = job
    const { paths, log, kept } = means
    const part = partOf(state, order)
    const id = state.download_id
    const renewing = kept && setInterval(() => void kept.renew(id).catch(() => undefined), (CLAIM_S * 1000) / 3).unref()
    const stopChecking = endWithoutAccess(
      () => means.mayGoOn(job.by),
      () => job.abort.abort(),
    )
    let leave = false
    // Whatever it is that takes too long.
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
        if (!job.late && !isPegboardError(error)) log.error('a download failed', { error: String(error) })
        job.failure = job.late
          ? new ToolError('The download timed out; nothing was saved.', {
              code: 'E_TIMEOUT',
              hint: 'Set a longer timeout.',
            })
          : isPegboardError(error)
            ? error
            : new ToolError('The download failed; see the log.', { code: 'E_INTERNAL' })
        const { code, message, hint } = job.failure
        job.state = { ...job.state, status: 'failed', error: { code, message: `${message} ${hint}` } }
      }
      if (!leave) await paths.remove(part).catch(warnUnlessMissing(log))
    } finally {
      clearInterval(renewing)
      stopChecking()
      clearTimeout(late)
      job.endedAt = now()
      if (!leave) await kept?.save(asKept(job)).catch(warnUnlessMissing(log))
      await kept?.release(id).catch(warnUnlessMissing(log))
    }
  }

  /** Downloads the missing part of a file. */
  async function fill(
    part: string,
    job: Job,
    { paths, fetch, kept, log, maxBytes, headersOf }: DownloadContext,
  ): Promise<void> {
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
      const tell = ({ resumed, ...progress }: DownloadProgress): void => {
        const { mark, ...more } = progress
        job.state = { ...job.state, ...more, ...(resumed === undefined ? {} : { resumed: before + resumed }) }
        if (!('mark' in progress)) return
        job.mark = mark
        void kept?.save(asKept(job)).catch(warnUnlessMissing(log))
      }
      const pieces = fetchResumable(request, { from, mark: job.mark }, fetch, job.abort.signal, tell)
      try {
        await paths.writeFile(part, pieces, { append: true, keep: true })
      } catch (error) {
        if (!(error instanceof RestartNeeded)) throw error
        again = true
        from = 0
        job.mark = undefined
        job.state = { ...job.state, bytes: 0 }
      }
    }
  }

  /** Concurrent callers share the same resumed download; the claim prevents another process from running it. */
  function adopt(id: string, means: DownloadContext): Promise<Job | undefined> {
    const begun = adopting.get(id) ?? takeOver(id, means).finally(() => adopting.delete(id))
    adopting.set(id, begun)
    return begun
  }

  async function takeOver(id: string, means: DownloadContext): Promise<Job | undefined> {
    const { kept, most } = means
    const found = await kept?.get(id)
    if (!kept || !found || jobs.has(id) || found.state.status !== 'running' || closing || isFull(found.owner, most))
      return undefined
    if (means.mayResume(found.by)) return (await kept.claim(id)) ? start(found, means) : undefined
    const isOver = !means.mayGoOn(found.by) || found.order.endsAt <= now()
    if (isOver && (await kept.claim(id))) await drop(found, means, kept)
    return undefined
  }

  /** Ends a download that cannot be resumed, and removes its file. */
  async function drop(found: StoredDownload, { paths, log }: DownloadContext, store: DownloadStore): Promise<void> {
    const { state, order } = found
    await paths.remove(partOf(state, order)).catch(warnUnlessMissing(log))
    await store.save({ ...found, state: { ...state, status: 'cancelled' } })
    await store.release(state.download_id)
  }

  const downloads: Downloads = {
    async begin(owner, order, means) {
      forget()
      const { kept, most } = means
      if (isFull(ownerOf(owner), most))
        throw overloaded(
          `${Math.min(most, running().length)} downloads are already running.`,
          `Wait for one or cancel it; see ${SETTING}.max_downloads.`,
        )
      const id = randomBytes(16).toString('hex')
      const state = {
        download_id: id,
        status: 'running',
        url: order.url,
        path: order.destination,
        bytes: 0,
        resumed: 0,
      } as const
      const begun = { owner: ownerOf(owner), by: means.by, order, state }
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
      const stored = job ? undefined : await means.kept?.get(id)
      if (stored?.owner === ownerOf(owner))
        return { ...stored, isElsewhere: true, abort: new AbortController(), done: Promise.resolve() }
      throw notFound(
        `Unknown download: "${id.slice(0, 60)}".`,
        'download_list lists them; they are removed an hour after their end.',
      )
    },
    async list(owner, means) {
      forget()
      await downloads.takeUp(means)
      const ownStates = [...jobs.values()].flatMap((job) => (job.owner === ownerOf(owner) ? [job.state] : []))
      const others = ((await means.kept?.list()) ?? []).flatMap((stored) =>
        stored.owner === ownerOf(owner) && !jobs.has(stored.state.download_id) ? [stored.state] : [],
      )
      return [...others, ...ownStates]
    },
    async close() {
      closing = true
      for (const { abort } of jobs.values()) abort.abort()
      await Promise.all([...jobs.values()].map(({ done }) => done))
      jobs.clear()
      // The module may be started again.
      closing = false
    },
  }
  return downloads
}

const warnUnlessMissing =
  (log: Log) =>
  (error: unknown): void => {
    if (!isPegboardError(error) || error.code !== 'E_NOT_FOUND')
      log.warn('temporary files of a download could not be removed', { error: String(error) })
  }
