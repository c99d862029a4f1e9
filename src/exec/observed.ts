import { type Observer, type Operation, RUN_OF_A_TOOL } from '../core/observer.ts'
import type { ToolResult } from '../core/result.ts'
import type { CallRequest } from './call.ts'
import { idOf, type Run } from './context.ts'

/** Makes a call as an operation, named by the tool that it turned out to be of. */
export function observed(
  observer: Observer,
  request: CallRequest,
  call: (request: CallRequest, run: Run) => Promise<ToolResult>,
): Promise<ToolResult> {
  const run: Run = { id: request.callId, tool: undefined }
  const operation: Operation = {
    kind: 'call',
    name: RUN_OF_A_TOOL,
    attributes: { 'gen_ai.operation.name': RUN_OF_A_TOOL, 'pegboard.profile': request.caller.profile },
  }
  const named = (): void => {
    operation.attributes['gen_ai.tool.call.id'] = idOf(run)
    if (!run.tool) return
    operation.name = `${RUN_OF_A_TOOL} ${run.tool.id}`
    operation.attributes['gen_ai.tool.name'] = run.tool.id
  }
  return observer.run(operation, async () => {
    try {
      const result = await call(request, run)
      if (result.kind === 'mcp' && result.result.isError === true) operation.error = 'E_TOOL_FAILED'
      return result
    } finally {
      named()
    }
  })
}
