import { PegboardError } from '../core/errors.ts'
import { valueResult } from '../core/result.ts'
import type { Listed, Schedule } from '../exec/schedule.ts'
import { readCall } from './execute_tool.ts'
import type { Host, MetaTool } from './host.ts'
import { ANY_ARGUMENTS, onlyKeys, text, whole } from './input.ts'
import { lostNote } from './lost.ts'
import { unasked } from './unasked.ts'

const ONE = { type: 'object', properties: { job_id: { type: 'string' } }, required: ['job_id'] } as const
const READS = { readOnlyHint: true, openWorldHint: false }
const RUNS = { readOnlyHint: false, destructiveHint: true, openWorldHint: true }
const CHANGES = { readOnlyHint: false, destructiveHint: false, openWorldHint: false }
const TOOL_KEYS = ['name', 'action', 'tool_name', 'tool']

type Input = Readonly<Record<string, unknown>>

/** Tools that let other tools run later, once or again and again, and remind. */
export function scheduleTools(host: Host, schedule: () => Schedule): readonly MetaTool[] {
  /** `action` is the older word for the tool; `label` or, beside it, `name` is what the job is called. */
  const read = (raw: Input, own: readonly string[], tool: string, request: Parameters<MetaTool['run']>[1]) => {
    const { label, output_channel, ...given } = Object.fromEntries(
      Object.entries(raw).filter(([key]) => !own.includes(key)),
    )
    const key = ['action', 'tool_name', 'tool', 'name'].find((one) => typeof given[one] === 'string') ?? 'name'
    const rest = Object.fromEntries(Object.entries(given).filter(([one]) => !TOOL_KEYS.includes(one)))
    const { name, params } = readCall({ name: given[key], ...rest }, tool)
    const called = label ?? (key === 'name' ? undefined : given['name'])
    const entry = unasked(host, { ...request, name, input: params })
    const channel = output_channel === undefined ? undefined : text({ output_channel }, 'output_channel', tool, 200)
    if (channel !== undefined) host.delivery.check(request.caller, channel)
    return {
      tool: entry.tool.id,
      params,
      ...(channel === undefined ? {} : { channel }),
      ...(called === undefined ? {} : { label: text({ label: called }, 'label', tool, 64) }),
    }
  }

  return [
    {
      name: 'schedule_once',
      title: 'Schedule once',
      description: () =>
        'Run a tool later: when is "in 30s" (s, m, h, d) or an ISO 8601 time. The job_id ends with the run.',
      inputSchema: {
        type: 'object',
        properties: {
          when: { type: 'string' },
          name: { type: 'string' },
          params: ANY_ARGUMENTS,
          label: { type: 'string' },
          output_channel: { type: 'string' },
        },
        required: ['when', 'name'],
      },
      hints: RUNS,
      async run(input, request) {
        const when = text(input, 'when', 'schedule_once', 100)
        const job = read(input, ['when'], 'schedule_once', request)
        return valueResult(brief(await schedule().add(request.caller, { ...job, when })))
      },
    },
    {
      name: 'schedule_cron',
      title: 'Schedule repeatedly',
      description: () =>
        'Run a tool by a cron of five fields, in UTC or timezone. The job_id lasts until max_runs or schedule_cancel.',
      inputSchema: {
        type: 'object',
        properties: {
          cron: { type: 'string' },
          name: { type: 'string' },
          params: ANY_ARGUMENTS,
          label: { type: 'string' },
          timezone: { type: 'string' },
          max_runs: { type: 'integer', default: 0 },
        },
        required: ['cron', 'name'],
      },
      hints: RUNS,
      async run(input, request) {
        const own = ['cron', 'timezone', 'max_runs']
        const job = read(input, own, 'schedule_cron', request)
        const timezone = input['timezone'] === undefined ? 'UTC' : text(input, 'timezone', 'schedule_cron', 64)
        return valueResult(
          brief(
            await schedule().add(request.caller, {
              ...job,
              cron: input['cron'] === '' ? '' : text(input, 'cron', 'schedule_cron', 100),
              timezone,
              maxRuns: whole(input, 'max_runs', 'schedule_cron', 0, 1_000_000, 0),
            }),
          ),
        )
      },
    },
    {
      name: 'schedule_cancel',
      title: 'Cancel schedule',
      description: () => 'Cancel a job.',
      inputSchema: ONE,
      hints: CHANGES,
      async run(input, { caller }) {
        onlyKeys(input, ['job_id'], 'schedule_cancel')
        const id = text(input, 'job_id', 'schedule_cancel', 100)
        return valueResult({ ...brief((await schedule().cancel(caller, id)) ?? missing(id)), cancelled: true })
      },
    },
    {
      name: 'schedule_list',
      title: 'List schedules',
      description: () => 'Your scheduled jobs.',
      inputSchema: { type: 'object', properties: {} },
      hints: READS,
      async run(input, { caller }) {
        onlyKeys(input, [], 'schedule_list')
        const all = await schedule().list(caller)
        return valueResult({ jobs: all.map(brief), total: all.length, ...lostNote(host) })
      },
    },
    {
      name: 'schedule_status',
      title: 'Schedule status',
      description: () => 'Next run, runs and last result of a job.',
      inputSchema: ONE,
      hints: READS,
      async run(input, { caller }) {
        onlyKeys(input, ['job_id'], 'schedule_status')
        const id = text(input, 'job_id', 'schedule_status', 100)
        const job = (await schedule().get(caller, id)) ?? missing(id)
        const { last, lastAt, params } = job
        return valueResult({
          ...brief(job),
          ...(params === undefined ? {} : { params }),
          ...(lastAt === undefined ? {} : { last_run_at: new Date(lastAt).toISOString() }),
          ...(last === undefined ? {} : last.success ? { last_result: last.data } : { last_error: last.error }),
        })
      },
    },
    {
      name: 'remind',
      title: 'Remind',
      description: () => 'Be told a message later; when and job_id as schedule_once.',
      inputSchema: {
        type: 'object',
        properties: { when: { type: 'string' }, message: { type: 'string' }, name: { type: 'string' } },
        required: ['when', 'message'],
      },
      hints: CHANGES,
      async run(input, { caller }) {
        onlyKeys(input, ['when', 'message', 'name'], 'remind')
        const job = await schedule().add(caller, {
          when: text(input, 'when', 'remind', 100),
          message: text(input, 'message', 'remind', 2_000),
          ...(input['name'] === undefined ? {} : { label: text(input, 'name', 'remind', 64) }),
        })
        return valueResult(brief(job))
      },
    },
  ]
}

function missing(id: string): never {
  throw new PegboardError('E_NOT_FOUND', `Job '${id}' not found.`, { hint: 'schedule_list shows yours.' })
}

function brief(job: Listed) {
  const { id, label, tool, message, cron, timezone, nextAt, runs, maxRuns, skipped, interrupted, channel, caller } = job
  return {
    job_id: id,
    ...(label === undefined ? {} : { label }),
    ...(tool === undefined ? {} : { tool_name: tool }),
    ...(message === undefined ? {} : { message }),
    recurring: cron !== undefined,
    ...(cron === undefined ? {} : { cron, timezone }),
    next_run_at: nextAt === null ? null : new Date(nextAt).toISOString(),
    runs,
    ...(maxRuns === 0 ? {} : { max_runs: maxRuns }),
    ...(skipped === undefined ? {} : { skipped }),
    ...(interrupted === undefined ? {} : { interrupted }),
    ...(channel === undefined ? {} : { output_channel: channel }),
    ...(caller.client ? { created_by: caller.client.name.slice(0, 80) } : {}),
  }
}
