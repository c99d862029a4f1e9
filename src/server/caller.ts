import type { Caller } from '../core/context.ts'
import { isRecord } from '../core/record.ts'

/** Who a connection is, as far as the transport can say. */
export interface Connection {
  readonly era: 'legacy' | 'modern'
  readonly principal: string
  readonly session?: string
  /** Made for one request: it is gone before anything could be told to it. */
  readonly perRequest?: boolean
}

/** Builds the caller of a request. What the client says of itself is used for display and limits, never for rights. */
export function callerOf(connection: Connection, client: unknown, capabilities: unknown): Caller {
  const declared = isRecord(capabilities) ? capabilities : {}
  return {
    principal: connection.principal,
    profile: 'default',
    roles: [],
    era: connection.era,
    ...(connection.session === undefined ? {} : { session: connection.session }),
    ...(isRecord(client) && typeof client.name === 'string'
      ? { client: { name: client.name.slice(0, 100), version: String(client.version ?? '').slice(0, 50) } }
      : {}),
    supports: { elicitation: 'elicitation' in declared, sampling: 'sampling' in declared, roots: 'roots' in declared },
  }
}
