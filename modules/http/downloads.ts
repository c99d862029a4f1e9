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
  readonly maxPerOwner: number
  /** Headers of the request, with the login that it names. @throws ToolError */
  headersOf(order: DownloadOrder): Readonly<Record<string, string>>
  /** Storage that outlives this process, if there is one. */
  readonly store: DownloadStore | undefined
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
  isTimedOut?: true
  endedAt?: number
  /** Run by another process; this is its last known state. */
  readonly isElsewhere?: true
  finished: Promise<void>
}

export interface Downloads {
  begin(owner: Caller, order: DownloadOrder, context: DownloadContext): Promise<Job>
  /** Resumes downloads of a process that has ended. */
  resumeAll(context: DownloadContext): Promise<void>
  get(owner: Caller, id: string, context: DownloadContext): Promise<Job>
  list(owner: Caller, context: DownloadContext): Promise<readonly Download[]>
  /** Stops all running downloads. Stored ones are resumed by the next process; others are removed. */
  close(): Promise<void>
}

const KEEP_MS = 60 * 60_000
const MAX_KEPT = 200
const ownerOf = ({ principal, profile }: Caller): string => JSON.stringify([principal, profile])
const principalOf = (owner: string): unknown => JSON.parse(owner)[0]
/** For all principals together. */
const MAX_RUNNING = 64
const partPath = ({ download_id }: Download, { destination }: DownloadOrder): string =>
  `${destination}.${download_id.slice(0, 8)}.part`

/** Files downloaded in the background. Only their owner sees them; they are forgotten an hour after they end. */
export function createDownloads(now: () => number = () => Date.now()): Downloads {
  const jobs = new Map<string, Job>()
  const resuming = new Map<string, Promise<Job | undefined>>()
  let isClosing = false
  // Bounded, because the clock may have been set and timers have a maximum.
  const remainingMs = ({ endsAt }: DownloadOrder): number => Math.min(Math.max(1, endsAt - now()), 2 ** 31 - 1)

  function removeOldJobs(): void {
    const endedJobs = [...jobs].filter(([, job]) => job.endedAt !== undefined)
    for (const [index, [id, { endedAt = 0 }]] of endedJobs.entries())
      if (now() - endedAt > KEEP_MS || index < endedJobs.length - MAX_KEPT) jobs.delete(id)
  }
  const runningJobs = (): readonly Job[] =>
    [...jobs.values()].filter(({ endedAt, order }) => endedAt === undefined && order.endsAt > now())
  /** A principal with many downloads does not block others, up to the global limit. */
  const isFull = (owner: string, maxPerOwner: number): boolean => {
    const activeJobs = runningJobs()
    return (
      activeJobs.length >= MAX_RUNNING ||
      activeJobs.filter((job) => principalOf(job.owner) === principalOf(owner)).length >= maxPerOwner
    )
  }

  function start(stored: StoredDownload, context: DownloadContext): Job {
    const { owner, by, order, mark, state } = stored
    const job: Job = { owner, by, order, mark, abort: new AbortController(), state, finished: Promise.resolve() }
    jobs.set(state.download_id, job)
    job.finished = runJob(job, context)
    return job
  }

  const toStored = ({ owner, by, order, mark, state }: Job): StoredDownload => ({
    owner,
    by,
    order,
    state,
    ...(mark === undefined ? {} : { mark }),
  })

  async function runJob(job: Job, context: DownloadContext): Promise<void> {
    const { order, state } = job
    const { paths, log, store } = context
    const part = partPath(state, order)
    const id = state.download_id
    const renewTimer =
      store && setInterval(() => void store.renew(id).catch(() => undefined), (CLAIM_S * 1000) / 3).unref()
    const stopChecking = endWithoutAccess(
      () => context.mayGoOn(job.by),
      () => job.abort.abort(),
    )
    let keepPart = false
    // Whatever it is that takes too long.
    const timeoutTimer = setTimeout(() => {
      job.isTimedOut = true
      job.abort.abort()
    }, remainingMs(order))
    timeoutTimer.unref()
    try {
      await checkWritable(paths, order.destination, { exclusive: !order.overwrite })
      await downloadPart(part, job, context)
      const { path } = await paths.move(part, order.destination, { overwrite: order.overwrite })
      job.state = { ...job.state, status: 'completed', path }
    } catch (error) {
      keepPart = isClosing && store !== undefined
      if (job.abort.signal.aborted && !job.isTimedOut) job.state = { ...job.state, status: 'cancelled' }
      else {
        job.failure = job.isTimedOut ? createTimeoutError() : toFailure(error, log)
        const { code, message, hint } = job.failure
        job.state = { ...job.state, status: 'failed', error: { code, message: `${message} ${hint}` } }
      }
      if (!keepPart) await paths.remove(part).catch(warnUnlessMissing(log))
    } finally {
      clearInterval(renewTimer)
      stopChecking()
      clearTimeout(timeoutTimer)
      job.endedAt = now()
      if (!keepPart) await store?.save(toStored(job)).catch(warnUnlessMissing(log))
      await store?.release(id).catch(warnUnlessMissing(log))
    }
  }

  /** Downloads the missing part of a file. */
  async function downloadPart(
    part: string,
    job: Job,
    { paths, fetch, store, log, maxBytes, headersOf }: DownloadContext,
  ): Promise<void> {
    const { order } = job
    const partStat = await paths.stat(part).catch(() => undefined)
    let from = job.mark !== undefined && partStat?.kind === 'file' && partStat.size <= maxBytes ? partStat.size : 0
    const isWhole = from > 0 && from === job.state.total
    if (from > 0) job.state = { ...job.state, bytes: from, resumed: job.state.resumed + 1 }
    for (let isRestarted = true; isRestarted && !isWhole; ) {
      isRestarted = false
      if (from === 0) await paths.writeFile(part, '')
      const request = {
        url: order.url,
        headers: headersOf(order),
        timeoutMs: remainingMs(order),
        maxBytes,
      }
      const before = job.state.resumed
      const onProgress = ({ resumed, ...progress }: DownloadProgress): void => {
        const { mark, ...change } = progress
        job.state = { ...job.state, ...change, ...(resumed === undefined ? {} : { resumed: before + resumed }) }
        if (!('mark' in progress)) return
        job.mark = mark
        void store?.save(toStored(job)).catch(warnUnlessMissing(log))
      }
      const chunks = fetchResumable(request, { from, mark: job.mark }, fetch, job.abort.signal, onProgress)
      try {
        await paths.writeFile(part, chunks, { append: true, keep: true })
      } catch (error) {
        if (!(error instanceof RestartNeeded)) throw error
        isRestarted = true
        from = 0
        job.mark = undefined
        job.state = { ...job.state, bytes: 0 }
      }
    }
  }

  /** Concurrent callers share the same resumed download; the claim prevents another process from running it. */
  function resume(id: string, context: DownloadContext): Promise<Job | undefined> {
    const resumption = resuming.get(id) ?? resumeStored(id, context).finally(() => resuming.delete(id))
    resuming.set(id, resumption)
    return resumption
  }

  async function resumeStored(id: string, context: DownloadContext): Promise<Job | undefined> {
    const { store, maxPerOwner } = context
    const stored = await store?.get(id)
    if (
      !store ||
      !stored ||
      jobs.has(id) ||
      stored.state.status !== 'running' ||
      isClosing ||
      isFull(stored.owner, maxPerOwner)
    )
      return undefined
    if (context.mayResume(stored.by)) return (await store.claim(id)) ? start(stored, context) : undefined
    const hasEnded = !context.mayGoOn(stored.by) || stored.order.endsAt <= now()
    if (hasEnded && (await store.claim(id))) await discard(stored, context, store)
    return undefined
  }

  /** Ends a download that cannot be resumed, and removes its file. */
  async function discard(stored: StoredDownload, { paths, log }: DownloadContext, store: DownloadStore): Promise<void> {
    const { state, order } = stored
    await paths.remove(partPath(state, order)).catch(warnUnlessMissing(log))
    await store.save({ ...stored, state: { ...state, status: 'cancelled' } })
    await store.release(state.download_id)
  }

  const downloads: Downloads = {
    async begin(owner, order, context) {
      removeOldJobs()
      const { store, maxPerOwner } = context
      if (isFull(ownerOf(owner), maxPerOwner))
        throw overloaded(
          `${Math.min(maxPerOwner, runningJobs().length)} downloads are already running.`,
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
      const newJob = { owner: ownerOf(owner), by: context.by, order, state }
      const job = start(newJob, context)
      await store?.claim(id)
      if (job.endedAt === undefined) await store?.save(toStored(job))
      return job
    },
    async resumeAll(context) {
      const storedDownloads = (await context.store?.list()) ?? []
      for (const { state } of storedDownloads) if (state.status === 'running') await resume(state.download_id, context)
    },
    async get(owner, id, context) {
      removeOldJobs()
      const job = jobs.get(id) ?? (await resume(id, context))
      if (job?.owner === ownerOf(owner)) return job
      const stored = job ? undefined : await context.store?.get(id)
      if (stored?.owner === ownerOf(owner))
        return { ...stored, isElsewhere: true, abort: new AbortController(), finished: Promise.resolve() }
      throw notFound(
        `Unknown download: "${id.slice(0, 60)}".`,
        'download_list lists them; they are removed an hour after their end.',
      )
    },
    async list(owner, context) {
      removeOldJobs()
      await downloads.resumeAll(context)
      const ownStates = [...jobs.values()].flatMap((job) => (job.owner === ownerOf(owner) ? [job.state] : []))
      const otherDownloads = ((await context.store?.list()) ?? []).flatMap((stored) =>
        stored.owner === ownerOf(owner) && !jobs.has(stored.state.download_id) ? [stored.state] : [],
      )
      return [...otherDownloads, ...ownStates]
    },
    async close() {
      isClosing = true
      for (const { abort } of jobs.values()) abort.abort()
      await Promise.all([...jobs.values()].map(({ finished }) => finished))
      jobs.clear()
      // The module may be started again.
      isClosing = false
    },
  }
  return downloads
}

const createTimeoutError = (): ToolError =>
  new ToolError('The download timed out; nothing was saved.', { code: 'E_TIMEOUT', hint: 'Set a longer timeout.' })

function toFailure(error: unknown, log: Log): PegboardError {
  if (isPegboardError(error)) return error
  log.error('a download failed', { error: String(error) })
  return new ToolError('The download failed; see the log.', { code: 'E_INTERNAL' })
}

const warnUnlessMissing =
  (log: Log) =>
  (error: unknown): void => {
    if (!isPegboardError(error) || error.code !== 'E_NOT_FOUND')
      log.warn('temporary files of a download could not be removed', { error: String(error) })
  }
