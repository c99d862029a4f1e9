import { defineModule, type ServerStatus, type Services, ToolError, z } from 'pegboard'

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

const Id = z.string().max(200).describe('Its name in the configuration, as list_servers says it.')
const NOT_TAKEN = 'Not taken: servers are added in the config file only.'

type Configured = NonNullable<Services['servers']>

function configured({ servers }: Services): Configured {
  if (servers) return servers
  throw new ToolError('There are no servers here.', { code: 'E_NOT_FOUND' })
}

const one = (servers: Configured, id: string) =>
  servers
    .list()
    .filter((server) => server.id === id)
    .map(rowOf)[0]

const areConfigured = ({ services }: { readonly services: Services }): true | string =>
  (services.servers?.list().length ?? 0) > 0 || 'no servers are configured; add some under mcpServers'

/** To try a server is to run it: what is run is for the operator to say. */
function refuseNew({ command, args, env, url }: Readonly<Record<string, unknown>>): void {
  if ([command, args, env, url].every((given) => given === undefined)) return
  const isProgram = url === undefined || command !== undefined || args !== undefined || env !== undefined
  throw new ToolError(`${isProgram ? 'stdio upstreams' : 'Servers'} are added in the config file only.`, {
    code: 'E_DENIED_BY_POLICY',
    hint: 'Give the server_id of a configured server; the operator adds others under mcpServers.',
  })
}

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
      available: areConfigured,
      run(_input, { services }) {
        const servers = (services.servers?.list() ?? []).map(rowOf)
        return { servers, total: servers.length }
      },
    },
    connect: {
      title: 'Connect a server',
      description:
        'Starts a configured MCP server now, or tries a failing one again, and reads what it offers. Not needed before a call: servers start when their tools are called.',
      aliases: ['reconnect', 'start server', 'refresh server', 'connecter un serveur'],
      tags: ['mcp', 'servers'],
      // Each is told apart from what is missing, and none is ever looked at.
      input: z.object({
        server_id: Id.optional(),
        command: z.unknown().optional().describe(NOT_TAKEN),
        args: z.unknown().optional().describe(NOT_TAKEN),
        env: z.unknown().optional().describe(NOT_TAKEN),
        url: z.unknown().optional().describe(NOT_TAKEN),
      }),
      output: row,
      effect: 'write',
      idempotent: true,
      sideEffects: ['starts a configured server'],
      examples: [{ input: { server_id: 'github' } }],
      available: areConfigured,
      async run({ server_id, ...given }, { services }) {
        refuseNew(given)
        if (server_id === undefined)
          throw new ToolError('server_id is missing.', {
            code: 'E_VALIDATION',
            hint: 'Take one from list_servers.',
          })
        const servers = configured(services)
        await servers.connect(server_id)
        return one(servers, server_id)
      },
    },
    disconnect: {
      title: 'Disconnect a server',
      description:
        'Ends the process or session of a configured MCP server, and calls that run on it. Its tools stay listed, and the next call of one starts it again. To take tools away, ask the operator.',
      aliases: ['stop server', 'déconnecter un serveur'],
      tags: ['mcp', 'servers'],
      input: z.object({ server_id: Id }),
      output: row,
      effect: 'write',
      idempotent: true,
      sideEffects: ['ends a running server'],
      examples: [{ input: { server_id: 'github' } }],
      available: areConfigured,
      async run({ server_id }, { services }) {
        const servers = configured(services)
        await servers.disconnect(server_id)
        return one(servers, server_id)
      },
    },
  },
})
