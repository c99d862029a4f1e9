import type { Server, ServerContext } from '@modelcontextprotocol/server'
import { ProtocolFailure } from '../core/failure.ts'
import { TASK_METHODS, TASKS, takesTasks } from '../core/tasks.ts'
import { noTask } from './answer.ts'
import { findTask } from './find-task.ts'
import type { ServerHost } from './host.ts'
import { asProtocolError, type PassThrough } from './passthrough.ts'
import { relayed } from './wire.ts'

type Json = Readonly<Record<string, unknown>>

/**
 * Relays the tasks of 2026-era servers to 2026-era clients. A task has a name of ours, which says whose it is and of
 * which server, so nothing is kept: it is found again after a restart.
 */
export function relayTasks(server: Server, host: ServerHost, { caller, relay }: PassThrough): void {
  const ask = async (method: string, params: Json, ctx: ServerContext): Promise<Json> => {
    const asking = relay(ctx)
    if (!takesTasks(asking.clientCapabilities))
      throw new ProtocolFailure(-32021, 'The client did not say that it takes tasks', {
        requiredCapabilities: { extensions: { [TASKS]: {} } },
      })
    const who = caller(ctx)
    const found = findTask(host, who, params['taskId'])
    if (!found?.endpoints) throw noTask
    const own = { ...params, taskId: found.id }
    const result = await found.endpoints.request(method, own, asking, ctx.mcpReq.signal)
    const { resultType: _theirs, ...rest } = result
    const answer = { ...relayed(rest), ...lifetimeOf(rest) }
    return 'taskId' in answer ? { ...answer, taskId: params['taskId'] } : answer
  }
  for (const method of TASK_METHODS)
    server.setRequestHandler(method, { params: anyParams }, async (params, ctx) => {
      try {
        return (await ask(method, params as Json, ctx)) as never
      } catch (error) {
        throw asProtocolError(error)
      }
    })
}

/** Of a task, not of an answer to be kept. */
const lifetimeOf = ({ ttlMs }: Json): Json => (ttlMs === undefined ? {} : { ttlMs })

/** The server that has the task checks what is said to it. */
const anyParams = {
  '~standard': { version: 1, vendor: 'pegboard', validate: (value: unknown) => ({ value }) },
} as const
