import type { Clock } from '../core/clock.ts'
import type { Caller } from '../core/context.ts'
import { PegboardError } from '../core/errors.ts'
import { newHandle } from '../core/handle.ts'
import type { Log } from '../core/log.ts'
import type { ToolResult } from '../core/result.ts'
import type { Alarms } from '../state/alarms.ts'
import type { Store } from '../state/store.ts'
import type { CallRequest } from './call.ts'
import { createDues, type Due, isDue, LEFT } from './dues.ts'
import type { Inbox } from './inbox.ts'
import type { Instance } from './instance.ts'
import { isWorthTelling, type Strategy, thresholdOf } from './notify-when.ts'
import { type Lacks, onBehalf } from './on-behalf.ts'
import type { Outcome } from './outcome.ts'
import { lastingOwner } from './owner.ts'
import { type RightsNow, type StoredCaller, storedCaller } from './stored-caller.ts'

/** One look at a tool. */
export interface Seen {
  readonly check: number
  readonly at: number
  readonly success: boolean
  /** The beginning of what it said. */
  readonly preview: string
  readonly notified: boolean
}

/** A call made again and again, of which only some are told. */
export interface Watcher extends Due {
  readonly caller: StoredCaller
  readonly tool: string
  readonly params: Readonly<Record<string, unknown>>
  readonly label: string
  readonly intervalMs: number
  /** 0 has no end. */
  readonly maxChecks: number
  readonly strategy: Strategy
  readonly expression?: string
  readonly batchSize: number
  readonly status: 'running' | 'paused' | 'completed'
  readonly checks: number
  readonly notices: number
  readonly createdAt: number
  readonly last?: Outcome
  /** The latest hundred, oldest first. */
  readonly history: readonly Seen[]
}

export type NewWatcher = Pick<
  Watcher,
  'tool' | 'params' | 'label' | 'intervalMs' | 'maxChecks' | 'strategy' | 'expression' | 'batchSize'
>
export type ListedWatcher = Omit<Watcher, 'status'> & {
  readonly id: string
  /** `stopped` is said once, by what ends it. */
  readonly status: Watcher['status'] | 'stopped'
}

export interface Watchers {
  /** Goes on with those of before; those whose tool is gone are dropped. */
  start(): Promise<void>
  add(caller: Caller, watcher: NewWatcher): Promise<ListedWatcher>
  get(caller: Caller, id: string): Promise<ListedWatcher | undefined>
  list(caller: Caller): Promise<readonly ListedWatcher[]>
  /** `undefined` where there is none; the same as before where it is not in a state for that. */
  pause(caller: Caller, id: string): Promise<ListedWatcher | undefined>
  resume(caller: Caller, id: string): Promise<ListedWatcher | undefined>
  remove(caller: Caller, id: string): Promise<ListedWatcher | undefined>
  stop(): Promise<void>
}

export interface WatchersOptions {
  readonly call: (request: CallRequest) => Promise<ToolResult>
  readonly rightsNow: RightsNow
  readonly lacks: Lacks
  readonly store: Store
  readonly clock: Clock
  /** What intervals are measured by: a clock that is set does not shorten or lengthen one. */
  readonly steady: Clock
  readonly log: Log
  readonly inbox: Inbox
  readonly instance: Instance
  /** On the steady clock. */
  readonly alarms: Alarms
}

const isWatcher = (value: unknown): boolean =>
  isDue(value) &&
  typeof value['tool'] === 'string' &&
  Number.isFinite(value['intervalMs']) &&
  Number.isInteger(value['checks']) &&
  Array.isArray(value['history'])

const MAX_WATCHERS = 100
const MAX_SEEN = 100
const PREVIEW = 500
/** Codes that mean the tool is not there any more. */
const GONE: ReadonlySet<string> = new Set(['E_NOT_FOUND'])

export function createWatchers({
  call,
  rightsNow,
  lacks,
  store,
  clock,
  steady,
  log,
  inbox,
  instance,
  alarms,
}: WatchersOptions): Watchers {
  const look = onBehalf(call, rightsNow)
  const dues = createDues<Watcher>({
    alarms,
    table: store.table<Watcher>('watcher', isWatcher),
    clock: steady,
    log,
    instance,
    claim: (watcher, now) => ({ ...watcher, nextAt: now + watcher.intervalMs }),
    // Kept by a process whose clock was ahead.
    replan: (watcher, now) =>
      watcher.nextAt !== null && watcher.nextAt > now + watcher.intervalMs
        ? { ...watcher, nextAt: now + watcher.intervalMs }
        : undefined,
    lacks: ({ caller, tool }) => lacks(caller, tool),
    async run(id, owner, watcher, mayLeave) {
      const now = await look(watcher.caller, watcher.tool, watcher.params)
      // The tool itself may say so of something that it looks for.
      if (!now.success && GONE.has(now.code) && lacks(watcher.caller, watcher.tool)) {
        if (await mayLeave()) {
          log.warn('a watcher is left to other processes, because its tool is not in this one', {
            watcher: id,
            tool: watcher.tool,
          })
          return LEFT
        }
        log.warn('a watcher was dropped, because its tool is gone', { watcher: id, tool: watcher.tool })
        return {
          change: () => undefined,
          tell: () => inbox.add(owner, `[WATCHER UPDATE] ${watcher.label} (${id}) ended: ${now.error}`),
        }
      }
      if (!now.success && now.code === 'E_OWNER_GONE') {
        log.warn('a watcher rests, because its owner may not come in any more', { watcher: id, error: now.error })
        return {
          change: (current) => ({ ...current, status: 'paused', nextAt: null, last: now }),
          tell: () => inbox.add(owner, `[WATCHER UPDATE] ${watcher.label} (${id}) rests: ${now.error}`),
        }
      }
      const number = watcher.checks + 1
      const threshold = watcher.expression === undefined ? undefined : thresholdOf(watcher.expression)
      const notified = isWorthTelling(watcher.strategy, {
        number,
        now,
        before: watcher.last,
        batchSize: watcher.batchSize,
        ...(threshold ? { threshold } : {}),
      })
      const seen: Seen = { check: number, at: clock.now(), success: now.success, preview: previewOf(now), notified }
      const tell = (): void => {
        if (notified) inbox.add(owner, lineOf(id, watcher, seen))
      }
      const change = (current: Watcher): Watcher => {
        const over = current.maxChecks > 0 && number >= current.maxChecks
        return {
          ...current,
          checks: number,
          notices: current.notices + (notified ? 1 : 0),
          last: now,
          history: [...current.history, seen].slice(-MAX_SEEN),
          ...(over ? { status: 'completed' as const, nextAt: null } : {}),
        }
      }
      return { change, tell }
    },
    // What is watched is read again at its next time.
    abandoned: (_id, _owner, watcher) => watcher,
  })

  /** Its next time as the clock of now has it. */
  const shown = (id: string, value: Watcher): ListedWatcher => ({
    ...value,
    id,
    nextAt: value.nextAt === null ? null : value.nextAt - steady.now() + clock.now(),
  })
  const listed = (id: string, value: Watcher | undefined): ListedWatcher | undefined => value && shown(id, value)
  const change = async (caller: Caller, id: string, to: (value: Watcher) => Watcher | undefined) =>
    listed(id, await dues.change(lastingOwner(caller), id, to))

  return {
    start: dues.start,
    async add(caller, wanted) {
      const owner = lastingOwner(caller)
      const all = await dues.list(owner)
      // Those that are over make room, the oldest first.
      const over = all.filter(({ value }) => value.status === 'completed')
      for (const one of over.slice(0, Math.max(0, all.length + 1 - MAX_WATCHERS)))
        await dues.change(owner, one.id, (value) => (value.status === 'completed' ? undefined : value))
      const id = newHandle()
      const now = clock.now()
      const watcher: Watcher = {
        ...wanted,
        caller: storedCaller(caller),
        status: 'running',
        checks: 0,
        notices: 0,
        createdAt: now,
        history: [],
        nextAt: steady.now() + wanted.intervalMs,
      }
      if (!(await dues.add(id, owner, watcher, MAX_WATCHERS)))
        throw new PegboardError('E_WATCH_LIMIT', `There are ${MAX_WATCHERS} watchers already.`, {
          hint: 'End some with watch_stop.',
        })
      return shown(id, watcher)
    },
    get: async (caller, id) => listed(id, await dues.get(lastingOwner(caller), id)),
    list: async (caller) => (await dues.list(lastingOwner(caller))).map(({ id, value }) => shown(id, value)),
    pause: (caller, id) =>
      change(caller, id, (now) => (now.status === 'running' ? { ...now, status: 'paused', nextAt: null } : now)),
    resume: (caller, id) =>
      change(caller, id, (now) =>
        now.status === 'paused' ? { ...now, status: 'running', nextAt: steady.now() + now.intervalMs } : now,
      ),
    async remove(caller, id) {
      const last = await change(caller, id, () => undefined)
      return last && { ...last, status: 'stopped', nextAt: null }
    },
    stop: dues.stop,
  }
}

function previewOf(outcome: Outcome): string {
  const text = outcome.success ? (JSON.stringify(outcome.data) ?? 'null') : outcome.error
  return text.length > PREVIEW ? `${text.slice(0, PREVIEW)}…` : text
}

function lineOf(id: string, { label, tool, last, strategy, history, batchSize }: Watcher, seen: Seen): string {
  const head = `[WATCHER UPDATE] ${label} (${id}, ${tool}), check ${seen.check}`
  if (strategy === 'summary') {
    const latest = [...history, seen].slice(-batchSize)
    const failed = latest.filter(({ success }) => !success).length
    return `${head}: ${latest.length} checks, ${failed} failed; last: ${seen.preview}`
  }
  return last === undefined ? `${head}: ${seen.preview}` : `${head}: ${seen.preview} (before: ${previewOf(last)})`
}
