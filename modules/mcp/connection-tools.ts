import { type ToolDef, z } from 'pegboard'
import { denied } from '../_errors.ts'
import { lazySchema } from '../_lazy-schema.ts'
import { available, oneServer, row, rowOf, server, serversOf } from './servers.ts'

export const list_servers: ToolDef = {
  title: 'List servers',
  description:
    'List the configured MCP servers: state, number of tools, why one fails and when Pegboard retries. A server in the state known is not running; a call starts it. For what their tools do, search instead.',
  aliases: ['servers', 'upstreams', 'server status', 'lister les serveurs', 'état des serveurs'],
  tags: ['mcp', 'servers', 'health'],
  output: lazySchema(() =>
    z.object({ servers: z.array(row), total: z.int(), warnings: z.array(z.string()).optional() }),
  ),
  effect: 'read',
  idempotent: true,
  sideEffects: ['none'],
  examples: [{ input: {} }],
  available,
  run(_input, { services }) {
    const servers = (services.servers?.list() ?? []).map(rowOf)
    const warnings = services.servers?.unmatchedRules() ?? []
    return { servers, total: servers.length, ...(warnings.length > 0 ? { warnings } : {}) }
  },
}

/**
 * Parameters that would describe how to start a server. Accepted so that the error can explain why they are not used.
 */
const HOW = ['transport', 'command', 'args', 'env', 'cwd', 'url', 'headers', 'timeout'] as const
const how = z.unknown().optional().describe('Not accepted: servers are started as the configuration says.')

const Connect = lazySchema(() =>
  z.object({
    server_id: server,
    ...(Object.fromEntries(HOW.map((name) => [name, how])) as Record<(typeof HOW)[number], typeof how>),
  }),
)

export const connect: ToolDef<unknown, typeof Connect> = {
  title: 'Connect a server',
  description:
    'Connect a configured MCP server now and wait until its tools are known; also after disconnect. Calls connect servers automatically: use this to check one, or to see why it fails.',
  aliases: ['start server', 'open connection', 'connecter un serveur', 'Server verbinden'],
  tags: ['mcp', 'servers'],
  input: Connect,
  hidden: HOW,
  effect: 'write',
  idempotent: true,
  openWorld: true,
  sideEffects: ['may start a program that the configuration names'],
  examples: [{ input: { server_id: 'github' } }],
  available,
  async run({ server_id, ...rest }, ctx) {
    const givenNames = HOW.filter((name) => rest[name] !== undefined)
    if (givenNames.length > 0)
      throw denied(
        'stdio upstreams are added in the config file only, and so are all others',
        `Leave out ${givenNames.join(', ')}; list_servers lists the servers. The operator adds one under mcpServers.`,
      )
    return rowOf(await serversOf(ctx).connect(server_id))
  },
}

const One = lazySchema(() => z.object({ server_id: server }))

export const disconnect: ToolDef<unknown, typeof One> = {
  title: 'Disconnect a server',
  description:
    'Disconnect a configured MCP server and stop its process, for all its users; its tools cannot be called until connect. Idle servers stop automatically.',
  aliases: ['stop server', 'close connection', 'déconnecter un serveur', 'Server trennen'],
  tags: ['mcp', 'servers'],
  input: One,
  effect: 'write',
  idempotent: true,
  sideEffects: ['cancels running calls of the server', 'stops its process'],
  examples: [{ input: { server_id: 'github' } }],
  available,
  run: async ({ server_id }, ctx) => rowOf(await serversOf(ctx).disconnect(server_id)),
}

export const reconnect: ToolDef<unknown, typeof One> = {
  title: 'Reconnect a server',
  description:
    'Restart a configured MCP server; everything it keeps in memory is lost. Use it if a server hangs or gives wrong answers. Failed servers reconnect automatically.',
  aliases: ['restart server', 'reconnecter un serveur', 'Server neu starten'],
  tags: ['mcp', 'servers'],
  input: One,
  effect: 'write',
  openWorld: true,
  sideEffects: ['cancels running calls of the server', 'restarts its process'],
  examples: [{ input: { server_id: 'github' } }],
  available,
  run: async ({ server_id }, ctx) => rowOf(await serversOf(ctx).reconnect(server_id)),
}

const Health = lazySchema(() => z.object({ server_id: oneServer }))

export const health: ToolDef<unknown, typeof Health> = {
  title: 'Check servers',
  description:
    'Check whether connected MCP servers answer, and how fast; other servers are not started, only their state is shown. For states alone use list_servers.',
  aliases: ['health_check', 'ping servers', 'is it up', 'vérifier les serveurs', 'Server prüfen'],
  tags: ['mcp', 'servers', 'health'],
  input: Health,
  effect: 'read',
  openWorld: true,
  allowRepeat: true,
  sideEffects: ['asks the servers'],
  examples: [{ input: {} }, { input: { server_id: 'github' } }],
  available,
  async run({ server_id }, ctx) {
    const servers = serversOf(ctx)
    const matching = servers.list().filter(({ id, category }) => [undefined, id, category].includes(server_id))
    // Lists the existing servers.
    if (server_id !== undefined && matching.length === 0) await servers.ping(server_id)
    const checked = await Promise.all(
      matching.map(async (status) => {
        if (status.state === 'failing') return { ...rowOf(status), healthy: false }
        try {
          const latency = await servers.ping(status.id)
          return {
            ...rowOf(status),
            healthy: latency === undefined ? null : true,
            ...(latency === undefined ? {} : { latency_ms: latency }),
          }
        } catch (error) {
          ctx.signal.throwIfAborted()
          return { ...rowOf(status), healthy: false, error: (error as Error).message }
        }
      }),
    )
    const answers = checked.flatMap(({ healthy }) => healthy ?? [])
    return { servers: checked, healthy: answers.length === 0 ? null : answers.every(Boolean) }
  },
}
