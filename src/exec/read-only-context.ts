import type { CallContext, Caller, Services } from '../core/caller.ts'
import { PegboardError } from '../core/errors.ts'
import type { Fetch } from '../core/fetch-types.ts'
import { createReadOnlyObject, readOnly } from '../core/read-only.ts'
import type { Tool } from '../core/tool.ts'

/**
 * The context of a tool that changes nothing: stores can only be read, services only offer reads, the user's own words
 * are left out, and only tools that read can be called. The signal, log, files, warnings, progress and questions are
 * unchanged.
 */
export function readOnlyContext(ctx: CallContext, tool: Pick<Tool, 'writes' | 'needsUserInput'>): CallContext {
  const { signal, log } = ctx
  return createReadOnlyObject({
    ...(readOnly(ctx, 'all') as CallContext),
    caller: readOnly(tool.needsUserInput ? ctx.caller : removeMessage(ctx.caller), 'reads', 'ctx.caller'),
    services: limitServices(ctx.services, tool.writes ?? []),
    signal,
    log,
    fetch: createReadOnlyFetch(ctx.fetch),
    progress: ctx.progress,
    sendFile: ctx.sendFile,
    warn: ctx.warn,
    ask: ctx.ask,
    call: ctx.call,
  })
}

const READING = /^(?:get|head|options)$/i

const createReadOnlyFetch =
  (fetch: Fetch): Fetch =>
  async (url, init) => {
    if (READING.test(init?.method ?? 'GET')) return await fetch(url, init)
    throw new PegboardError('E_READ_ONLY_CONTRACT', `A read-only tool may not send ${init?.method} requests.`)
  }

function removeMessage(caller: Caller): Caller {
  if (caller.turn?.message === undefined) return caller
  const { message: _words, ...turn } = caller.turn
  return { ...caller, turn }
}

/** Keeps the services that the tool declares to write to. */
function limitServices(services: Services, writes: readonly string[]): Services {
  const readOnlyServices = readOnly(services, 'reads', 'ctx.services')
  if (writes.length === 0) return readOnlyServices
  const limited = {} as Services
  // Services are getters on a shared prototype, so they are no own properties.
  for (const name in services) {
    const key = name as keyof Services
    const get = (): unknown => (writes.includes(name) ? services : readOnlyServices)[key]
    Object.defineProperty(limited, name, { enumerable: true, get })
  }
  return createReadOnlyObject(limited, 'ctx.services')
}
