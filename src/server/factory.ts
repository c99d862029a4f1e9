import type { McpServer, Server } from '@modelcontextprotocol/server'
import type { Entrant } from './caller.ts'
import type { Lane, LaneOptions } from './lane.ts'

/** One server instance, used by one connection (2025 era) or one request (2026 era) and never shared. */
export interface Served {
  readonly server: McpServer | Server
  /** Answers calls of a 2025-era session without the SDK; the other messages are left to `server`. */
  readonly lane?: (send: LaneOptions['send']) => Lane
  /** The tools that belong into the empty list it answered. */
  readonly listed?: () => readonly object[] | undefined
  /** Called once, when the connection or the request is over. */
  dispose(): void
}

export interface ServedConnection {
  readonly era: 'modern' | 'legacy'
  readonly entrant: Entrant
  /** The 2025-era session; absent for stateless requests. */
  readonly sessionId?: string
  /** True on the old HTTP+SSE transport. */
  readonly sse?: boolean
}

/** Makes a fresh instance. Must be cheap: the 2026 era asks for one with every request. */
export type ServerFactory = (connection: ServedConnection) => Served
