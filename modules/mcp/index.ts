import { defineModule, type ServerStatus, z } from 'pegboard'

const row = z.object({
  id: z.string(),
  state: z.string(),
  tools: z.int(),
  transport: z.string(),
  era: z.string().optional(),
  version: z.string().optional(),
  reason: z.string().optional(),
  next_attempt_ms: z.int().optional(),
})

const rowOf = ({ id, state, tools, transport, era, version, reason, nextAttemptMs }: ServerStatus) => ({
  id,
  state,
  tools,
  transport,
  ...(era === undefined ? {} : { era }),
  ...(version === undefined ? {} : { version }),
  ...(reason === undefined ? {} : { reason }),
  ...(nextAttemptMs === undefined ? {} : { next_attempt_ms: nextAttemptMs }),
})

export default defineModule({
  name: 'mcp',
  description: 'The MCP servers behind this one: which are configured, and how they are doing.',
  synonyms: [['server', 'upstream', 'serveur', 'servidor']],
  tools: {
    list_servers: {
      title: 'List servers',
      description:
        'Lists the configured MCP servers: state, number of tools, and why one is failing and when it is tried again. For what their tools do, search instead.',
      aliases: ['servers', 'upstreams', 'server status', 'lister les serveurs', 'état des serveurs'],
      tags: ['mcp', 'servers', 'health'],
      output: z.object({ servers: z.array(row), total: z.int() }),
      effect: 'read',
      idempotent: true,
      sideEffects: ['none'],
      examples: [{ input: {} }],
      available: ({ services }) =>
        (services.servers?.list().length ?? 0) > 0 || 'no servers are configured; add some under mcpServers',
      run(_input, { services }) {
        const servers = (services.servers?.list() ?? []).map(rowOf)
        return { servers, total: servers.length }
      },
    },
  },
})
