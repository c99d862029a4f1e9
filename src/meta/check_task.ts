import { PegboardError } from '../core/errors.ts'
import { valueResult } from '../core/result.ts'
import type { Host, MetaTool } from './host.ts'
import { onlyKeys, text } from './input.ts'

export const checkTask = (host: Host): MetaTool => ({
  name: 'check_task',
  title: 'Check task',
  description: () => 'State and result of a call that goes on in the background.',
  inputSchema: { type: 'object', properties: { task_id: { type: 'string' } }, required: ['task_id'] },
  hints: { readOnlyHint: true, openWorldHint: false },
  async run(input, { caller }) {
    onlyKeys(input, ['task_id'], 'check_task')
    const id = text(input, 'task_id', 'check_task', 200)
    const state = await host.context.servicesOf(caller).tasks?.check(id)
    // Somebody else's is as unknown as any.
    if (!state)
      throw new PegboardError('E_NOT_FOUND', `There is no task '${id.slice(0, 80)}'.`, {
        hint: 'Use the task_id as it was given.',
      })
    return valueResult({ task_id: id, ...state })
  },
})
