import { PegboardError } from '../core/errors.ts'
import type { Json } from '../core/is-record.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import { valueResult } from '../core/tool-result.ts'
import type { ListedJob, Scheduler } from '../exec/scheduler.ts'
import { readCall } from './execute_tool.ts'
import type { MetaHost, MetaTool } from './meta-host.ts'
import { ANY_ARGUMENTS, CHANGES, inputSchema, READS, RUNS, readInteger, readText, TEXT } from './meta-input.ts'
import { resolvePlannedCall, stateLossNote } from './planned-call.ts'

const JOB_ID_INPUT = inputSchema({ job_id: TEXT }, 'job_id')
const TOOL_KEYS = ['name', 'action', 'tool_name', 'tool']

/** The tools that run other tools later, once or repeatedly. */
export function scheduleTools(host: MetaHost, schedule: () => Scheduler): readonly MetaTool[] {
  /**
   * `action` is the older name of `tool`. The job's name is `label`, or `name` when both `action` and `name` are
   * given.
   */
  const readJob = (
    raw: Json,
    scheduleKeys: readonly string[],
    tool: string,
    request: Parameters<MetaTool['run']>[1],
  ) => {
    const entries = Object.entries(raw).filter(([key]) => !scheduleKeys.includes(key))
    const { label, output_channel, ...callKeys } = Object.fromEntries(entries)
    const key = ['action', 'tool_name', 'tool', 'name'].find((one) => typeof callKeys[one] === 'string') ?? 'name'
    const rest = Object.fromEntries(Object.entries(callKeys).filter(([one]) => !TOOL_KEYS.includes(one)))
    const { name, params } = readCall({ name: callKeys[key], ...rest }, tool)
    const jobName = label ?? (key === 'name' ? undefined : callKeys['name'])
    const entry = resolvePlannedCall(host, { ...request, name, input: params })
    const channel = output_channel === undefined ? undefined : readText({ output_channel }, 'output_channel', tool, 200)
    if (channel !== undefined) host.delivery.check(request.caller, channel)
    const jobLabel = jobName === undefined ? undefined : readText({ label: jobName }, 'label', tool, 64)
    return { tool: entry.tool.id, params, ...omitUndefined({ channel, label: jobLabel }) }
  }

  return [
    {
      name: 'schedule_once',
      title: 'Schedule once',
      description: () =>
        'Run a tool later: when is "in 30s" (s, m, h, d) or an ISO 8601 time. The job_id ends with the run.',
      inputSchema: inputSchema(
        { when: TEXT, name: TEXT, params: ANY_ARGUMENTS, label: TEXT, output_channel: TEXT },
        'when',
        'name',
      ),
      otherKeys: 'any',
      hints: RUNS,
      async run(input, request) {
        const when = readText(input, 'when', 'schedule_once', 100)
        const job = readJob(input, ['when'], 'schedule_once', request)
        return valueResult(summarizeJob(await schedule().add(request.caller, { ...job, when })))
      },
    },
    {
      name: 'schedule_cron',
      title: 'Schedule repeatedly',
      description: () =>
        'Run a tool by a cron of five fields, in UTC or timezone. The job_id lasts until max_runs or schedule_cancel.',
      inputSchema: inputSchema(
        {
          cron: TEXT,
          name: TEXT,
          params: ANY_ARGUMENTS,
          label: TEXT,
          timezone: TEXT,
          max_runs: { type: 'integer', default: 0 },
        },
        'cron',
        'name',
      ),
      otherKeys: 'any',
      hints: RUNS,
      async run(input, request) {
        const own = ['cron', 'timezone', 'max_runs']
        const job = {
          ...readJob(input, own, 'schedule_cron', request),
          timezone: input['timezone'] === undefined ? 'UTC' : readText(input, 'timezone', 'schedule_cron', 64),
          cron: input['cron'] === '' ? '' : readText(input, 'cron', 'schedule_cron', 100),
          maxRuns: readInteger(input, 'max_runs', 'schedule_cron', 0, 1_000_000, 0),
        }
        return valueResult(summarizeJob(await schedule().add(request.caller, job)))
      },
    },
    {
      name: 'schedule_cancel',
      title: 'Cancel schedule',
      description: () => 'Cancel a job.',
      inputSchema: JOB_ID_INPUT,
      hints: CHANGES,
      async run(input, { caller }) {
        const id = readText(input, 'job_id', 'schedule_cancel', 100)
        const job = (await schedule().cancel(caller, id)) ?? throwMissing(id)
        return valueResult({ ...summarizeJob(job), cancelled: true })
      },
    },
    {
      name: 'schedule_list',
      title: 'List schedules',
      description: () => 'List scheduled jobs.',
      inputSchema: inputSchema({}),
      hints: READS,
      async run(_input, { caller }) {
        const all = await schedule().list(caller)
        return valueResult({ jobs: all.map(summarizeJob), total: all.length, ...stateLossNote(host) })
      },
    },
    {
      name: 'schedule_status',
      title: 'Schedule status',
      description: () => 'Next run, runs and last result of a job.',
      inputSchema: JOB_ID_INPUT,
      hints: READS,
      async run(input, { caller }) {
        const id = readText(input, 'job_id', 'schedule_status', 100)
        const job = (await schedule().get(caller, id)) ?? throwMissing(id)
        const { last, lastAt, params } = job
        return valueResult({
          ...summarizeJob(job),
          ...(params === undefined ? {} : { params }),
          ...(lastAt === undefined ? {} : { last_run_at: new Date(lastAt).toISOString() }),
          ...(last === undefined ? {} : last.success ? { last_result: last.data } : { last_error: last.error }),
        })
      },
    },
    {
      name: 'remind',
      title: 'Remind',
      description: () =>
        'Get a message later: when is "in 10 minutes" (s, m, h, d) or an ISO 8601 time. It comes with the next result after that. schedule_cancel takes the job_id.',
      inputSchema: inputSchema({ when: TEXT, message: TEXT, name: TEXT }, 'when', 'message'),
      hints: CHANGES,
      async run(input, { caller }) {
        const job = await schedule().add(caller, {
          when: readText(input, 'when', 'remind', 100),
          message: readText(input, 'message', 'remind', 2_000),
          ...(input['name'] === undefined ? {} : { label: readText(input, 'name', 'remind', 64) }),
        })
        return valueResult(summarizeJob(job))
      },
    },
  ]
}

function throwMissing(id: string): never {
  throw new PegboardError('E_NOT_FOUND', `Job '${id}' not found.`, { hint: 'schedule_list lists yours.' })
}

function summarizeJob(job: ListedJob) {
  const { id, label, tool, message, cron, timezone, nextAt, runs, maxRuns, skipped, interrupted, channel, caller } = job
  return {
    job_id: id,
    ...omitUndefined({ label, tool_name: tool, message }),
    recurring: cron !== undefined,
    ...(cron === undefined ? {} : { cron, timezone }),
    next_run_at: nextAt === null ? null : new Date(nextAt).toISOString(),
    runs,
    ...(maxRuns === 0 ? {} : { max_runs: maxRuns }),
    ...omitUndefined({ skipped, interrupted, output_channel: channel }),
    ...(caller.client ? { created_by: caller.client.name.slice(0, 80) } : {}),
  }
}
