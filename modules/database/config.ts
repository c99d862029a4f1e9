import { isAbsolute, resolve } from 'node:path'
import { createPaths, type Paths, type ToolError, z } from 'pegboard'
import { stringList } from '../_access.ts'
import { invalid } from '../_errors.ts'
import { ownFolders } from '../_folders.ts'
import type { Target } from './driver.ts'
import { PolicyInput } from './sql-policy.ts'

const DRIVERS = ['sqlite', 'postgresql', 'mysql'] as const

/** Settings that both a configured connection and `connect` accept. */
export const connectionParameters = {
  driver: z.enum(DRIVERS).optional().describe('Kind of database; mysql includes MariaDB.'),
  database: z
    .string()
    .min(1)
    .max(4096)
    .optional()
    .describe('Name of the database; for SQLite the file, or ":memory:".'),
  host: z.string().min(1).max(255).optional().describe('Host; default this machine.'),
  port: z.int().min(1).max(65_535).optional().describe('Port; default that of the driver.'),
  username: z.string().min(1).max(255).optional().describe('User name.'),
  password: z.string().max(1_024).optional().describe('Password.'),
  password_env: z.string().min(1).max(255).optional().describe('Environment variable that holds the password.'),
  url: z.string().min(1).max(4096).optional().describe('Connection URL: postgres://user@host/name, sqlite:data.db.'),
  role: z.string().max(100).optional().describe('Purpose, such as "reporting"; shown in lists.'),
  group: z.string().max(100).optional().describe('Group; shown in lists.'),
}
export const Options = z.strictObject({
  ssl: z.enum(['off', 'require', 'verify']).optional().describe('Use TLS; "verify" also checks the certificate.'),
  ca: z.string().optional().describe('CA certificates, as PEM.'),
  create: z.boolean().optional().describe('Create the SQLite file if it does not exist.'),
})

/** True if it names a database. */
function namesDatabase(given: ConnectionAddress): boolean {
  try {
    const { driver, database } = parseConnectionUrl(given)
    return driver !== undefined && database !== undefined
  } catch {
    return false
  }
}

const Connection = z
  .strictObject({
    ...connectionParameters,
    description: z.string().max(500).optional().describe('Description of its data, for models.'),
    options: Options.default({}).describe('Driver options.'),
    policy: PolicyInput.optional().describe('Policy for statements; default default_policy.'),
    accept_role: z.boolean().default(false).describe('Accept a login that can write on a read-only connection.'),
    allowed_functions: stringList(
      'More functions that statements can call under readonly and safe_write (PostgreSQL, MySQL).',
    ),
  })
  .refine(namesDatabase, 'give driver and database, or a url such as postgres://user@host/name or sqlite:data.db')
export type Connection = z.infer<typeof Connection>

const ID = z.string().regex(/^[A-Za-z0-9_.-]{1,64}$/)

const SavedQuery = z.strictObject({
  description: z.string().min(1).max(500).describe('What the query returns; models choose by it.'),
  sql: z.string().min(1).describe('One reading statement, with :name for each value.'),
  parameters: z
    .record(
      z.string().regex(/^[A-Za-z_]\w*$/),
      z.strictObject({
        description: z.string().default('').describe('What the parameter means.'),
        default: z.union([z.string(), z.number(), z.boolean(), z.null()]).optional().describe('Default value.'),
      }),
    )
    .default({})
    .describe('Parameters by name.'),
  connection_id: ID.default('default').describe('Connection to use.'),
})

/** Unknown keys are rejected, so that a misspelled `policy` does not leave writing enabled. */
export const Config = z.strictObject({
  connections: z.record(ID, Connection).default({}).describe('Databases by name; models use these names.'),
  saved_queries: z.record(ID, SavedQuery).default({}).describe('Queries that models run by name with saved_query.'),
  default_policy: PolicyInput.default('readonly').describe('Policy of connections without their own.'),
  roots: stringList('Folders of SQLite files that a model can open with connect; default none.'),
  denied_paths: stringList('Paths in them that are never opened: globs, folders or absolute paths.'),
  allowed_hosts: stringList(
    'Servers that a model can reach with connect, such as "db.example.com:5432"; default none.',
  ),
  timeout_seconds: z.number().min(0.1).max(600).default(30).describe('Maximum seconds for a statement.'),
  busy_seconds: z.number().min(0).max(60).default(5).describe('Seconds to wait for another writer.'),
  max_rows: z.int().min(1).max(50_000).default(50_000).describe('Maximum number of rows in a result.'),
  max_bytes: z
    .int()
    .min(1_024)
    .default(1024 * 1024)
    .describe('Maximum bytes of a result; the rest is ignored.'),
  max_sessions: z.int().min(1).max(32).default(4).describe('Statements that run at once on one database.'),
  ...ownFolders,
})

export type Settings = z.infer<typeof Config>
export const SETTING = 'modules.database.config'

/** Guarded access to the files that a model may open. */
export function pathsFor(settings: Settings): Paths {
  const { workspace, roots, denied_paths, state_dir, config_file, modules_dir } = settings
  return createPaths({
    roots: roots.map((path) => (isAbsolute(path) ? path : resolve(workspace, path))),
    denied: [...denied_paths, state_dir, config_file, modules_dir],
    fixed: [state_dir, config_file, modules_dir],
    setting: SETTING,
  })
}

/** Where a connection leads, as far as given. */
export type ConnectionAddress = {
  readonly [K in keyof typeof connectionParameters]?: z.infer<(typeof connectionParameters)[K]> | undefined
}

const SCHEMES: Readonly<Record<string, Target['driver']>> = {
  'postgres:': 'postgresql',
  'postgresql:': 'postgresql',
  'mysql:': 'mysql',
  'mariadb:': 'mysql',
  'sqlite:': 'sqlite',
  'sqlite3:': 'sqlite',
  'file:': 'sqlite',
}

/** Names of `sslmode` in connection URLs. */
const SSL_MODES: Readonly<Record<string, Target['ssl']>> = {
  disable: 'off',
  disabled: 'off',
  false: 'off',
  require: 'require',
  required: 'require',
  true: 'require',
  'verify-ca': 'verify',
  'verify-full': 'verify',
  verify_ca: 'verify',
  verify_identity: 'verify',
}

/** Every parameter of a connection URL is used or rejected. */
function parseSslMode(parameters: URLSearchParams): Target['ssl'] {
  let ssl: Target['ssl']
  for (const [name, value] of parameters) {
    const mode = /^(?:sslmode|ssl-mode|ssl)$/i.test(name) ? SSL_MODES[value.toLowerCase()] : undefined
    ssl = mode
    if (mode === undefined)
      throw invalid(
        `The url has an unknown parameter: ${name}.`,
        'sslmode is disable, require, verify-ca or verify-full; set anything else in options.',
      )
  }
  return ssl
}

/**
 * Adds the parts of the connection URL.
 * @throws ToolError E_VALIDATION, without the URL, which may contain a password
 */
export function parseConnectionUrl(given: ConnectionAddress): ConnectionAddress & Pick<Target, 'ssl'> {
  if (given.url === undefined) return given
  const createUrlError = (): ToolError =>
    invalid(
      'The url is not a database URL.',
      'Write postgres://user@host:5432/name, mysql://user@host/name or sqlite:path.',
    )
  const driver = SCHEMES[/^[a-z0-9]+:/i.exec(given.url)?.[0].toLowerCase() ?? '']
  if (driver === undefined || (given.driver !== undefined && given.driver !== driver)) throw createUrlError()
  const { url, ...rest } = given
  if (driver === 'sqlite') {
    const path = url.replace(/^[a-z0-9]+:(?:\/\/)?/i, '').replace(/^\/(?=:memory:|\.)/, '')
    return { ...rest, driver, database: path || ':memory:' }
  }
  if (!URL.canParse(url)) throw createUrlError()
  const { hostname, port, username, password, pathname, searchParams } = new URL(url)
  const ssl = parseSslMode(searchParams)
  const database = decodeURIComponent(pathname.slice(1))
  return {
    driver,
    ...(hostname && { host: hostname.replace(/^\[|\]$/g, '') }),
    ...(port && { port: Number(port) }),
    ...(username && { username: decodeURIComponent(username) }),
    ...(password && { password: decodeURIComponent(password) }),
    ...(database && { database }),
    ...(ssl && { ssl }),
    ...Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined)),
  }
}
