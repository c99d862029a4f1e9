import { type Observer, type Operation, RUN_OF_A_TOOL } from '../core/observer-types.ts'
import { isFailedResult, type ToolResult } from '../core/tool-result.ts'
import { idOf, type Run } from './call-context.ts'
import type { CallRequest } from './tool-calls.ts'

/** Makes a call as a trace span, named after its tool. */
export function traceCall(
  observer: Observer,
  request: CallRequest,
  run: Run,
  call: (request: CallRequest, run: Run) => Promise<ToolResult>,
): Promise<ToolResult> {
  const operation: Operation = {
    kind: 'call',
    name: RUN_OF_A_TOOL,
    attributes: { 'gen_ai.operation.name': RUN_OF_A_TOOL, 'pegboard.profile': request.caller.profile },
  }
  return observer.run(operation, async () => {
    try {
      const result = await call(request, run)
      if (isFailedResult(result)) operation.error = 'E_TOOL_FAILED'
      return result
    } finally {
      operation.attributes['gen_ai.tool.call.id'] = idOf(run)
      if (run.failure !== undefined) operation.attributes['pegboard.failure.class'] = run.failure
      if (run.tool) {
        operation.name = `${RUN_OF_A_TOOL} ${run.tool.id}`
        operation.attributes['gen_ai.tool.name'] = run.tool.id
      }
    }
  })
}
