import type { Caller } from '../core/caller.ts'
import { isProtocolFailure, ProtocolFailure } from '../core/protocol-failure.ts'
import { inspectServerRequests } from '../core/server-requests.ts'
import type { Relay } from '../core/tool.ts'
import { inspectServerMessage } from '../exec/inspect-data.ts'
import type { InspectHost } from './server-host.ts'

/** Error code with addresses of pages for a person. They may contain secrets meant for that person. */
const PAGES = -32042

/** The answer or error of a server, with credentials removed as the policy of this caller demands. */
export async function inspectAnswer<T extends object>(
  host: InspectHost,
  caller: Caller,
  owner: string,
  answer: Promise<T>,
): Promise<T> {
  try {
    return host.inspect(caller, owner, await answer)
  } catch (error) {
    if (!isProtocolFailure(error) || error.code === PAGES) throw error
    const { message, data } = inspectServerMessage(
      host.inspect(caller, owner, { message: error.message, data: error.data }),
    )
    throw new ProtocolFailure(error.code, message, data)
  }
}

/** The relay of a request to a server, whose questions are inspected in the same way. */
export function createInspectedRelay(host: InspectHost, caller: Caller, owner: string, relay: Relay): Relay {
  const { request } = relay
  return request
    ? { ...relay, request: inspectServerRequests(request, (params) => host.inspectQuestion(caller, owner, params)) }
    : relay
}

/** The parameters of a notification of a server, for this caller; undefined if they must not be sent. @param owner default: unknown */
export function inspectNotification<T extends object>(
  host: InspectHost,
  caller: Caller,
  params: T,
  owner = '',
): T | undefined {
  try {
    return inspectServerMessage(host.inspect(caller, owner, params))
  } catch {
    return undefined
  }
}
