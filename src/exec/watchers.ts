import type { Caller } from '../core/caller.ts'
import type { Clock } from '../core/clock.ts'
import { PegboardError } from '../core/errors.ts'
import { formatCount } from '../core/format-count.ts'
import { randomId } from '../core/random-id.ts'
import { describeChanges } from './describe-changes.ts'
import { createDueCalls, type DueWorkOptions, isOwnerGone, isToolDisabled } from './due-calls.ts'
import { createDueQueue, type DueEntry, isDueEntry, POSTPONED } from './due-queue.ts'
import { type Strategy, shouldNotify, thresholdOf } from './notify-when.ts'
import { type Outcome, shortenOutcome, withoutParts } from './outcome.ts'
import { type StoredCaller, toStoredCaller } from './stored-caller.ts'
import { lastingOwner } from './task-owner.ts'

export interface WatcherCheck {
  readonly check: number
  readonly at: number
  readonly success: boolean
  /** The beginning of the result. */
  readonly preview: string
  readonly notified: boolean
}

/** A call that is repeated; its owner is notified of some results. */
export interface Watcher extends DueEntry {
  readonly caller: StoredCaller
  readonly tool: string
  readonly params: Readonly<Record<string, unknown>>
  readonly label: string
  readonly intervalMs: number
  /** Maximum number of checks; 0: no limit. */
  readonly maxChecks: number
  readonly strategy: Strategy
  readonly expression?: string
  readonly batchSize: number
  readonly status: 'running' | 'paused' | 'completed'
  readonly checks: number
  readonly notices: number
  /** Number of failed checks. Absent in watchers of earlier versions. */
  readonly errors?: number
  readonly notifiedAt?: number
  readonly createdAt: number
  readonly last?: Outcome
  /** The latest 100, oldest first. */
  readonly history: readonly WatcherCheck[]
}

export type NewWatcher = Pick<
  Watcher,
  'tool' | 'params' | 'label' | 'intervalMs' | 'maxChecks' | 'strategy' | 'expression' | 'batchSize'
>
export type ListedWatcher = Omit<Watcher, 'status'> & {
  readonly id: string
  /** `stopped` is only returned by `remove`. */
  readonly status: Watcher['status'] | 'stopped'
}

export interface Watchers {
  /** Continues stored watchers; those whose tool is gone are dropped. */
  start(): Promise<void>
  add(caller: Caller, watcher: NewWatcher): Promise<ListedWatcher>
  get(caller: Caller, id: string): Promise<ListedWatcher | undefined>
  list(caller: Caller): Promise<readonly ListedWatcher[]>
  /** `undefined` if there is none; unchanged if it is in another state. */
  pause(caller: Caller, id: string): Promise<ListedWatcher | undefined>
  resume(caller: Caller, id: string): Promise<ListedWatcher | undefined>
  remove(caller: Caller, id: string): Promise<ListedWatcher | undefined>
  stop(): Promise<void>
}

export interface WatchersOptions extends DueWorkOptions {
  /** Measures intervals: setting the clock neither shortens nor lengthens one. `alarms` must use it too. */
  readonly steady: Clock
  /** Dotted paths of the parts of a tool's result that differ in each call. */
  readonly volatileParts: (who: StoredCaller, tool: string) => readonly string[]
}

const isWatcher = (value: unknown): boolean =>
  isDueEntry(value) &&
  typeof value['tool'] === 'string' &&
  Number.isFinite(value['intervalMs']) &&
  Number.isInteger(value['checks']) &&
  Array.isArray(value['history'])

const MAX_WATCHERS = 100
const MAX_HISTORY = 100
/** Characters of a result in the history. */
export const MAX_PREVIEW = 500

export function createWatchers(options: WatchersOptions): Watchers {
  const { lacksTool, volatileParts, store, clock, steady, log, inbox, instance, alarms } = options
  const call = createDueCalls(options, 'watcher')
  const dueQueue = createDueQueue<Watcher>({
    alarms,
    table: store.table<Watcher>('watcher', isWatcher),
    clock: steady,
    log,
    instance,
    claim: (watcher, now) => ({ ...watcher, nextAt: now + watcher.intervalMs }),
    // It was stored by a process whose clock was ahead.
    replan: (watcher, now) =>
      watcher.nextAt !== null && watcher.nextAt > now + watcher.intervalMs
        ? { ...watcher, nextAt: now + watcher.intervalMs }
        : undefined,
    lacksTool: ({ caller, tool }) => lacksTool(caller, tool),
    async run(id, owner, watcher, mayPostpone) {
      const { caller, tool, params } = watcher
      const fullOutcome = await call({ id, caller, tool, params, before: watcher.last, mayPostpone })
      if (fullOutcome === POSTPONED) return fullOutcome
      // The next check reads the value again.
      if ('stopped' in fullOutcome) return { change: (current) => current }
      const outcome = shortenOutcome(withoutParts(fullOutcome, volatileParts(caller, tool)))
      if (!outcome.success && outcome.code === 'E_NOT_FOUND' && lacksTool(caller, tool)) {
        log.warn('a watcher was dropped, because its tool is gone', { watcher: id, tool })
        return {
          change: () => undefined,
          notify: () => inbox.add(owner, `[WATCHER UPDATE] ${watcher.label} (${id}) ended: ${outcome.error}`),
        }
      }
      const isDisabled = isToolDisabled(outcome) && lacksTool(caller, tool)
      if (isDisabled) log.warn('a watcher was paused, because its tool is disabled', { watcher: id, tool })
      if (isOwnerGone(outcome) || isDisabled)
        return {
          change: (current) => ({ ...current, status: 'paused', nextAt: null, last: outcome }),
          notify: () => inbox.add(owner, `[WATCHER UPDATE] ${watcher.label} (${id}) rests: ${outcome.error}`),
        }
      const number = watcher.checks + 1
      const threshold = watcher.expression === undefined ? undefined : thresholdOf(watcher.expression)
      const notified = shouldNotify(watcher.strategy, {
        number,
        now: threshold ? fullOutcome : outcome,
        before: watcher.last,
        batchSize: watcher.batchSize,
        ...(threshold ? { threshold } : {}),
      })
      const check: WatcherCheck = {
        check: number,
        at: clock.now(),
        success: outcome.success,
        preview: previewOf(outcome),
        notified,
      }
      const notify = (): void => {
        if (notified) inbox.add(owner, formatNotice(id, watcher, check, outcome))
      }
      const change = (current: Watcher): Watcher => {
        const isLastCheck = current.maxChecks > 0 && number >= current.maxChecks
        return {
          ...current,
          checks: number,
          notices: current.notices + (notified ? 1 : 0),
          errors: (current.errors ?? 0) + (outcome.success ? 0 : 1),
          ...(notified ? { notifiedAt: check.at } : {}),
          last: outcome,
          history: [...current.history, check].slice(-MAX_HISTORY),
          ...(isLastCheck ? { status: 'completed' as const, nextAt: null } : {}),
        }
      }
      return { change, notify }
    },
    // The next check reads the value again.
    abandoned: () => ({ change: (watcher) => watcher }),
  })

  /** `nextAt` as a time of day. */
  const toListed = (id: string, value: Watcher): ListedWatcher => ({
    ...value,
    id,
    nextAt: value.nextAt === null ? null : value.nextAt - steady.now() + clock.now(),
  })
  const toListedOrNone = (id: string, value: Watcher | undefined): ListedWatcher | undefined =>
    value && toListed(id, value)
  const change = async (caller: Caller, id: string, to: (value: Watcher) => Watcher | undefined) =>
    toListedOrNone(id, await dueQueue.change(lastingOwner(caller), id, to))

  return {
    start: dueQueue.start,
    async add(caller, newWatcher) {
      const owner = lastingOwner(caller)
      const all = await dueQueue.list(owner)
      // Completed watchers make room, the oldest first.
      const completed = all.filter(({ value }) => value.status === 'completed')
      for (const one of completed.slice(0, Math.max(0, all.length + 1 - MAX_WATCHERS)))
        await dueQueue.change(owner, one.id, (value) => (value.status === 'completed' ? undefined : value))
      const id = randomId()
      const now = clock.now()
      const watcher: Watcher = {
        ...newWatcher,
        caller: toStoredCaller(caller),
        status: 'running',
        checks: 0,
        notices: 0,
        errors: 0,
        createdAt: now,
        history: [],
        nextAt: steady.now() + newWatcher.intervalMs,
      }
      if (!(await dueQueue.add(id, owner, watcher, MAX_WATCHERS)))
        throw new PegboardError('E_WATCH_LIMIT', `There are ${MAX_WATCHERS} watchers already.`, {
          hint: 'Stop some with watch_stop.',
        })
      return toListed(id, watcher)
    },
    get: async (caller, id) => toListedOrNone(id, await dueQueue.get(lastingOwner(caller), id)),
    list: async (caller) => (await dueQueue.list(lastingOwner(caller))).map(({ id, value }) => toListed(id, value)),
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
    stop: dueQueue.stop,
  }
}

function previewOf(outcome: Outcome): string {
  const text = outcome.success ? (JSON.stringify(outcome.data) ?? 'null') : outcome.error
  return text.length > MAX_PREVIEW ? `${text.slice(0, MAX_PREVIEW)}…` : text
}

function formatNotice(
  id: string,
  { label, tool, last, strategy, history, batchSize }: Watcher,
  check: WatcherCheck,
  outcome: Outcome,
): string {
  const head = `[WATCHER UPDATE] ${label} (${id}, ${tool}), check ${check.check}`
  if (strategy === 'summary') {
    const latest = [...history, check].slice(-batchSize)
    const failed = latest.filter(({ success }) => !success).length
    return `${head}: ${formatCount(latest.length, 'check')}, ${failed} failed; last: ${check.preview}`
  }
  if (strategy === 'on_change' && last?.success && outcome.success)
    return `${head}: ${describeChanges(last.data, outcome.data)}. watch_history shows the results.`
  return last === undefined ? `${head}: ${check.preview}` : `${head}: ${check.preview} (before: ${previewOf(last)})`
}
