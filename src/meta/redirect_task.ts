import { PegboardError } from '../core/errors.ts'
import { valueResult } from '../core/tool-result.ts'
import { sessionOwner } from '../exec/task-owner.ts'
import { statusOf } from './background-tools.ts'
import type { Host, MetaTool } from './meta-host.ts'
import { onlyKeys, readInteger, readText } from './meta-input.ts'

export const redirectTask = (host: Host): MetaTool => ({
  name: 'redirect_task',
  title: 'Redirect task',
  description: () => 'Send the result of a background task to a channel, such as "mcp" or "platform:channel".',
  inputSchema: {
    type: 'object',
    properties: {
      task_id: { type: 'string' },
      output_channel: { type: 'string' },
      max_chars: { type: 'integer', default: 2_000 },
    },
    required: ['task_id', 'output_channel'],
  },
  hints: { readOnlyHint: false, destructiveHint: false, openWorldHint: true },
  async run(input, { caller }) {
    onlyKeys(input, ['task_id', 'output_channel', 'max_chars'], 'redirect_task')
    const id = readText(input, 'task_id', 'redirect_task', 100)
    const channel = readText(input, 'output_channel', 'redirect_task', 200)
    const maxChars = readInteger(input, 'max_chars', 'redirect_task', 1, 20_000, 2_000)
    host.delivery.check(caller, channel)
    const task = await host.tasks.redirect(sessionOwner(caller), id, { channel, maxChars })
    if (!task)
      throw new PegboardError('E_NOT_FOUND', `Task '${id}' not found.`, { hint: 'Use the task_id exactly as given.' })
    return valueResult({ ...statusOf(task, host.now()), output_channel: channel })
  },
})
