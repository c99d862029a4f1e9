import { askInspected } from '../core/asks.ts'
import type { Caller } from '../core/context.ts'
import { isProtocolFailure, ProtocolFailure } from '../core/failure.ts'
import type { Relay } from '../core/tool.ts'
import { inspectSaid } from '../exec/inspect.ts'
import type { ServerHost } from './host.ts'

/** Pages that a person opens: what is in their addresses is meant for them. */
const PAGES = -32042

/** What a server answered, or failed with, without credentials, as far as this caller's policy wants that. */
export async function inspected<T extends object>(
  host: Pick<ServerHost, 'inspect'>,
  caller: Caller,
  owner: string,
  answer: Promise<T>,
): Promise<T> {
  try {
    return host.inspect(caller, owner, await answer)
  } catch (error) {
    if (!isProtocolFailure(error) || error.code === PAGES) throw error
    const { message, data } = inspectSaid(host.inspect(caller, owner, { message: error.message, data: error.data }))
    throw new ProtocolFailure(error.code, message, data)
  }
}

/** The relay of a request to a server, with what that asks looked at in the same way. */
export function askedBy(host: Pick<ServerHost, 'inspectQuestion'>, caller: Caller, owner: string, relay: Relay): Relay {
  const { request } = relay
  return request
    ? { ...relay, request: askInspected(request, (params) => host.inspectQuestion(caller, owner, params)) }
    : relay
}

/** What a server says on its own, for this caller; nothing where that must not be said. @param owner absent: not known here */
export function sayable<T extends object>(
  host: Pick<ServerHost, 'inspect'>,
  caller: Caller,
  params: T,
  owner = '',
): T | undefined {
  try {
    return inspectSaid(host.inspect(caller, owner, params))
  } catch {
    return undefined
  }
}
