import type { Turn } from '../core/caller.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import { firstSentence } from '../core/first-sentence.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import { scrub } from '../core/scrub.ts'
import type { PlatformAdapter } from '../core/service-types.ts'
import { valueResult } from '../core/tool-result.ts'
import { waitAtMost } from '../core/wait-at-most.ts'
import { sessionOwner } from '../exec/task-owner.ts'
import { statusOf } from './background-tools.ts'
import type { MetaHost, MetaTool } from './meta-host.ts'
import { CHANGES, createInputError, inputSchema, READS, readInteger, readText, TEXT } from './meta-input.ts'

const ADAPTER_MS = 5_000
const MAX_NAMES = 20
const DELIBERATE = ['follow', 'on', 'off'] as const

export const requestToolInjection = (host: MetaHost): MetaTool => ({
  name: 'request_tool_injection',
  title: 'Request tool injection',
  description: () => 'Add found tools to the list, to call them by name.',
  inputSchema: inputSchema({ tool_names: { type: 'array', items: TEXT } }, 'tool_names'),
  hints: READS,
  run: (input, { caller }) => valueResult(host.context.inject(caller, readNames(input['tool_names']))),
})

/** The tools about the call context that are never listed. */
export const contextTools = (host: MetaHost): readonly MetaTool[] => [
  {
    name: 'clear_injected_tools',
    title: 'Clear injected tools',
    description: () => 'Remove all injected tools from the list.',
    inputSchema: inputSchema({}),
    hints: READS,
    run: (_input, { caller }) => valueResult({ cleared: host.context.injected.clear(caller) }),
  },
  {
    name: 'list_all_tools',
    title: 'List all tools',
    description: () => 'List names and descriptions of all tools at once; long if there are many.',
    inputSchema: inputSchema({}),
    hints: READS,
    run(_input, { caller }) {
      const { tools } = host.view(caller)
      return valueResult({
        tools: tools.map(({ tool, description }) => ({ name: tool.id, description: firstSentence(description, 140) })),
        total: tools.length,
      })
    },
  },
  {
    name: 'reload_tools',
    title: 'Reload tools',
    admin: true,
    description: () => 'Reload module files, all or those of one module. Running calls finish unchanged.',
    inputSchema: inputSchema({ module: TEXT }),
    hints: CHANGES,
    async run(input, { caller }) {
      const name = input['module'] === undefined ? undefined : readText(input, 'module', 'reload_tools', 200)
      const report = await host.context.servicesOf(caller).registry?.reload(name)
      return valueResult(report ?? { loaded: 0, failed: [] })
    },
  },
  {
    name: 'check_task',
    title: 'Check task',
    description: () => 'State and result of a call in the background.',
    inputSchema: inputSchema({ task_id: TEXT }, 'task_id'),
    hints: READS,
    async run(input, { caller }) {
      const id = readText(input, 'task_id', 'check_task', 200)
      const state = await host.context.servicesOf(caller).tasks?.check(id)
      // A task of another caller is reported as unknown.
      if (!state)
        throw new PegboardError('E_NOT_FOUND', `Unknown task: '${id.slice(0, 80)}'.`, {
          hint: 'Use the task_id exactly as given.',
        })
      return valueResult({ task_id: id, ...state })
    },
  },
  {
    name: 'redirect_task',
    title: 'Redirect task',
    description: () => 'Send the result of a background task to a channel, such as "mcp" or "platform:channel".',
    inputSchema: inputSchema(
      { task_id: TEXT, output_channel: TEXT, max_chars: { type: 'integer', default: 2_000 } },
      'task_id',
      'output_channel',
    ),
    hints: { readOnlyHint: false, destructiveHint: false, openWorldHint: true },
    async run(input, { caller }) {
      const id = readText(input, 'task_id', 'redirect_task', 100)
      const channel = readText(input, 'output_channel', 'redirect_task', 200)
      const maxChars = readInteger(input, 'max_chars', 'redirect_task', 1, 20_000, 2_000)
      host.delivery.check(caller, channel)
      const task = await host.tasks.redirect(sessionOwner(caller), id, { channel, maxChars })
      if (!task)
        throw new PegboardError('E_NOT_FOUND', `Task '${id}' not found.`, { hint: 'Use the task_id exactly as given.' })
      return valueResult({ ...statusOf(task, host.now()), output_channel: channel })
    },
  },
  {
    name: 'list_active_servers',
    title: 'List active servers',
    description: () => 'List servers, rooms and client sessions that can get messages now, by platform.',
    inputSchema: inputSchema({}),
    hints: READS,
    async run(_input, { caller }) {
      const adapters = host.context.servicesOf(caller).adapters?.list() ?? []
      return valueResult({ adapters: await Promise.all(adapters.map(serversOf)) })
    },
  },
  {
    name: 'extend_tool_loop',
    title: 'Extend tool loop',
    description: () => 'Allow more rounds of tool calls for this answer, if Pegboard runs the loop.',
    inputSchema: inputSchema({ rounds: { type: 'integer', default: 5 } }),
    hints: READS,
    run(input, { loop }) {
      const rounds = readInteger(input, 'rounds', 'extend_tool_loop', 1, 1_000, 5)
      if (loop) return valueResult({ extended: loop.extend(rounds), limit: loop.limit, used: loop.used, max: loop.max })
      const note = 'The client runs this conversation and sets its limit.'
      return valueResult({ extended: 0, limit: null, used: null, max: null, note })
    },
  },
  {
    name: 'retrieve_tool_call_log',
    title: 'Retrieve tool call log',
    description: () => 'Show the latest tool calls of this session: arguments, result, time.',
    inputSchema: inputSchema({ limit: { type: 'integer', default: 10 } }),
    hints: READS,
    run(input, { caller }) {
      const limit = readInteger(input, 'limit', 'retrieve_tool_call_log', 1, 1_000, 10)
      const { records } = host.context
      if (!records) return valueResult({ records: [], note: 'Calls are not recorded: services.callLog is 0.' })
      return valueResult({ records: records.of(caller, limit) })
    },
  },
  {
    name: 'set_turn',
    title: 'Set turn',
    admin: true,
    description: () => 'Set the message that this session handles, for clients that cannot send it with a request.',
    inputSchema: inputSchema({ message: TEXT, deliberate: { enum: DELIBERATE }, generation_id: TEXT }),
    hints: CHANGES,
    run(input, { caller }) {
      const deliberate = DELIBERATE.find((one) => one === input['deliberate'])
      if (input['deliberate'] !== undefined && deliberate === undefined)
        throw createInputError('set_turn', `deliberate: one of ${DELIBERATE.join(', ')} is required`)
      const text = (key: string, max: number): string | undefined =>
        input[key] === undefined ? undefined : readText(input, key, 'set_turn', max)
      const [message, generation] = [text('message', 16_000), text('generation_id', 256)]
      const turn: Turn = omitUndefined({ message, deliberate, generation })
      host.context.turns.set(caller, turn)
      return valueResult({ turn: Object.keys(turn).length === 0 ? null : input })
    },
  },
  {
    name: 'set_flag',
    title: 'Set flag',
    admin: true,
    description: () => 'Switch a flag of this profile on or off, until the configuration is reloaded.',
    inputSchema: inputSchema({ flag: TEXT, value: { type: 'boolean' } }, 'flag', 'value'),
    hints: CHANGES,
    run(input, { caller }) {
      const flag = readText(input, 'flag', 'set_flag', 64)
      const { value } = input
      if (typeof value !== 'boolean') throw createInputError('set_flag', 'value: true or false is required')
      host.context.setFlag(caller.profile, flag, value)
      return valueResult({ profile: caller.profile, flag, value })
    },
  },
]

/** Models also send a single name, or several names in one string. */
function readNames(value: unknown): readonly string[] {
  const names = typeof value === 'string' ? value.split(/[\s,]+/).filter((name) => name !== '') : value
  if (!Array.isArray(names) || names.length === 0 || !names.every((name) => typeof name === 'string'))
    throw createInputError('request_tool_injection', 'tool_names: a list of names is required')
  if (names.length > MAX_NAMES)
    throw createInputError('request_tool_injection', `tool_names: at most ${MAX_NAMES} (${names.length} given)`)
  return [...new Set(names)]
}

/** A failing adapter reports its error and does not affect the others. */
async function serversOf(adapter: PlatformAdapter) {
  try {
    return { adapter: adapter.name, servers: await waitAtMost(ADAPTER_MS, adapter.listServers(), throwTooSlow) }
  } catch (error) {
    return { adapter: adapter.name, error: scrub(messageOf(error)) }
  }
}

const throwTooSlow = (): never => {
  throw new Error(`no answer within ${ADAPTER_MS} ms`)
}
