import type { Caller } from '../core/caller.ts'
import { isPegboardError, messageOf, type PegboardError } from '../core/errors.ts'
import type { DocumentWrite, StoredDocument, Table } from '../state/store.ts'
import { markInterrupted, type StoredTask, type Task, toPublicTask } from './background-task.ts'
import type { TasksOptions } from './background-tasks.ts'
import { failureOf } from './outcome.ts'
import { nextCheckAt } from './process-heartbeat.ts'
import { type RightsLookup, refreshCaller } from './stored-caller.ts'
import type { TaskRuns } from './task-runs.ts'

/** Maximum number of attempts, because a task may crash its process each time. */
const MAX_TRIES = 5

/**
 * Finds stored tasks whose process died. Runs them again, or marks them as interrupted.
 * @param emitEnd called for each task that was marked as interrupted
 */
export function createTaskRecovery(
  { clock, log, settings, instance, alarms, lookUpRights }: TasksOptions,
  tasks: () => Table<StoredTask>,
  runs: TaskRuns,
  emitEnd: (owner: string, task: StoredTask) => void,
) {
  let stopped = false
  let startPromise: Promise<void> | undefined

  /** True if a live process runs the task. A task of this process that does not run here does not run at all. */
  const isRunning = async (id: string, { instance: processId }: StoredTask): Promise<boolean> =>
    processId === instance.id ? runs.get(id) !== undefined : await instance.isAlive(processId)

  /** Plans a check for the case that the process of a task dies. Never rejects: the check at start-up finds the task too. */
  const scheduleCheck = (id: string): Promise<void> =>
    alarms
      .set(id, nextCheckAt(clock.now()))
      .catch((error: unknown) =>
        log.warn('cannot schedule the next check of a task', { task: id, error: messageOf(error) }),
      )

  async function handleAlarm(id: string): Promise<void> {
    const row = await tasks().get(id)
    if (row?.value.status !== 'running') return
    // With several processes, another one then gets the alarm.
    if (stopped || (await isRunning(id, row.value))) return scheduleCheck(id)
    await recover(row)
  }

  /** Runs an interrupted task again if its tool is idempotent, or marks it as interrupted. */
  async function recover(row: StoredDocument<StoredTask>): Promise<StoredTask | undefined> {
    if (stopped) return undefined
    const { value } = row
    const caller = value.idempotent && value.tries < MAX_TRIES ? currentOwner(value, lookUpRights) : undefined
    if (caller && !isPegboardError(caller)) return await runAgain(row, caller)
    const { id, owner, revision } = row
    const interrupted = markInterrupted(value, clock.now())
    const task = caller ? { ...interrupted, outcome: failureOf(caller) } : interrupted
    const expiresAt = clock.now() + settings.resultTtlMs
    if ((await tasks().put({ id, owner, value: task, expiresAt }, revision)) === undefined) return undefined
    emitEnd(owner, task)
    return task
  }

  async function runAgain(
    { id, owner, value, revision }: StoredDocument<StoredTask>,
    caller: Caller,
  ): Promise<StoredTask | undefined> {
    const task = { ...value, instance: instance.id, tries: value.tries + 1 }
    const claimed = await claim({ id, owner, value: task }, revision)
    if (claimed === undefined) return undefined
    const { name, input, callId } = value
    runs.run(runs.add(owner, task, { revision: claimed }), { name, input, callId, caller })
    await scheduleCheck(id)
    return task
  }

  /** Takes over a task, unless another process was faster. Returns the new revision. */
  async function claim(write: DocumentWrite<StoredTask>, revision: number): Promise<number | undefined> {
    await instance.begin()
    let claimed: number | undefined
    try {
      claimed = await tasks().put(write, revision)
    } finally {
      if (claimed === undefined) instance.end()
    }
    return claimed
  }

  return {
    /** Starts to check stored tasks. May be called again. */
    start(): Promise<void> {
      startPromise ??= alarms
        .start(handleAlarm, async () =>
          (await tasks().list()).flatMap(({ id, value }) => (value.status === 'running' ? [{ id, at: 0 }] : [])),
        )
        .catch((error: unknown) => {
          // The next call tries again.
          startPromise = undefined
          throw error
        })
      return startPromise
    },
    scheduleCheck,
    /** The task as it is now. Recovers the task first if its process died. */
    async currentState(row: StoredDocument<StoredTask>): Promise<Task> {
      const { id, value } = row
      const localRun = runs.get(id)
      if (localRun) return toPublicTask(localRun.task)
      if (value.status !== 'running' || (await isRunning(id, value))) return toPublicTask(value)
      return toPublicTask((await recover(row)) ?? value)
    },
    /** Recovers no more tasks, but leaves them to other processes. */
    drain(): void {
      stopped = true
    },
  }
}

/** The owner of a task with current rights, or the error if the owner lost access. */
export function currentOwner({ caller }: StoredTask, lookUpRights: RightsLookup): Caller | PegboardError {
  try {
    return refreshCaller(caller, lookUpRights)
  } catch (error) {
    if (isPegboardError(error)) return error
    throw error
  }
}
