import { isAbsolute, resolve } from 'node:path'
import { createPaths, type Paths, ToolError, z } from 'pegboard'
import { ownFolders } from '../_folders.ts'
import type { Target } from './driver.ts'
import { PolicyInput } from './policy.ts'

const list = (what: string) => z.array(z.string().min(1)).default([]).describe(what)

export const DRIVERS = ['sqlite', 'postgresql', 'mysql'] as const

/** What both a connection of the configuration and `connect` may say. */
export const place = {
  driver: z.enum(DRIVERS).optional().describe('The kind of database; mysql is MariaDB, too.'),
  database: z
    .string()
    .min(1)
    .max(4096)
    .optional()
    .describe('Its name on the server; of SQLite the file, or ":memory:".'),
  host: z.string().min(1).max(255).optional().describe('The server; default this machine.'),
  port: z.int().min(1).max(65_535).optional().describe('Its port; default the usual one.'),
  username: z.string().min(1).max(255).optional().describe('Who to log in as.'),
  password: z.string().max(1_024).optional().describe('Its password.'),
  password_env: z
    .string()
    .min(1)
    .max(255)
    .optional()
    .describe('The variable of the environment that has the password.'),
  url: z.string().min(1).max(4096).optional().describe('All of it as one: postgres://user@host/name, sqlite:data.db.'),
  role: z.string().max(100).optional().describe('What it is for, such as "reporting"; shown in lists.'),
  group: z.string().max(100).optional().describe('What it belongs to; shown in lists.'),
}
export const Options = z.strictObject({
  ssl: z.enum(['off', 'require', 'verify']).optional().describe('Encrypt, and with "verify" check the certificate.'),
  ca: z.string().optional().describe('Certificates to check it against, as PEM.'),
  create: z.boolean().optional().describe('Make the file of SQLite where there is none.'),
})

/** Whether it says where the database is. */
function leadsSomewhere(given: Place): boolean {
  try {
    const { driver, database } = unfolded(given)
    return driver !== undefined && database !== undefined
  } catch {
    return false
  }
}

const Connection = z
  .strictObject({
    ...place,
    description: z.string().max(500).optional().describe('What is in it, for models.'),
    options: Options.default({}).describe('More about the connection.'),
    policy: PolicyInput.optional().describe('What statements may do; default default_policy.'),
    accept_role: z
      .boolean()
      .default(false)
      .describe('Read only with a login that could write: without this such a login is refused.'),
    allowed_functions: list(
      'Functions that reading statements may call although they might do more (PostgreSQL, MySQL).',
    ),
  })
  .refine(leadsSomewhere, 'give driver and database, or a url such as postgres://user@host/name or sqlite:data.db')
export type Connection = z.infer<typeof Connection>

const ID = z.string().regex(/^[A-Za-z0-9_.-]{1,64}$/)

const SavedQuery = z.strictObject({
  description: z.string().min(1).max(500).describe('What it tells; models choose by it.'),
  sql: z.string().min(1).describe('One reading statement, with :name where a value goes.'),
  parameters: z
    .record(
      z.string().regex(/^[A-Za-z_]\w*$/),
      z.strictObject({
        description: z.string().default('').describe('What it stands for.'),
        default: z.union([z.string(), z.number(), z.boolean(), z.null()]).optional().describe('Where none is given.'),
      }),
    )
    .default({})
    .describe('Its values by their names.'),
  connection_id: ID.default('default').describe('Where it is run.'),
})

/** Unknown keys are refused: a misspelt `policy` must not leave writing on. */
export const Config = z.strictObject({
  connections: z.record(ID, Connection).default({}).describe('Databases by the names that models use.'),
  saved_queries: z
    .record(ID, SavedQuery)
    .default({})
    .describe('Queries by name that models run with saved_query, without writing SQL.'),
  default_policy: PolicyInput.default('readonly').describe('What statements may do on connections that do not say.'),
  roots: list('Folders of SQLite files that a model may open with connect; default none.'),
  denied_paths: list('What in them is never opened: globs, folders or absolute paths.'),
  allowed_hosts: list('Servers that a model may reach with connect, such as "db.example.com:5432"; default none.'),
  timeout_seconds: z.number().min(0.1).max(600).default(30).describe('Seconds a statement may take.'),
  busy_seconds: z.number().min(0).max(60).default(5).describe('Seconds to wait for a file that somebody writes to.'),
  max_rows: z.int().min(1).max(50_000).default(50_000).describe('Rows of an answer at most, whatever a call asks for.'),
  max_bytes: z
    .int()
    .min(1_024)
    .default(1024 * 1024)
    .describe('Bytes of an answer at most; what is over is left out.'),
  max_sessions: z.int().min(1).max(32).default(4).describe('Statements that run at a time on one database.'),
  ...ownFolders,
})

export type Settings = z.infer<typeof Config>
export const SETTING = 'modules.database.config'

/** The guarded way to the files that a model may open. */
export function pathsFor(settings: Settings): Paths {
  const { workspace, roots, denied_paths, state_dir, config_file, modules_dir } = settings
  return createPaths({
    roots: roots.map((path) => (isAbsolute(path) ? path : resolve(workspace, path))),
    denied: [...denied_paths, state_dir, config_file, modules_dir],
    fixed: [state_dir, config_file, modules_dir],
    setting: SETTING,
  })
}

/** Where a connection leads, as far as it was said. */
export type Place = { readonly [K in keyof typeof place]?: z.infer<(typeof place)[K]> | undefined }

const SCHEMES: Readonly<Record<string, Target['driver']>> = {
  'postgres:': 'postgresql',
  'postgresql:': 'postgresql',
  'mysql:': 'mysql',
  'mariadb:': 'mysql',
  'sqlite:': 'sqlite',
  'sqlite3:': 'sqlite',
  'file:': 'sqlite',
}

/** How `sslmode` of an address is called by those who write them. */
const MODES: Readonly<Record<string, Target['ssl']>> = {
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

/** Nothing that an address asks for is left out in silence. */
function sslOf(parameters: URLSearchParams): Target['ssl'] {
  let ssl: Target['ssl']
  for (const [name, value] of parameters) {
    const mode = /^(?:sslmode|ssl-mode|ssl)$/i.test(name) ? MODES[value.toLowerCase()] : undefined
    ssl = mode
    if (mode === undefined)
      throw new ToolError(`The url has a parameter that is not taken: ${name}.`, {
        code: 'E_VALIDATION',
        hint: 'sslmode may be disable, require, verify-ca or verify-full; for the rest use options.',
      })
  }
  return ssl
}

/** The same with what its address says. @throws ToolError E_VALIDATION, without the address: it may have a password */
export function unfolded(given: Place): Place & Pick<Target, 'ssl'> {
  if (given.url === undefined) return given
  const bad = (): ToolError =>
    new ToolError('The url is not one of a database.', {
      code: 'E_VALIDATION',
      hint: 'Write postgres://user@host:5432/name, mysql://user@host/name or sqlite:path.',
    })
  const driver = SCHEMES[/^[a-z0-9]+:/i.exec(given.url)?.[0].toLowerCase() ?? '']
  if (driver === undefined || (given.driver !== undefined && given.driver !== driver)) throw bad()
  const { url, ...rest } = given
  if (driver === 'sqlite') {
    const path = url.replace(/^[a-z0-9]+:(?:\/\/)?/i, '').replace(/^\/(?=:memory:|\.)/, '')
    return { ...rest, driver, database: path || ':memory:' }
  }
  if (!URL.canParse(url)) throw bad()
  const { hostname, port, username, password, pathname, searchParams } = new URL(url)
  const ssl = sslOf(searchParams)
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
