import { PegboardError } from '../core/errors.ts'
import { valueResult } from '../core/tool-result.ts'
import type { Host, MetaTool } from './meta-host.ts'
import { onlyKeys, readText } from './meta-input.ts'

export const checkTask = (host: Host): MetaTool => ({
  name: 'check_task',
  title: 'Check task',
  description: () => 'State and result of a call in the background.',
  inputSchema: { type: 'object', properties: { task_id: { type: 'string' } }, required: ['task_id'] },
  hints: { readOnlyHint: true, openWorldHint: false },
  async run(input, { caller }) {
    onlyKeys(input, ['task_id'], 'check_task')
    const id = readText(input, 'task_id', 'check_task', 200)
    const state = await host.context.servicesOf(caller).tasks?.check(id)
    // A task of another caller is reported as unknown.
    if (!state)
      throw new PegboardError('E_NOT_FOUND', `Unknown task: '${id.slice(0, 80)}'.`, {
        hint: 'Use the task_id exactly as given.',
      })
    return valueResult({ task_id: id, ...state })
  },
})
