import { formatCount } from '../core/format-count.ts'
import { isRecord } from '../core/is-record.ts'
import { isStoredTask, type StoredTask } from '../exec/background-task.ts'
import type { Job } from '../exec/scheduler.ts'
import { withoutConnection } from '../exec/task-owner.ts'
import type { Watcher } from '../exec/watchers.ts'
import type { LaterKind, LaterRow } from '../ui/api-types.ts'
import type { UiContext } from './ui-parts.ts'

/** Background work of all owners, sorted by the time of the next run. */
export async function listLater({ shared, toSafeText: toShown, clock }: UiContext): Promise<readonly LaterRow[]> {
  if (!shared.mayHaveData) return []
  const store = shared.store()
  const [tasks, watchers, jobs] = await Promise.all([
    store.table<StoredTask>('task', isStoredTask).list(),
    store.table<Watcher>('watcher', isRecord).list(),
    store.table<Job>('job', isRecord).list(),
  ])
  const shown = (text: string): string => toShown(text).slice(0, 200)
  const rows: LaterRow[] = [
    ...tasks.map(
      ({ id, value }): LaterRow => ({
        kind: 'task',
        id,
        owner: value.caller.principal,
        what: shown(value.progress?.message ?? value.tool),
        tool: value.tool,
        state: value.status,
        at: value.startedAt,
        stoppable: value.status === 'running',
      }),
    ),
    ...watchers.map(
      ({ id, value }): LaterRow => ({
        kind: 'watcher',
        id,
        owner: value.caller.principal,
        what: shown(value.label),
        tool: value.tool,
        state: `${value.status}, ${formatCount(value.checks, 'check')}`,
        ...(value.nextAt === null ? {} : { nextAt: value.nextAt + (clock.now() - shared.steady.now()) }),
        at: value.createdAt,
        stoppable: true,
      }),
    ),
    ...jobs.map(
      ({ id, value }): LaterRow => ({
        kind: 'schedule',
        id,
        owner: value.caller.principal,
        what: shown(value.label ?? value.message ?? value.tool ?? id),
        ...(value.tool === undefined ? {} : { tool: value.tool }),
        state: value.cron === undefined ? 'once' : `${value.cron} ${value.timezone ?? 'UTC'}, ${value.runs} runs`,
        ...(value.nextAt === null ? {} : { nextAt: value.nextAt }),
        at: value.createdAt,
        stoppable: true,
      }),
    ),
  ]
  return rows.sort((a, b) => (a.nextAt ?? Number.MAX_VALUE) - (b.nextAt ?? Number.MAX_VALUE) || b.at - a.at)
}

/** Stops work as its owner would. @returns false if there is no such work */
export async function stopLater({ shared, deferred }: UiContext, kind: LaterKind, id: string): Promise<boolean> {
  if (!shared.mayHaveData) return false
  if (kind === 'task') {
    const storedTask = await shared.store().table<StoredTask>('task', isStoredTask).get(id)
    return storedTask !== undefined && (await deferred.tasks.cancel(storedTask.owner, id)) !== undefined
  }
  const table = kind === 'watcher' ? 'watcher' : 'job'
  const row = await shared.store().table<Watcher | Job>(table, isRecord).get(id)
  if (!row) return false
  const owner = withoutConnection(row.value.caller)
  const removed =
    kind === 'watcher'
      ? await deferred.tools.watchers?.().remove(owner, id)
      : await deferred.tools.schedule?.().cancel(owner, id)
  return removed !== undefined
}
