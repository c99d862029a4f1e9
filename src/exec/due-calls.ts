import { isPegboardError, isShuttingDown, messageOf, PegboardError } from '../core/errors.ts'
import type { Store } from '../state/store.ts'
import type { TasksOptions } from './background-tasks.ts'
import { POSTPONED } from './due-queue.ts'
import type { Inbox } from './inbox.ts'
import { type FailedOutcome, failureOf, type Outcome, outcomeOf } from './outcome.ts'
import { refreshCaller, type StoredCaller } from './stored-caller.ts'

/** True if a stored caller cannot see a tool in this process. */
export type LacksTool = (who: StoredCaller, name: string) => boolean

/** What the scheduler and the watchers need. */
export interface DueWorkOptions
  extends Pick<TasksOptions, 'call' | 'lookUpRights' | 'clock' | 'log' | 'instance' | 'alarms'> {
  readonly lacksTool: LacksTool
  /** True if the server of a tool is in the configuration, but its entry is invalid. */
  readonly hasInvalidServer: LacksTool
  readonly store: Store
  readonly inbox: Inbox
}

/** A call for an owner who is not connected. */
export interface DueCall {
  /** Id of the job or watcher, for the log. */
  readonly id: string
  readonly caller: StoredCaller
  readonly tool: string
  readonly params: Readonly<Record<string, unknown>> | undefined
  readonly callId?: string | undefined
  /** The result of the previous run, if there is one. */
  readonly before: Outcome | undefined
  /** False if the tool has been missing for so long that the call must fail. */
  readonly mayPostpone: boolean
}

/** A call that ended, or did not start, because this process stops. */
export interface StoppedCall {
  readonly stopped: true
  /** True if running the tool again does no harm. */
  readonly mayRepeat: boolean
}

/** True if a run did not take place because its owner no longer has access. */
export const isOwnerGone = (outcome: Outcome | undefined): outcome is FailedOutcome =>
  outcome?.success === false && outcome.code === 'E_OWNER_GONE'

/** True if a call failed because the operator disabled its tool, or the server of the tool. */
export const isToolDisabled = (outcome: Outcome | undefined): outcome is FailedOutcome =>
  outcome?.success === false && outcome.code === 'E_TOOL_DISABLED'

/** Calls of an unknown tool, and of a tool of a disabled server, fail with these codes. */
const MISSING_CODES: ReadonlySet<string> = new Set(['E_NOT_FOUND', 'E_TOOL_DISABLED'])

/**
 * Calls tools with the rights that the owner has now. Never rejects, because no caller waits for the answer.
 * @param kind for the log
 * @returns `POSTPONED` if the tool is missing in this process, and another process or a corrected entry may bring it
 */
export function createDueCalls(options: DueWorkOptions, kind: 'job' | 'watcher') {
  const { call, lookUpRights, lacksTool, hasInvalidServer, instance, log } = options
  return async (dueCall: DueCall): Promise<Outcome | StoppedCall | typeof POSTPONED> => {
    const { id, caller, tool, params = {}, callId, before, mayPostpone } = dueCall
    let outcome: Outcome
    try {
      outcome = outcomeOf(
        await call({ name: tool, input: params, callId, caller: refreshCaller(caller, lookUpRights) }),
      ).outcome
    } catch (error) {
      if (isShuttingDown(error)) return { stopped: true, mayRepeat: error.retryable }
      outcome = failureOf(isPegboardError(error) ? error : new PegboardError('E_INTERNAL', messageOf(error)))
    }
    if (outcome.success) return outcome
    if (isOwnerGone(outcome) && !isOwnerGone(before))
      log.warn(`a ${kind} did not run, because its owner no longer has access`, { [kind]: id, error: outcome.error })
    // Tools fail with the same codes, for example when they do not find something.
    if (!mayPostpone || !lacksTool(caller, tool)) return outcome
    if (outcome.code === 'E_UPSTREAM_UNAVAILABLE' && hasInvalidServer(caller, tool)) {
      log.warn(`a ${kind} waits for a valid entry of its server`, { [kind]: id, tool })
      return POSTPONED
    }
    if (!MISSING_CODES.has(outcome.code) || (await instance.alone())) return outcome
    log.warn(`a ${kind} is left to other processes, because this process does not have its tool`, { [kind]: id, tool })
    return POSTPONED
  }
}
