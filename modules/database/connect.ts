import { type ToolDef, z } from 'pegboard'
import { canActForOthers } from '../_admin.ts'
import { denied, notFound } from '../_errors.ts'
import { connectionParameters, Options, type Settings } from './config.ts'
import * as connections from './connections.ts'
import { PolicyInput } from './sql-policy.ts'
import { connection_id } from './tool-connection.ts'

const common = { tags: ['database', 'connection'] }

const Connect = z.object({
  connection_id,
  ...connectionParameters,
  policy: PolicyInput.optional().describe(
    'Policy for statements: readonly, safe_write (rows, not structure) or unrestricted.',
  ),
  persist: z.boolean().optional().describe('Remember the connection, to open it later by its name.'),
  options: Options.optional().describe('Only in set-up steps: ssl, ca, create.'),
  accept_role: z.boolean().optional().describe('Only in set-up steps: accept a login that can write.'),
  allowed_functions: z.array(z.string()).optional().describe('Only in set-up steps: functions that can be called.'),
})
const Disconnect = z.object({
  connection_id: z
    .string()
    .regex(/^(?:\*|[A-Za-z0-9_.-]{1,64})$/)
    .default('default')
    .describe('Connection; "*" means all.'),
})
const SetPolicy = z.object({
  connection_id: connection_id.unwrap().describe('Connection.'),
  policy: PolicyInput.describe('Policy for statements from now on.'),
})

export const connect: ToolDef<Settings, typeof Connect> = {
  ...common,
  title: 'Connect to a database',
  description:
    'Connect to a database and name the connection for the other tools: a configured one by connection_id, or a SQLite file or server where the operator allows it. Configured connections open automatically when used.',
  aliases: ['open database', 'database connection', 'se connecter à une base', 'conectar base de datos'],
  input: Connect,
  hidden: ['password', 'password_env', 'options', 'accept_role', 'allowed_functions'],
  effect: 'write',
  idempotent: true,
  available: connections.canConnect,
  sideEffects: ['opens a connection', 'creates the file of a new SQLite database'],
  examples: [{ input: { connection_id: 'shop' } }, { input: { driver: 'sqlite', database: 'data.db' } }],
  async run(request, ctx) {
    const connection = await connections.connect(ctx, request)
    return { connected: true, ...connections.describeConnection(ctx, connection) }
  },
}

export const disconnect: ToolDef<Settings, typeof Disconnect> = {
  ...common,
  title: 'Disconnect from a database',
  description:
    'Close a database connection, or all. Your own connections are removed; configured ones open again when used.',
  aliases: ['close database', 'close connection', 'se déconnecter'],
  input: Disconnect,
  effect: 'write',
  idempotent: true,
  available: connections.hasConnection,
  sideEffects: ['closes connections'],
  examples: [{ input: { connection_id: '*' } }],
  async run({ connection_id }, ctx) {
    const connectionsById = connections.connectionsFor(ctx)
    // Calls of others run on configured connections.
    const canClose = ({ owner }: connections.NamedConnection): boolean => owner !== undefined || canActForOthers(ctx)
    const requested =
      connection_id === '*' ? [...connectionsById.values()].filter(canClose) : [connectionsById.get(connection_id)]
    const closedIds: string[] = []
    for (const connection of requested) {
      if (!connection) throw notFound(`Unknown connection: "${connection_id}".`, 'list_connections lists them.')
      if (!canClose(connection))
        throw denied(
          `"${connection.id}" is shared with other users, so only admins can disconnect it.`,
          'It needs no disconnect. Ask the operator, who gives the role "admin".',
        )
      if (connections.isOpen(ctx, connection)) closedIds.push(connection.id)
      await connections.close(ctx, connection)
    }
    return { disconnected: closedIds }
  },
}

export const list_connections: ToolDef<Settings> = {
  ...common,
  title: 'List database connections',
  description:
    'List the databases you can use, with the names for the other tools: kind, database, policy, and whether it is open.',
  aliases: ['databases', 'show connections', 'lister les bases', 'bases de datos'],
  effect: 'read',
  available: connections.hasConnection,
  sideEffects: ['none'],
  examples: [{ input: {} }],
  run: (_input, ctx) => ({
    connections: [...connections.connectionsFor(ctx).values()].map((named) =>
      connections.describeConnection(ctx, named),
    ),
  }),
}

export const set_policy: ToolDef<Settings, typeof SetPolicy> = {
  ...common,
  title: 'Restrict a connection',
  description:
    'Restrict a database connection for yourself: fewer tables, fewer rows, or read only. It can never allow more than the operator does.',
  aliases: ['restrict database', 'database policy', 'restreindre la connexion'],
  input: SetPolicy,
  effect: 'write',
  idempotent: true,
  available: connections.hasConnection,
  sideEffects: ['changes the policy of a connection'],
  examples: [{ input: { connection_id: 'default', policy: 'readonly' } }],
  run: ({ connection_id, policy }, ctx) => {
    connections.tightenPolicy(ctx, connection_id, policy)
    const named = connections.connectionsFor(ctx).get(connection_id)
    return named && connections.describeConnection(ctx, named)
  },
}
