import type { Caller } from '../core/caller.ts'
import { PegboardError } from '../core/errors.ts'
import { asRecord } from '../core/is-record.ts'
import { valueResult } from '../core/tool-result.ts'
import { STRATEGIES, type Strategy, thresholdOf } from '../exec/notify-when.ts'
import { type ListedWatcher, MAX_PREVIEW, type Watchers } from '../exec/watchers.ts'
import { readCall } from './execute_tool.ts'
import type { MetaHost, MetaTool } from './meta-host.ts'
import {
  ANY_ARGUMENTS,
  CHANGES,
  createInputError,
  inputSchema,
  READS,
  RUNS,
  readInteger,
  readText,
  TEXT,
} from './meta-input.ts'
import { resolvePlannedCall, stateLossNote } from './planned-call.ts'

const WATCHER_ID_INPUT = inputSchema({ watcher_id: TEXT }, 'watcher_id')

/** The tools that call another tool repeatedly and report changes. */
export function watchTools(host: MetaHost, watchers: () => Watchers): readonly MetaTool[] {
  const watcherTool = (
    name: string,
    title: string,
    about: string,
    work: (caller: Caller, id: string) => Promise<ListedWatcher | undefined>,
    hints: Readonly<Record<string, boolean>> = CHANGES,
  ): MetaTool => ({
    name,
    title,
    description: () => about,
    inputSchema: WATCHER_ID_INPUT,
    hints,
    async run(input, { caller }) {
      const id = readText(input, 'watcher_id', name, 100)
      return valueResult(statusOf((await work(caller, id)) ?? throwMissing(id)))
    },
  })
  const requireState = async (
    caller: Caller,
    id: string,
    requiredStatus: 'running' | 'paused',
    verb: string,
  ): Promise<void> => {
    const watcher = await watchers().get(caller, id)
    if (!watcher || watcher.status === requiredStatus) return
    const message = `Watcher '${id}' is ${watcher.status}; only a ${requiredStatus} one can be ${verb}.`
    throw new PegboardError('E_VALIDATION', message, { hint: 'watch_status shows its state.' })
  }

  return [
    {
      name: 'watch_start',
      title: 'Start watcher',
      description: () =>
        'Call a tool every interval seconds and notify as notify_when says. on_threshold: expression "result.value > 1". The watcher_id lasts until watch_stop, or until the tool is gone.',
      inputSchema: inputSchema(
        {
          name: TEXT,
          params: ANY_ARGUMENTS,
          interval: { type: 'integer', default: 30, minimum: 5 },
          label: TEXT,
          max_checks: { type: 'integer', default: 0 },
          notify_when: { enum: STRATEGIES },
          notify_config: inputSchema({ expression: TEXT, batch_size: { type: 'integer' } }),
        },
        'name',
      ),
      otherKeys: 'any',
      hints: RUNS,
      async run(input, request) {
        const { interval, label, max_checks, notify_when, notify_config, ...call } = input
        const { name, params } = readCall(call, 'watch_start')
        const strategy = (notify_when ?? 'on_change') as Strategy
        if (!STRATEGIES.includes(strategy))
          throw createInputError(
            'watch_start',
            `Invalid notify_when: '${String(notify_when).slice(0, 40)}'. Must be one of: ${STRATEGIES.join(', ')}`,
          )
        const config = asRecord(notify_config)
        const { expression, batch_size: batch = 10 } = config
        if (strategy === 'on_threshold' && (typeof expression !== 'string' || thresholdOf(expression) === undefined))
          throw createInputError(
            'watch_start',
            'notify_config.expression: one comparison is required, such as "result.value > 1"',
          )
        if (strategy === 'summary' && !(Number.isInteger(batch) && (batch as number) > 0))
          throw createInputError('watch_start', 'notify_config.batch_size: a positive whole number is required')
        const entry = resolvePlannedCall(host, { ...request, name, input: params })
        const watcher = await watchers().add(request.caller, {
          tool: entry.tool.id,
          params,
          label: label === undefined ? entry.tool.id : readText(input, 'label', 'watch_start', 256),
          intervalMs: readInteger(input, 'interval', 'watch_start', 5, 3_600, 30) * 1_000,
          maxChecks: readInteger(input, 'max_checks', 'watch_start', 0, 10_000, 0),
          strategy,
          batchSize: batch as number,
          ...(typeof expression === 'string' ? { expression } : {}),
        })
        return valueResult(statusOf(watcher))
      },
    },
    watcherTool('watch_stop', 'Stop watcher', 'Stop a watcher.', (caller, id) => watchers().remove(caller, id)),
    watcherTool('watch_pause', 'Pause watcher', 'Pause a watcher.', async (caller, id) => {
      await requireState(caller, id, 'running', 'paused')
      return watchers().pause(caller, id)
    }),
    watcherTool('watch_resume', 'Resume watcher', 'Resume a watcher.', async (caller, id) => {
      await requireState(caller, id, 'paused', 'resumed')
      return watchers().resume(caller, id)
    }),
    watcherTool(
      'watch_status',
      'Watcher status',
      'State of a watcher.',
      (caller, id) => watchers().get(caller, id),
      READS,
    ),
    {
      name: 'watch_list',
      title: 'List watchers',
      description: () => 'List watchers.',
      inputSchema: inputSchema({}),
      hints: READS,
      async run(_input, { caller }) {
        const all = await watchers().list(caller)
        return valueResult({ watchers: all.map(statusOf), total: all.length, ...stateLossNote(host) })
      },
    },
    {
      name: 'watch_history',
      title: 'Watcher history',
      description: () => 'Latest checks.',
      inputSchema: inputSchema(
        { watcher_id: TEXT, last_n: { type: 'integer', default: 10, maximum: 100 } },
        'watcher_id',
      ),
      hints: READS,
      async run(input, { caller }) {
        const id = readText(input, 'watcher_id', 'watch_history', 100)
        const { history, tool } = (await watchers().get(caller, id)) ?? throwMissing(id)
        const checks = history.slice(-readInteger(input, 'last_n', 'watch_history', 1, 100, 10))
        const isCut = checks.some(({ preview }) => preview.length > MAX_PREVIEW)
        return valueResult({
          watcher_id: id,
          checks: checks.map(({ at, ...check }) => ({ ...check, at: new Date(at).toISOString() })),
          ...(isCut
            ? {
                hint: `A preview has at most ${MAX_PREVIEW} characters of a result, and ends with … if there are more. The rest is not kept. Call ${tool} for the whole current result.`,
              }
            : {}),
        })
      },
    },
  ]
}

function throwMissing(id: string): never {
  throw new PegboardError('E_NOT_FOUND', `Watcher '${id}' not found.`, { hint: 'watch_list lists yours.' })
}

function statusOf(watcher: ListedWatcher) {
  const { id, tool, label, status, strategy, intervalMs, maxChecks, checks, errors = 0, notices } = watcher
  const { nextAt, last, history, notifiedAt } = watcher
  return {
    watcher_id: id,
    status,
    tool_name: tool,
    label,
    interval: intervalMs / 1_000,
    notify_when: strategy,
    checks,
    errors,
    ...(maxChecks === 0 ? {} : { max_checks: maxChecks }),
    notices,
    ...(notifiedAt === undefined ? {} : { last_notified_at: new Date(notifiedAt).toISOString() }),
    ...(nextAt === null ? {} : { next_check_at: new Date(nextAt).toISOString() }),
    ...(last?.success === false ? { last_error: last.error } : {}),
    ...(last?.success === true ? { last_result: history.at(-1)?.preview } : {}),
  }
}
