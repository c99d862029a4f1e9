import type { Caller } from '../core/caller.ts'
import { isPegboardError, PegboardError } from '../core/errors.ts'
import type { Json } from '../core/is-record.ts'
import { type ToolResult, valueResult } from '../core/tool-result.ts'
import type { Task } from '../exec/background-task.ts'
import { sessionOwner } from '../exec/task-owner.ts'
import { FINDERS, readCall } from './execute_tool.ts'
import { fitPart } from './fit-result.ts'
import type { MetaHost, MetaTool } from './meta-host.ts'
import { ANY_ARGUMENTS, CHANGES, inputSchema, READS, RUNS, readInteger, readText, TEXT } from './meta-input.ts'
import { stateLossNote } from './planned-call.ts'

const TASK_ID = inputSchema({ task_id: TEXT }, 'task_id')
const WAIT_S = { least: 1, most: 3_600, usual: 60 }

/** The tools for background tasks: start, status, wait, result, list and cancel. */
export function backgroundTools(host: MetaHost, isMeta: (name: string) => boolean): readonly MetaTool[] {
  const { tasks, now } = host
  const findOwnTask = async (input: Json, tool: string, caller: Caller): Promise<Task> => {
    const id = readText(input, 'task_id', tool, 100)
    return (await tasks.get(sessionOwner(caller), id)) ?? throwMissing(id)
  }

  return [
    {
      name: 'background_run',
      title: 'Run in background',
      description: () =>
        `Start a tool that takes long; returns a task_id for background_wait, kept ${Math.ceil(tasks.keptMs / 60_000)} min after the end.`,
      inputSchema: inputSchema({ name: TEXT, params: ANY_ARGUMENTS }, 'name'),
      otherKeys: 'any',
      hints: RUNS,
      async run(input, request) {
        const { name, params } = readCall(input, 'background_run')
        if (isMeta(name)) throw new PegboardError('E_LOOP_DETECTED', `background_run cannot run ${name}.`)
        const found = host.view(request.caller).resolve(name)
        const tool = found.kind === 'found' ? found.tool.tool : { id: name, idempotent: false }
        try {
          const task = await tasks.begin({ ...request, name, input: params, finders: FINDERS }, tool)
          return valueResult(statusOf(task, now()))
        } catch (error) {
          if (!isPegboardError(error)) throw error
          const { code, message, hint } = error
          throw new PegboardError(code, `Background task failed immediately: ${message}`, { hint })
        }
      },
    },
    {
      name: 'background_status',
      title: 'Background status',
      description: () => 'Status of a background task.',
      inputSchema: TASK_ID,
      otherKeys: ['timeout'],
      hints: READS,
      run: async (input, { caller }) =>
        valueResult(statusOf(await findOwnTask(input, 'background_status', caller), now())),
    },
    {
      name: 'background_result',
      title: 'Background result',
      description: () => 'Result of a background task.',
      inputSchema: TASK_ID,
      otherKeys: ['timeout'],
      hints: READS,
      run: async (input, { caller }) => resultOf(host, caller, await findOwnTask(input, 'background_result', caller)),
    },
    {
      name: 'background_wait',
      title: 'Wait for background',
      description: () => 'Wait for a background task, timeout in seconds; its result.',
      inputSchema: inputSchema(
        { task_id: TEXT, timeout: { type: 'integer', default: WAIT_S.usual, maximum: WAIT_S.most } },
        'task_id',
      ),
      hints: READS,
      async run(input, { caller, signal, abort }) {
        const seconds = readInteger(input, 'timeout', 'background_wait', WAIT_S.least, WAIT_S.most, WAIT_S.usual)
        const { id } = await findOwnTask(input, 'background_wait', caller)
        const task = await tasks.wait(sessionOwner(caller), id, seconds * 1_000, signal ?? abort?.signal)
        return await resultOf(host, caller, task ?? throwMissing(id))
      },
    },
    {
      name: 'background_cancel',
      title: 'Cancel background',
      description: () => 'Cancel a background task.',
      inputSchema: TASK_ID,
      otherKeys: ['timeout'],
      hints: CHANGES,
      async run(input, { caller }) {
        const before = await findOwnTask(input, 'background_cancel', caller)
        if (before.status !== 'running')
          throw new PegboardError('E_VALIDATION', `Task already ${before.status}.`, { hint: 'It has already ended.' })
        const task = await tasks.cancel(sessionOwner(caller), before.id)
        return valueResult(statusOf(task ?? throwMissing(before.id), now()))
      },
    },
    {
      name: 'background_list',
      title: 'List background',
      description: () => 'List background tasks.',
      inputSchema: inputSchema({}),
      hints: READS,
      async run(_input, { caller }) {
        const all = await tasks.list(sessionOwner(caller))
        return valueResult({
          tasks: all.map((task) => statusOf(task, now())),
          total: all.length,
          ...Object.fromEntries(STATES.map((state) => [state, all.filter(({ status }) => status === state).length])),
          ...stateLossNote(host),
        })
      },
    },
  ]
}

const STATES: readonly Task['status'][] = ['running', 'completed', 'failed', 'cancelled', 'interrupted']

function throwMissing(id: string): never {
  throw new PegboardError('E_NOT_FOUND', `Task '${id}' not found.`, { hint: 'background_list lists yours.' })
}

/** A task without its result, as tools report it. */
export function statusOf({ id, tool, status, startedAt, finishedAt, progress, outcome }: Task, now: number) {
  return {
    task_id: id,
    tool_name: tool,
    status,
    elapsed_seconds: Math.round(((finishedAt ?? now) - startedAt) / 100) / 10,
    started_at: new Date(startedAt).toISOString(),
    ...(finishedAt === undefined ? {} : { finished_at: new Date(finishedAt).toISOString() }),
    ...(status === 'running' && progress ? { progress } : {}),
    ...(outcome?.success === false ? { error: outcome.error } : {}),
  }
}

async function resultOf(host: MetaHost, caller: Caller, task: Task): Promise<ToolResult> {
  const { status, outcome, tool } = task
  const summary = statusOf(task, host.now())
  if (status === 'running') return valueResult({ ...summary, hint: 'Still running: background_wait waits for it.' })
  if (!outcome?.success) return valueResult(summary)
  const result = await fitPart(host, caller, tool, outcome.data, host.view(caller).maxResultTokens() * 0.9)
  return valueResult({ ...summary, result })
}

/** The answer to a client whose call continues in the background. */
export const createBackgroundAnswer = ({ id, tool }: Task): ToolResult =>
  valueResult({
    task_id: id,
    tool_name: tool,
    status: 'running',
    hint: 'It runs in the background: background_wait returns its result.',
  })
