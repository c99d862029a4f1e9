import { type CallContext, type ServerStatus, type Servers, type ToolDef, ToolError, z } from 'pegboard'
import { lazySchema } from '../_lazy-schema.ts'

/** A server as shown to clients. */
export const row = lazySchema(() =>
  z.object({
    id: z.string(),
    category: z.string(),
    state: z.string(),
    tools: z.int(),
    transport: z.string(),
    era: z.string().optional(),
    version: z.string().optional(),
    reason: z.string().optional(),
    notes: z.array(z.string()).optional(),
    next_attempt_ms: z.int().optional(),
    instance: z.enum(['principal', 'session']).optional(),
    instances: z.int().optional(),
  }),
)

export const rowOf = ({ nextAttemptMs, ...status }: ServerStatus) => ({
  ...status,
  ...(nextAttemptMs === undefined ? {} : { next_attempt_ms: nextAttemptMs }),
})

/** @throws ToolError if the host provides no servers */
export function serversOf({ services }: Pick<CallContext, 'services'>): Servers {
  if (services.servers) return services.servers
  throw new ToolError('No servers are available.', { hint: 'Use another tool.' })
}

export const available: NonNullable<ToolDef['available']> = ({ services }) =>
  services.servers?.hasAny() || 'no servers are configured; add some under mcpServers'

export const server = z.string().min(1).max(200).describe('Id or category, from list_servers.')
export const oneServer = server.optional().describe('Only this server; default all.')

/** One page of a list, and the list's length. */
export function paged<Row>(
  rows: readonly Row[],
  { filter, limit, offset }: { readonly filter: string; readonly limit: number; readonly offset: number },
  textOf: (row: Row) => string,
) {
  const lowerFilter = filter.toLowerCase()
  const matching = lowerFilter === '' ? rows : rows.filter((row) => textOf(row).toLowerCase().includes(lowerFilter))
  const shown = matching.slice(offset, offset + limit)
  return { shown, total: matching.length, truncated: offset + shown.length < matching.length }
}
