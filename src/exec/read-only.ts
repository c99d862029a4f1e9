import type { CallContext, Caller, Services } from '../core/context.ts'
import { PegboardError } from '../core/errors.ts'
import type { Fetch } from '../core/fetch.ts'
import { closed, readOnly } from '../core/read-only.ts'
import type { Tool } from '../core/tool.ts'

/**
 * The context of a tool that changes nothing: everything the host keeps can be looked at and not changed, services only
 * read, the user's own words are left out, and other tools run only as far as they read. What belongs to the call alone
 * (its signal, log, files, warnings, progress and questions) is as ever.
 */
export function readOnlyContext(ctx: CallContext, tool: Pick<Tool, 'writes' | 'needsUserInput'>): CallContext {
  const { signal, log } = ctx
  return closed({
    ...(readOnly(ctx, 'all') as CallContext),
    caller: readOnly(tool.needsUserInput ? ctx.caller : withoutMessage(ctx.caller), 'reads', 'ctx.caller'),
    services: servicesFor(ctx.services, tool.writes ?? []),
    signal,
    log,
    fetch: readingFetch(ctx.fetch),
    progress: ctx.progress,
    sendFile: ctx.sendFile,
    warn: ctx.warn,
    ask: ctx.ask,
    call: ctx.call,
  })
}

const READING = /^(?:get|head|options)$/i

/** Asks for what is there, and changes nothing at the other end. */
const readingFetch =
  (fetch: Fetch): Fetch =>
  async (url, init) => {
    if (READING.test(init?.method ?? 'GET')) return await fetch(url, init)
    throw new PegboardError('E_READ_ONLY_CONTRACT', `A read-only tool may not send ${init?.method} requests.`)
  }

function withoutMessage(caller: Caller): Caller {
  if (caller.turn?.message === undefined) return caller
  const { message: _words, ...turn } = caller.turn
  return { ...caller, turn }
}

/** Services as they are where the tool says that it writes to them. */
function servicesFor(services: Services, writes: readonly string[]): Services {
  const looked = readOnly(services, 'reads', 'ctx.services')
  if (writes.length === 0) return looked
  const given = {} as Services
  // Services are made when they are looked at, by getters that all calls share: they are no entries of the object itself.
  for (const name in services) {
    const key = name as keyof Services
    const get = (): unknown => (writes.includes(name) ? services : looked)[key]
    Object.defineProperty(given, name, { enumerable: true, get })
  }
  return closed(given, 'ctx.services')
}
