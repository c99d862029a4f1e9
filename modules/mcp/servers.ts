import { type CallContext, type ServerStatus, type Servers, type ToolDef, ToolError, z } from 'pegboard'

/** A server as clients are told of it. */
export const row = z.object({
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
})

export const rowOf = ({ nextAttemptMs, ...status }: ServerStatus) => ({
  ...status,
  ...(nextAttemptMs === undefined ? {} : { next_attempt_ms: nextAttemptMs }),
})

/** @throws ToolError where the host has none */
export function serversOf({ services }: Pick<CallContext, 'services'>): Servers {
  if (services.servers) return services.servers
  throw new ToolError('There are no servers here.', { hint: 'Do it another way.' })
}

export const available: NonNullable<ToolDef['available']> = ({ services }) =>
  (services.servers?.list().length ?? 0) > 0 || 'no servers are configured; add some under mcpServers'

export const server = z.string().min(1).max(200).describe('Its id or category, from list_servers.')
export const oneServer = server.optional().describe('Only this one; default all.')
export const page = {
  filter: z.string().max(200).default('').describe('Only those with this in their name or description.'),
  limit: z.int().min(1).max(500).default(50).describe('How many at most.'),
  offset: z.int().min(0).default(0).describe('How many to pass over.'),
}

/** The part of a list that is wanted, and how long it is. */
export function paged<Row>(
  rows: readonly Row[],
  { filter, limit, offset }: { readonly filter: string; readonly limit: number; readonly offset: number },
  textOf: (row: Row) => string,
) {
  const wanted = filter.toLowerCase()
  const found = wanted === '' ? rows : rows.filter((one) => textOf(one).toLowerCase().includes(wanted))
  const shown = found.slice(offset, offset + limit)
  return { shown, total: found.length, truncated: offset + shown.length < found.length }
}
