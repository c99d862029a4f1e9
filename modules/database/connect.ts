import { type ToolDef, ToolError, z } from 'pegboard'
import { Options, place, type Settings } from './config.ts'
import * as connections from './connections.ts'
import { PolicyInput } from './policy.ts'
import { connection_id } from './work.ts'

const common = { tags: ['database', 'connection'] }

const Connect = z.object({
  connection_id,
  ...place,
  policy: PolicyInput.optional().describe(
    'What statements may do: readonly, safe_write (rows, not structure) or unrestricted.',
  ),
  persist: z.boolean().optional().describe('Remember it: later its name alone opens it again.'),
  options: Options.optional().describe('For set-up steps: ssl, ca, create.'),
  accept_role: z.boolean().optional().describe('For set-up steps: read only with a login that could write.'),
  allowed_functions: z.array(z.string()).optional().describe('For set-up steps: functions that may be called.'),
})
const Disconnect = z.object({
  connection_id: z
    .string()
    .regex(/^(?:\*|[A-Za-z0-9_.-]{1,64})$/)
    .default('default')
    .describe('Which connection; "*" is all.'),
})
const SetPolicy = z.object({
  connection_id: connection_id.unwrap().describe('Which connection.'),
  policy: PolicyInput.describe('What statements may do from now on.'),
})

export const connect: ToolDef<Settings, typeof Connect> = {
  ...common,
  title: 'Connect to a database',
  description:
    'Opens a connection to a database under a name for the other tools: one of the configuration by connection_id alone, or a SQLite file or a server where the operator allows it. Those of the configuration open by themselves when they are used.',
  aliases: ['open database', 'database connection', 'se connecter à une base', 'conectar base de datos'],
  input: Connect,
  hidden: ['password', 'password_env', 'options', 'accept_role', 'allowed_functions'],
  effect: 'write',
  idempotent: true,
  available: connections.mayConnect,
  sideEffects: ['opens a connection', 'makes the file of a new SQLite database'],
  examples: [{ input: { connection_id: 'shop' } }, { input: { driver: 'sqlite', database: 'data.db' } }],
  async run(wanted, ctx) {
    const link = await connections.connect(ctx, wanted)
    return { connected: true, ...connections.shownConnection(ctx, link) }
  },
}

export const disconnect: ToolDef<Settings, typeof Disconnect> = {
  ...common,
  title: 'Disconnect from a database',
  description:
    'Closes a connection, or all. One that you made is forgotten; those of the operator open again when they are used.',
  aliases: ['close database', 'close connection', 'se déconnecter'],
  input: Disconnect,
  effect: 'write',
  idempotent: true,
  available: connections.someConnection,
  sideEffects: ['closes connections'],
  examples: [{ input: { connection_id: '*' } }],
  async run({ connection_id }, ctx) {
    const known = connections.namedFor(ctx)
    const chosen = connection_id === '*' ? [...known.values()] : [known.get(connection_id)]
    const closed: string[] = []
    for (const named of chosen) {
      if (!named)
        throw new ToolError(`There is no connection "${connection_id}".`, {
          code: 'E_NOT_FOUND',
          hint: 'list_connections shows them.',
        })
      if (connections.isOpen(ctx, named)) closed.push(named.id)
      await connections.close(ctx, named)
    }
    return { disconnected: closed }
  },
}

export const list_connections: ToolDef<Settings> = {
  ...common,
  title: 'List database connections',
  description:
    'Lists the databases that can be used, by the names the other tools take: kind, database, what statements may do, and whether it is open.',
  aliases: ['databases', 'show connections', 'lister les bases', 'bases de datos'],
  effect: 'read',
  available: connections.someConnection,
  sideEffects: ['none'],
  examples: [{ input: {} }],
  run: (_input, ctx) => ({
    connections: [...connections.namedFor(ctx).values()].map((named) => connections.shownConnection(ctx, named)),
  }),
}

export const set_policy: ToolDef<Settings, typeof SetPolicy> = {
  ...common,
  title: 'Restrict a connection',
  description:
    'Lets statements on a connection do less from now on, for you alone: fewer tables, fewer rows, only reading. It can never allow more than the operator does.',
  aliases: ['restrict database', 'database policy', 'restreindre la connexion'],
  input: SetPolicy,
  effect: 'write',
  idempotent: true,
  available: connections.someConnection,
  sideEffects: ['changes what statements may do'],
  examples: [{ input: { connection_id: 'default', policy: 'readonly' } }],
  run: ({ connection_id, policy }, ctx) => {
    connections.tighten(ctx, connection_id, policy)
    const named = connections.namedFor(ctx).get(connection_id)
    return named && connections.shownConnection(ctx, named)
  },
}
