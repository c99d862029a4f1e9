import { createEnding, type Ending, offEnd, onEnd } from '../core/ending.ts'
import { isPegboardError, PegboardError } from '../core/errors.ts'
import type { ToolResult } from '../core/result.ts'
import type { CallRequest } from './call.ts'
import type { JointApproval } from './gate.ts'
import { failureOf, type Outcome, outcomeOf } from './outcome.ts'
import { createOutput, type Output } from './output.ts'
import { cancelled } from './refusals.ts'

export interface Action {
  readonly name: string
  readonly params: unknown
}

/** How one of several calls ended. */
export type ActionResult = { readonly index: number; readonly name: string; readonly label: string } & Outcome

export interface ParallelResult {
  readonly results: readonly ActionResult[]
  readonly total: number
  readonly succeeded: number
  readonly failed: number
  readonly elapsed_ms: number
}

/** Codes of calls that never ran. */
const NEVER_RAN: ReadonlySet<string> = new Set([
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
 * Runs all at once, each through the one call path; results come in the order they were asked for, and one that fails stops
 * no other. What tools send along is kept, in the order it came, with the place of the call that sent it.
 * @throws PegboardError E_VALIDATION when not one of them could begin
 */
export async function runParallel(
  actions: readonly Action[],
  request: CallRequest,
  call: Call,
  labelOf: (name: string) => string,
  now: () => number,
  together: Together = () => undefined,
): Promise<{ readonly value: ParallelResult; readonly output: Output }> {
  const began = now()
  const several = begin(actions, request, call, together)
  const { onProgress } = request
  let done = 0
  const results = await Promise.all(
    actions.map(async (action, index): Promise<ActionResult> => {
      const { name } = action
      const label = labelOf(name)
      const outcome = await several.run(action, index)
      onProgress?.(++done, actions.length, label)
      return { index, name, label, ...outcome }
    }),
  )
  several.end()
  const failed = results.filter(({ success }) => !success)
  if (failed.length === results.length && failed.every((one) => !one.success && NEVER_RAN.has(one.code)))
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
      elapsed_ms: Math.round(now() - began),
    },
    output: several.output,
  }
}

/** Runs one after the other as `runParallel` runs all at once. What ends the whole leaves those that follow unbegun. */
export async function runInOrder(
  actions: readonly Action[],
  request: CallRequest,
  call: Call,
  together: Together = () => undefined,
): Promise<{ readonly outcomes: readonly Outcome[]; readonly output: Output }> {
  const { onProgress, abort, signal } = request
  const several = begin(actions, request, call, together)
  const outcomes: Outcome[] = []
  try {
    for (const [index, action] of actions.entries()) {
      if (abort?.aborted) throw abort.reason
      if (signal?.aborted) throw cancelled()
      outcomes.push(await several.run(action, index))
      onProgress?.(index + 1, actions.length, action.name)
    }
  } finally {
    several.end()
  }
  return { outcomes, output: several.output }
}

type Call = (request: CallRequest) => Promise<ToolResult>
type Together = (requests: readonly CallRequest[]) => JointApproval | undefined

/** What calls that were asked for with one request have in common. */
function begin(actions: readonly Action[], request: CallRequest, call: Call, together: Together) {
  const output = createOutput()
  const parts = actions.map(() => output.part())
  const { onProgress: _, abort, signal, callId, ...shared } = request
  // One listener for all of them: Node warns of more than ten.
  const whole = createEnding()
  const cancel = (): void => whole.abort(cancelled())
  if (signal?.aborted) cancel()
  else if (signal) onEnd(signal, cancel)
  const approval = together(actions.map(({ name, params }) => ({ ...shared, name, input: params })))
  return {
    output,
    async run({ name, params }: Action, index: number): Promise<Outcome> {
      const part = parts[index] ?? output.part()
      // What ends one, such as its time limit, ends no other; what ends the whole ends all.
      const ending = createEnding()
      const free = [follow(abort, ending), follow(whole, ending)]
      try {
        const { outcome, files } = outcomeOf(
          await call({
            ...shared,
            name,
            input: params,
            part,
            abort: ending,
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
        for (const stop of free) stop()
      }
    },
    end(): void {
      if (signal) offEnd(signal, cancel)
    },
  }
}

/** Ends the second when the first ends. Answers how to let go of it. */
function follow(whole: Ending | undefined, part: Ending): () => void {
  if (!whole) return () => undefined
  const end = (): void => part.abort(whole.reason)
  if (whole.aborted) end()
  else onEnd(whole, end)
  return () => offEnd(whole, end)
}
