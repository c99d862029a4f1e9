import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Caller } from '../core/caller.ts'
import type { Clock } from '../core/clock.ts'
import { createEmitter } from '../core/emitter.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { createSemaphore } from '../core/semaphore.ts'
import { createProcessMark, hasEnded } from '../state/process-mark.ts'
import type { ResultAnswer, ResultQuery, ResultSummary } from './result-query.ts'
import type { ThreadAnswer, ThreadRequest } from './result-thread.ts'
import type { KeptResultsSettings } from './results-options.ts'

/** Scheme of the addresses under which clients read whole results as resources. */
export const RESULT_SCHEME = 'keptresult://'

/** Results belong to a principal in a profile. */
export type ResultOwner = Pick<Caller, 'principal' | 'profile' | 'session'>

export interface NewResult {
  readonly data: string | Uint8Array
  /** Media type; a text is read as lines, or as JSON if it is JSON. */
  readonly mimeType: string
  /** What it is, such as the name of the tool. */
  readonly title: string
}

export interface KeptResult {
  /** The name by which its owner reads it. */
  readonly handle: string
  readonly title: string
  readonly mimeType: string
  readonly bytes: number
  readonly isText: boolean
  /** When it is deleted, in milliseconds since the epoch. */
  readonly until: number
}

/** Results that are too long for a model, in private files. */
export interface ResultStore {
  /** Keeps a result. Undefined if it cannot be written, because the disk is full or it alone exceeds `maxBytes`. */
  keep(owner: ResultOwner, result: NewResult): Promise<KeptResult | undefined>
  /** Undefined if it is gone, or belongs to another principal or profile. */
  get(owner: ResultOwner, handle: string): KeptResult | undefined
  /** @throws PegboardError E_NOT_FOUND where `get` returns undefined */
  require(owner: ResultOwner, handle: string): KeptResult
  /** Whether the principal has any result. */
  has(owner: ResultOwner): boolean
  /** Calls the listener when `has` may have changed for somebody. Returns how to stop. */
  onChange(listener: () => void): () => void
  /** The whole result, for programs; undefined as `get`. */
  read(owner: ResultOwner, handle: string): Promise<Buffer | undefined>
  /** Keeps it until its time is over, also when its session ends. */
  keepAfterSession(owner: ResultOwner, handle: string): void
  /**
   * Describes a text, or answers a question about it, in a thread. The thread is stopped at the time limit, because a
   * regular expression may take forever.
   * @param tokens maximum of the preview or of the answer's text
   * @throws PegboardError E_NOT_FOUND, E_VALIDATION, E_TIMEOUT, E_OVERLOADED
   */
  summarize(owner: ResultOwner, handle: string, tokens: number): Promise<ResultSummary>
  query(
    owner: ResultOwner,
    handle: string,
    query: ResultQuery,
    tokens: number,
    signal?: AbortSignal,
  ): Promise<ResultAnswer>
  /** Deletes the results of a session that has ended. */
  forget(session: string): void
  close(): void
}

export interface ResultStoreOptions {
  /** Folder of the results of all processes. */
  readonly dir: string
  readonly settings: KeptResultsSettings
  readonly clock: Clock
  readonly log: Log
  /** Path of the compiled thread. */
  readonly thread: string
  /** Rejects if the disk of the folder would be nearly full with this many more bytes. */
  readonly checkFreeSpace?: (folder: string, bytes: number) => Promise<void>
  /** True if other processes serve the same clients. They keep their results themselves. */
  readonly hasOthers?: boolean
  /** Time limit of one question, in milliseconds; default 20,000. */
  readonly patienceMs?: number
}

interface Entry extends KeptResult {
  readonly file: string
  readonly principal: string
  readonly profile: string
  readonly session: string | undefined
  afterSession: boolean
}

/** Threads that read results have a low priority: on a busy machine, the end of a log of 50 MB took 6 s. */
const PATIENCE_MS = 20_000
const THREAD_LIMITS = { maxOldGenerationSizeMb: 1_024, maxYoungGenerationSizeMb: 64 }
/** One principal can use seven eighths of a semaphore. With fewer than eight threads, it could use all of them. */
const THREADS = { maxConcurrent: 8, maxQueued: 64, setting: '' }
/** Results of all principals together, in multiples of what one may have. */
const SHARES = 8
const MARK = 'process'
/** Folders of processes that cannot be checked, such as those of another machine, are deleted after this time. */
const OLD_MS = 24 * 60 * 60_000

export function createResultStore(options: ResultStoreOptions): ResultStore {
  const { dir, settings, clock, log, thread, patienceMs = PATIENCE_MS } = options
  // Oldest first.
  const entries = new Map<string, Entry>()
  const changed = createEmitter<[]>()
  const turns = createSemaphore(THREADS)
  let own: string | undefined
  let cancelSweep: (() => void) | undefined

  /** The folder of this process, made with the first result. */
  function folder(): string {
    if (own !== undefined) return own
    mkdirSync(dir, { recursive: true, mode: 0o700 })
    removeEnded(dir, clock.now())
    const newDir = join(dir, `${process.pid}-${randomBytes(4).toString('hex')}`)
    mkdirSync(newDir, { mode: 0o700 })
    const mark = createProcessMark()
    if (mark !== undefined) writeFileSync(join(newDir, MARK), mark, { mode: 0o600 })
    own = newDir
    return newDir
  }

  function find({ principal, profile }: ResultOwner, handle: string): Entry | undefined {
    const entry = entries.get(handle)
    return entry && entry.principal === principal && entry.profile === profile && entry.until > clock.now()
      ? entry
      : undefined
  }

  function findOrThrow(owner: ResultOwner, handle: string): Entry {
    const entry = find(owner, handle)
    if (entry) return entry
    throw new PegboardError('E_NOT_FOUND', `Result '${handle.slice(0, 80)}' not found.`, {
      hint: options.hasOthers
        ? 'It was deleted, or another server behind the same address keeps it. Try again; if that fails, call the tool again.'
        : 'Results are deleted after a while: call the tool again.',
      retryable: options.hasOthers,
    })
  }

  const has = ({ principal, profile }: Pick<ResultOwner, 'principal' | 'profile'>): boolean =>
    [...entries.values()].some((entry) => entry.principal === principal && entry.profile === profile)

  function drop(entry: Entry): void {
    entries.delete(entry.handle)
    if (!has(entry)) changed.emit()
    void rm(entry.file, { force: true }).catch((error: unknown) =>
      log.warn('cannot delete a kept result', { error: messageOf(error) }),
    )
  }

  /** Deletes the oldest results of a principal, and then those of the principal that has most. */
  function makeRoom(principal: string): void {
    const of = (who: string): Entry[] => [...entries.values()].filter((entry) => entry.principal === who)
    const sum = (some: Iterable<Entry>): number => [...some].reduce((all, { bytes }) => all + bytes, 0)
    for (const entry of of(principal)) {
      const own = of(principal)
      if (own.length <= settings.maxCount && sum(own) <= settings.maxBytes) break
      drop(entry)
    }
    while (sum(entries.values()) > SHARES * settings.maxBytes) {
      const principals = [...new Set([...entries.values()].map((entry) => entry.principal))]
      const [most = ''] = principals.sort((a, b) => sum(of(b)) - sum(of(a)))
      drop(of(most)[0] as Entry)
    }
  }

  function sweep(): void {
    cancelSweep = undefined
    const now = clock.now()
    for (const entry of entries.values()) {
      if (entry.until > now) break
      drop(entry)
    }
    const [oldest] = entries.values()
    if (oldest) cancelSweep = clock.after(Math.max(1, oldest.until - now), sweep)
  }

  async function ask(owner: ResultOwner, request: ThreadRequest, signal?: AbortSignal): Promise<ThreadAnswer> {
    await turns.acquire(signal ?? new AbortController().signal, owner.principal)
    try {
      return await inThread(thread, request, patienceMs, signal)
    } finally {
      turns.release(owner.principal)
    }
  }

  return {
    async keep(owner, { data, mimeType, title }) {
      const bytes = typeof data === 'string' ? Buffer.byteLength(data) : data.length
      if (bytes > settings.maxBytes) return undefined
      let handle = newHandle()
      while (entries.has(handle)) handle = newHandle()
      let file: string | undefined
      try {
        await options.checkFreeSpace?.(folder(), bytes)
        file = join(folder(), handle)
        await writeFile(file, data, { mode: 0o600, flag: 'wx' })
        const { principal, profile, session } = owner
        const until = clock.now() + settings.keepMs
        const stored = { handle, title, mimeType, bytes, isText: typeof data === 'string', until }
        entries.set(handle, { ...stored, file, principal, profile, session, afterSession: false })
        makeRoom(principal)
        changed.emit()
        cancelSweep ??= clock.after(settings.keepMs, sweep)
        return entries.get(handle)
      } catch (error) {
        log.warn('cannot keep a result', { error: messageOf(error) })
        // Half a file would take up the disk until Pegboard stops.
        if (file !== undefined) await rm(file, { force: true }).catch(() => undefined)
        return undefined
      }
    },
    get: find,
    require: findOrThrow,
    onChange: changed.listen,
    has,
    async read(owner, handle) {
      const entry = find(owner, handle)
      return entry && (await readFile(entry.file))
    },
    keepAfterSession(owner, handle) {
      findOrThrow(owner, handle).afterSession = true
    },
    async summarize(owner, handle, tokens) {
      const answer = await ask(owner, { file: findOrThrow(owner, handle).file, tokens })
      if ('summary' in answer) return answer.summary
      throw failureOf(answer)
    },
    async query(owner, handle, query, tokens, signal) {
      const answer = await ask(owner, { file: findOrThrow(owner, handle).file, query, tokens }, signal)
      if ('answer' in answer) return answer.answer
      throw failureOf(answer)
    },
    forget(session) {
      for (const entry of entries.values()) if (entry.session === session && !entry.afterSession) drop(entry)
    },
    close() {
      cancelSweep?.()
      entries.clear()
      if (own !== undefined) rmSync(own, { recursive: true, force: true })
      own = undefined
    },
  }
}

/** Short, because models repeat it. Only its owner can use it, so nothing is gained by guessing. */
const newHandle = (): string => `r_${BigInt(`0x${randomBytes(6).toString('hex')}`).toString(36)}`

const failureOf = (answer: ThreadAnswer): PegboardError =>
  'code' in answer
    ? new PegboardError(answer.code, answer.message, { hint: answer.hint })
    : new PegboardError('E_INTERNAL', 'The result cannot be read.')

function removeEnded(dir: string, now: number): void {
  for (const name of readdirSync(dir)) {
    const path = join(dir, name)
    try {
      const markFile = join(path, MARK)
      const isOver = existsSync(markFile)
        ? hasEnded(readFileSync(markFile, 'utf8'))
        : now - statSync(path).mtimeMs > OLD_MS
      if (isOver) rmSync(path, { recursive: true, force: true })
    } catch {
      // Another process deletes it, too.
    }
  }
}

function inThread(
  thread: string,
  request: ThreadRequest,
  patienceMs: number,
  signal: AbortSignal | undefined,
): Promise<ThreadAnswer> {
  const { Worker } = process.getBuiltinModule('node:worker_threads')
  // It gets no environment.
  const worker = new Worker(thread, { workerData: request, env: {}, execArgv: [], resourceLimits: THREAD_LIMITS })
  return new Promise<ThreadAnswer>((resolve, reject) => {
    const abort = (): void => reject(signal?.reason)
    const fail = (cause?: unknown): void =>
      reject(new PegboardError('E_TOOL_FAILED', 'The result cannot be read.', { cause }))
    const timer = setTimeout(() => {
      const hint = 'Use a simpler expression, or a smaller part.'
      reject(new PegboardError('E_TIMEOUT', `Reading the result took longer than ${patienceMs} ms.`, { hint }))
    }, patienceMs)
    signal?.addEventListener('abort', abort, { once: true })
    worker.on('message', resolve)
    worker.on('error', fail)
    worker.on('exit', () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', abort)
      fail()
    })
  }).finally(() => void worker.terminate())
}
