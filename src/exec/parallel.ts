import { linkAbort } from '../core/abort.ts'
import { isPegboardError, PegboardError } from '../core/errors.ts'
import type { Relay } from '../core/tool.ts'
import type { ToolResult } from '../core/tool-result.ts'
import type { JointApproval } from './approval-gate.ts'
import { type CallOutput, createOutput } from './call-output.ts'
import { failureOf, type Outcome, outcomeOf } from './outcome.ts'
import { createCancelledError } from './refusals.ts'
import type { CallRequest } from './tool-calls.ts'

export interface Action {
  readonly name: string
  readonly params: unknown
}

export type ActionResult = { readonly index: number; readonly name: string; readonly label: string } & Outcome

export interface ParallelResult {
  readonly results: readonly ActionResult[]
  readonly total: number
  readonly succeeded: number
  readonly failed: number
  readonly elapsed_ms: number
}

/** Codes of calls that never ran. */
const NOT_RUN_CODES: ReadonlySet<string> = new Set([
  'E_NOT_FOUND',
  'E_VALIDATION',
  'E_INT_PRECISION',
  'E_TOOL_HIDDEN',
  'E_TOOL_DISABLED',
  'E_TOOL_CHANGED',
  'E_TOOL_QUARANTINED',
  'E_LOOP_DETECTED',
])

/**
 * Runs all actions at once. Results keep the order of the actions, and one that fails does not stop the others. Files
 * keep their order and the index of their call.
 * @throws PegboardError E_VALIDATION if no action could start
 */
export async function runParallel(
  actions: readonly Action[],
  request: CallRequest,
  call: Call,
  labelOf: (name: string) => string,
  now: () => number,
  prepareApproval: PrepareApproval = () => undefined,
): Promise<{ readonly value: ParallelResult; readonly output: CallOutput }> {
  const startedAt = now()
  const group = beginCalls(request, call, actions, prepareApproval)
  const { onProgress } = request
  let done = 0
  const results = await Promise.all(
    actions.map(async (action, index): Promise<ActionResult> => {
      const { name } = action
      const label = labelOf(name)
      const outcome = await group.run(action, index)
      onProgress?.(++done, actions.length, label)
      return { index, name, label, ...outcome }
    }),
  )
  group.end()
  const failed = results.filter(({ success }) => !success)
  if (failed.length === results.length && failed.every((one) => !one.success && NOT_RUN_CODES.has(one.code)))
    throw new PegboardError(
      'E_VALIDATION',
      `All ${results.length} parallel action(s) failed before execution. ${failed
        .slice(0, 5)
        .map((one) => `${one.index}: ${one.success ? '' : one.error}`)
        .join(' ')}`,
      { hint: 'Correct the named actions and call run_parallel again.' },
    )
  return {
    value: {
      results,
      total: results.length,
      succeeded: results.length - failed.length,
      failed: failed.length,
      elapsed_ms: Math.round(now() - startedAt),
    },
    output: group.output,
  }
}

/** Runs the actions one after the other. Cancelling the request skips those that have not started. */
export async function runInOrder(
  actions: readonly Action[],
  request: CallRequest,
  call: Call,
  prepareApproval: PrepareApproval = () => undefined,
): Promise<{ readonly outcomes: readonly Outcome[]; readonly output: CallOutput }> {
  const { onProgress, abort, signal } = request
  const group = beginCalls(request, call, actions, prepareApproval)
  const outcomes: Outcome[] = []
  try {
    for (const [index, action] of actions.entries()) {
      abort?.signal.throwIfAborted()
      if (signal?.aborted) throw createCancelledError()
      outcomes.push(await group.run(action, index))
      onProgress?.(index + 1, actions.length, action.name)
    }
  } finally {
    group.end()
  }
  return { outcomes, output: group.output }
}

type Call = (request: CallRequest) => Promise<ToolResult>
type PrepareApproval = (requests: readonly CallRequest[]) => JointApproval | undefined

/**
 * The calls that one request makes. Cancelling the request ends all of them.
 * @param actions the calls that are known before the first one runs; they share one approval question
 */
export function beginCalls(
  request: CallRequest,
  call: Call,
  actions: readonly Action[] = [],
  prepareApproval: PrepareApproval = () => undefined,
) {
  const output = createOutput()
  const parts = actions.map(() => output.part())
  const { onProgress: _, abort, signal, callId, ...shared } = request
  // One listener for all of them, because Node warns of more than ten.
  const groupAbort = new AbortController()
  const cancel = (): void => groupAbort.abort(createCancelledError())
  if (signal?.aborted) cancel()
  else signal?.addEventListener('abort', cancel, { once: true })
  const approval = prepareApproval(actions.map(({ name, params }) => ({ ...shared, name, input: params })))
  return {
    output,
    /**
     * @param index position in the output
     * @param pause called while a question waits for a person; the returned function ends the pause
     */
    async run({ name, params }: Action, index: number, pause?: () => () => void): Promise<Outcome> {
      const part = parts[index] ?? output.part()
      // A time limit of one call ends no other; cancelling the request ends all.
      const callAbort = new AbortController()
      const unlinks = [linkAbort(abort?.signal, callAbort), linkAbort(groupAbort.signal, callAbort)]
      try {
        const { outcome, files } = outcomeOf(
          await call({
            ...shared,
            ...(pause && shared.relay && { relay: withPauses(shared.relay, pause) }),
            name,
            input: params,
            part,
            abort: callAbort,
            approval,
            callId: callId && `${callId}.${index}`,
          }),
        )
        for (const file of files) part.sendFile(file)
        return outcome
      } catch (error) {
        if (!isPegboardError(error)) throw error
        return failureOf(error)
      } finally {
        for (const unlink of unlinks) unlink()
      }
    },
    end(): void {
      signal?.removeEventListener('abort', cancel)
    },
  }
}

function withPauses(relay: Relay, pause: () => () => void): Relay {
  const send = relay.request
  return send ? { ...relay, request: (...args) => send(...args).finally(pause()) } : relay
}
