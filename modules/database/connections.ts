import { realpath } from 'node:fs/promises'
import { basename, isAbsolute, resolve } from 'node:path'
import {
  type CallContext,
  type FileToOpen,
  fileToOpen,
  isPegboardError,
  type Log,
  type Processes,
  type Services,
  ToolError,
} from 'pegboard'
import { denied, invalid, notFound, overloaded } from '../_errors.ts'
import {
  type Connection,
  type ConnectionAddress,
  parseConnectionUrl,
  pathsFor,
  SETTING,
  type Settings,
} from './config.ts'
import type { Dialect, Driver, RoleWarning, Target } from './driver.ts'
import { describePolicy, narrowPolicy, type Policy, type PolicyInput, parsePolicy } from './sql-policy.ts'

/** A connection by name; it is opened on first use. */
export interface NamedConnection {
  readonly id: string
  readonly target: Target
  readonly policy: Policy
  /** The operator has accepted a login with more rights. */
  readonly acceptRole: boolean
  /** The principal that sees it; undefined for connections of the operator. */
  readonly owner: string | undefined
  readonly description?: string | undefined
  readonly role?: string | undefined
  readonly group?: string | undefined
  /** The part of the configuration that controls it. */
  readonly setting: string
}

export interface OpenConnection extends NamedConnection {
  readonly driver: Driver
}

type Ctx = Pick<CallContext<Settings>, 'caller' | 'config' | 'services' | 'signal' | 'setup'>
type View = Pick<Ctx, 'caller' | 'config' | 'services'>

interface ConnectionState {
  /** Connections made by `connect`, by owner and name. */
  readonly opened: Map<string, NamedConnection>
  /** Stricter policies that callers chose for themselves, by owner and name. */
  readonly tightened: Map<string, Policy>
  readonly drivers: Map<string, Promise<Driver>>
  readonly roleChecks: WeakMap<Driver, Promise<RoleWarning | undefined>>
  readonly log: Log | undefined
  changed(): void
}

const MAX_CONNECTIONS_PER_OWNER = 16
const key = (owner: string | undefined, id: string): string => `${owner ?? ''}\0${id}`

// One process may run several gateways, but this module is imported once.
const states = new WeakMap<object, ConnectionState>()
const NO_PROCESSES = {}
const stateKey = ({ processes }: Services): object => processes ?? NO_PROCESSES

export function startConnections(services: Services, log: Log, changed: () => void): ConnectionState {
  const state: ConnectionState = {
    opened: new Map(),
    tightened: new Map(),
    drivers: new Map(),
    roleChecks: new WeakMap(),
    log,
    changed,
  }
  states.set(stateKey(services), state)
  return state
}

export async function stopConnections(state: ConnectionState): Promise<void> {
  const open = [...state.drivers.values()]
  state.drivers.clear()
  await Promise.all(open.map(async (driver) => (await driver.catch(() => undefined))?.close()))
}

function stateOf(services: Services): ConnectionState {
  const state = states.get(stateKey(services))
  if (!state) throw new ToolError('The database module is not running.', { code: 'E_DB_UNAVAILABLE' })
  return state
}

/** The connections that the caller may use, by name. */
export function connectionsFor({ config, caller, services }: View): ReadonlyMap<string, NamedConnection> {
  const state = states.get(stateKey(services))
  const connectionsById = new Map<string, NamedConnection>()
  for (const [id, connection] of Object.entries(config.connections))
    connectionsById.set(id, configuredConnection(id, connection, config))
  if (!state) return connectionsById
  for (const owner of [undefined, caller.principal])
    for (const named of state.opened.values())
      if (named.owner === owner && !connectionsById.has(named.id)) connectionsById.set(named.id, named)
  for (const [id, named] of connectionsById) {
    const policy = state.tightened.get(key(caller.principal, id))
    if (policy) connectionsById.set(id, { ...named, policy })
  }
  return connectionsById
}

export const isOpen = ({ services }: Pick<Ctx, 'services'>, { target }: NamedConnection): boolean =>
  states.get(stateKey(services))?.drivers.has(JSON.stringify(target)) === true

export const hasConnection = (view: View): true | string =>
  connectionsFor(view).size > 0 || `name a database in ${SETTING}.connections, or open one in a set-up step`

const hasPreset =
  (presets: readonly Policy['preset'][]) =>
  (view: View): true | string => {
    const namedConnections = [...connectionsFor(view).values()]
    if (namedConnections.length === 0) return hasConnection(view)
    return (
      namedConnections.some(({ policy }) => presets.includes(policy.preset)) ||
      `set ${namedConnections[0]?.setting}.policy to ${presets.map((one) => `"${one}"`).join(' or ')}`
    )
  }
export const hasWritableConnection = hasPreset(['safe_write', 'unrestricted'])
export const hasUnrestrictedConnection = hasPreset(['unrestricted'])

export const canConnect = (view: View): true | string =>
  view.config.roots.length > 0 ||
  view.config.allowed_hosts.length > 0 ||
  connectionsFor(view).size > 0 ||
  `set ${SETTING}.connections, .roots or .allowed_hosts`

function configuredConnection(id: string, given: Connection, config: Settings): NamedConnection {
  return {
    id,
    target: targetOf(id, given, config),
    policy: parsePolicy(given.policy ?? config.default_policy),
    acceptRole: given.accept_role,
    owner: undefined,
    description: given.description,
    role: given.role,
    group: given.group,
    setting: `${SETTING}.connections.${id}`,
  }
}

type ConnectionSettings = ConnectionAddress & {
  readonly [K in 'options' | 'allowed_functions']?: Connection[K] | undefined
}

function targetOf(id: string, settings: ConnectionSettings, config: Settings): Target {
  const { driver, database, host, port, username, password, password_env, ssl: urlSsl } = parseConnectionUrl(settings)
  const { options = {}, allowed_functions = [] } = settings
  const ssl = options.ssl ?? urlSsl
  if (driver === undefined || database === undefined)
    throw invalid(
      `The connection "${id}" has no ${driver === undefined ? 'driver' : 'database'}.`,
      'Pass driver and database, or url.',
    )
  const isFile = driver === 'sqlite' && database !== ':memory:'
  return {
    driver,
    database: isFile && !isAbsolute(database) ? resolve(config.workspace, database) : database,
    ...(host !== undefined && { host }),
    ...(port !== undefined && { port }),
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
    ...(password_env !== undefined && { passwordEnv: password_env }),
    ...(ssl !== undefined && { ssl }),
    ...(options.ca !== undefined && { ca: options.ca }),
    ...(options.create !== undefined && isFile && { create: options.create }),
    allowedFunctions: allowed_functions,
    busyMs: Math.round(Math.min(config.busy_seconds, config.timeout_seconds * 0.8) * 1_000),
    connectMs: 10_000,
    maxSessions: config.max_sessions,
  }
}

/** The reason goes to the log only, because it may name the server and the login. */
function withLoggedErrors(driver: Driver, log: Log): Driver {
  const logErrors =
    <Given extends unknown[], Result>(operation: (...given: Given) => Promise<Result>) =>
    async (...given: Given): Promise<Result> => {
      try {
        return await operation(...given)
      } catch (error) {
        if (isPegboardError(error) && error.code === 'E_DB_UNAVAILABLE' && error.cause !== undefined)
          log.warn('a database cannot be reached', { driver: driver.dialect.name, error: error.cause })
        throw error
      }
    }
  return { ...driver, run: logErrors(driver.run), checkRole: logErrors(driver.checkRole) }
}

function environmentOf(processes: Processes | null, name: string): string {
  const value = processes?.environment([name])[name]
  if (value === undefined)
    throw new ToolError(`The variable ${name}, which holds the password, is not set.`, {
      code: 'E_DB_UNAVAILABLE',
      retryable: false,
      hint: 'The operator sets it.',
    })
  return value
}

/**
 * Opens the connection with that name and checks its login.
 * @throws ToolError E_NOT_FOUND, E_DENIED_BY_POLICY, E_DB_UNAVAILABLE
 */
export async function openConnection(ctx: Ctx, id: string): Promise<OpenConnection> {
  const connectionsById = connectionsFor(ctx)
  const [first] = connectionsById.values()
  const named = connectionsById.get(id) ?? (id === 'default' && connectionsById.size === 1 ? first : undefined)
  if (!named)
    throw notFound(
      `Unknown connection: "${id}".`,
      (await readSavedRequest(ctx, id))
        ? `It is saved: open it with connect {"connection_id": ${JSON.stringify(id)}}.`
        : connectionsById.size > 0
          ? `Connections: ${[...connectionsById.keys()].join(', ')}.`
          : 'list_connections lists them.',
    )
  return await openNamedConnection(ctx, named)
}

async function openNamedConnection(ctx: Ctx, named: NamedConnection): Promise<OpenConnection> {
  await checkFile(ctx.config, named)
  const state = stateOf(ctx.services)
  const driver = await driverFor(state, named.target, ctx)
  if (named.policy.preset === 'readonly') await checkLogin(state, driver, named)
  return { ...named, driver }
}

/** The current path of a SQLite file: in the configured folder, and none of Pegboard's own files. */
function findFile({ workspace, roots }: Settings, { database }: Target, make: boolean): Promise<FileToOpen> {
  const folders = [workspace, ...roots.map((root) => resolve(workspace, root))]
  return fileToOpen(database, { folders, setting: SETTING, make })
}

/** SQLite itself only reports that it cannot open the file. */
async function checkFile(config: Settings, { id, target, setting, owner }: NamedConnection): Promise<void> {
  const { driver, database, create } = target
  if (driver !== 'sqlite' || database === ':memory:' || create) return
  await findFile(config, target, false).catch((error: NodeJS.ErrnoException) => {
    if (isPegboardError(error)) throw error
    if (error.code !== 'ENOENT') return
    throw new ToolError(`The file of the connection "${id}" does not exist.`, {
      code: 'E_DB_UNAVAILABLE',
      hint:
        owner === undefined
          ? `The operator corrects database in ${setting}, or sets options.create to true there.`
          : 'Name an existing file; list_connections lists the connections.',
      cause: error,
    })
  })
}

function driverFor(state: ConnectionState, target: Target, { services, config }: View): Promise<Driver> {
  const targetKey = JSON.stringify(target)
  let driver = state.drivers.get(targetKey)
  if (!driver) {
    driver = createDriver(target, services, config, state.log as Log).then((driver) =>
      withLoggedErrors(driver, state.log as Log),
    )
    state.drivers.set(targetKey, driver)
    // A failed connection is tried again next time.
    driver.catch(() => state.drivers.delete(targetKey))
  }
  return driver
}

async function createDriver(
  configuredTarget: Target,
  { processes }: Services,
  config: Settings,
  log: Log,
): Promise<Driver> {
  const { passwordEnv } = configuredTarget
  const target =
    passwordEnv === undefined || configuredTarget.password !== undefined
      ? configuredTarget
      : { ...configuredTarget, password: environmentOf(processes, passwordEnv) }
  if (target.driver === 'postgresql') return (await import('./postgres.ts')).createPostgres(target, log)
  if (target.driver === 'mysql') return (await import('./mysql.ts')).createMysql(target, log)
  if (!processes)
    throw new ToolError('SQLite needs its own process, and Pegboard cannot start one here.', {
      code: 'E_DB_UNAVAILABLE',
      retryable: false,
    })
  return (await import('./sqlite.ts')).createSqlite(target, processes, (make) => findFile(config, target, make))
}

async function checkLogin(state: ConnectionState, driver: Driver, named: NamedConnection): Promise<void> {
  let check = state.roleChecks.get(driver)
  if (!check) {
    // Shared by concurrent callers, and not cancelled by one of them.
    check = driver.checkRole()
    state.roleChecks.set(driver, check)
    check.then(
      (warning) =>
        warning &&
        state.log?.warn('a read-only connection has a login that can do more', {
          connection: named.id,
          reason: warning.reason,
          setting: `${named.setting}.accept_role`,
        }),
      () => state.roleChecks.delete(driver),
    )
  }
  const warning = await check
  if (warning && !named.acceptRole)
    throw denied(
      `The connection "${named.id}" is read-only, but ${warning.reason}.`,
      `The operator uses a login that can only read, or sets ${named.setting}.accept_role to true.`,
    )
}

export interface ConnectRequest extends ConnectionSettings {
  readonly connection_id: string
  /** Remember it, so that its name works after a restart. */
  readonly persist?: boolean | undefined
  readonly policy?: PolicyInput | undefined
  readonly accept_role?: boolean | undefined
}

/** Adds and opens a connection. A client is limited to what the operator allows; a set-up step acts as the operator. */
export async function connect(ctx: Ctx, request: ConnectRequest): Promise<OpenConnection> {
  const { connection_id: id } = request
  const state = stateOf(ctx.services)
  const before = connectionsFor(ctx).get(id)
  const { connection_id: _, policy: wantedPolicy, persist, ...rest } = request
  const givenEntries = Object.entries(rest).filter(([, value]) => value !== undefined)
  const saved = givenEntries.length === 0 && !before ? await readSavedRequest(ctx, id) : undefined
  if (saved)
    return await connect(ctx, {
      ...saved,
      connection_id: id,
      ...(wantedPolicy !== undefined && { policy: wantedPolicy }),
    })
  if (givenEntries.length === 0 && before) {
    if (wantedPolicy !== undefined) tightenPolicy(ctx, id, wantedPolicy)
    return await checkResponse(ctx, await openConnection(ctx, id))
  }
  if (before && (before.owner === undefined ? !ctx.setup || ctx.config.connections[id] !== undefined : false))
    throw invalid(
      `"${id}" is a connection of the configuration.`,
      'Leave out the other parameters to use it, or choose another name.',
    )
  const named = ctx.setup ? operatorConnection(ctx, request) : await clientConnection(ctx, state, request)
  const connection = await checkResponse(ctx, await openNamedConnection(ctx, named))
  if (before && JSON.stringify(before.target) !== JSON.stringify(named.target)) await close(ctx, before)
  state.opened.set(key(named.owner, id), named)
  state.changed()
  if (persist && !ctx.setup) await saveRequest(ctx, { ...rest, connection_id: id, policy: wantedPolicy })
  return connection
}

const kvKey = (ctx: Ctx, id: string): string => `connection:${ctx.caller.principal}:${id}`

/** Without a password: those are stored by the operator only. */
async function saveRequest(ctx: Ctx, { connection_id, ...request }: ConnectRequest): Promise<void> {
  if (
    request.password !== undefined ||
    (request.url !== undefined && parseConnectionUrl(request).password !== undefined)
  )
    throw invalid(
      'The connection is open but not saved: Pegboard does not store passwords.',
      `Leave out persist, or ask the operator to add it to ${SETTING}.connections.`,
    )
  await ctx.services.kv?.set(kvKey(ctx, connection_id), JSON.stringify(request))
}

async function readSavedRequest(ctx: Ctx, id: string): Promise<Omit<ConnectRequest, 'connection_id'> | undefined> {
  const text = await ctx.services.kv?.get(kvKey(ctx, id))
  return typeof text === 'string' ? JSON.parse(text) : undefined
}

function operatorConnection(ctx: Ctx, request: ConnectRequest): NamedConnection {
  const { connection_id: id, policy, accept_role = false } = request
  return {
    id,
    // A database that the operator names for the first time is created.
    target: targetOf(id, { ...request, options: { create: true, ...request.options } }, ctx.config),
    policy: parsePolicy(policy ?? ctx.config.default_policy),
    acceptRole: accept_role,
    owner: undefined,
    role: request.role,
    group: request.group,
    setting: `the set-up step of "${id}"`,
  }
}

async function clientConnection(ctx: Ctx, state: ConnectionState, request: ConnectRequest): Promise<NamedConnection> {
  const { config, caller } = ctx
  const { connection_id: id, policy = 'readonly' } = request
  for (const name of ['options', 'password_env', 'accept_role', 'allowed_functions'] as const)
    if (request[name] !== undefined)
      throw denied(
        `Only the operator can set ${name}.`,
        `Leave it out, or ask the operator to set it in ${SETTING}.connections.`,
      )
  if ([...state.opened.values()].filter(({ owner }) => owner === caller.principal).length >= MAX_CONNECTIONS_PER_OWNER)
    throw overloaded(`${MAX_CONNECTIONS_PER_OWNER} connections are already open.`, 'Close one with disconnect.')
  const address = parseConnectionUrl(request)
  const ceiling = parsePolicy(config.default_policy)
  const allowed = narrowPolicy(ceiling, parsePolicy(policy), `${SETTING}.default_policy`)
  const target =
    address.driver === 'sqlite' ? await fileFor(config, address, allowed, id) : serverFor(config, address, id)
  return {
    id,
    target,
    policy: allowed,
    acceptRole: false,
    owner: caller.principal,
    role: request.role,
    group: request.group,
    setting: `${SETTING}.default_policy`,
  }
}

const DEFAULT_PORTS: Readonly<Record<Dialect['name'], number>> = { sqlite: 0, postgresql: 5_432, mysql: 3_306 }

function serverFor(config: Settings, address: ConnectionAddress, id: string): Target {
  const target = targetOf(id, address, config)
  const host = (target.host ?? '127.0.0.1').toLowerCase()
  const port = target.port ?? DEFAULT_PORTS[target.driver]
  if (!config.allowed_hosts.some((one) => one.toLowerCase() === host || one.toLowerCase() === `${host}:${port}`))
    throw denied(
      'This server is not allowed.',
      `See ${SETTING}.allowed_hosts, or use a connection of ${SETTING}.connections.`,
    )
  return target
}

async function fileFor(config: Settings, address: ConnectionAddress, policy: Policy, id: string): Promise<Target> {
  const target = targetOf(id, address, config)
  if (target.database === ':memory:') return target
  const paths = pathsFor(config)
  const path = address.database as string
  const stats = await paths.stat(path).catch(async (error: unknown) => {
    if (!isPegboardError(error) || error.code !== 'E_NOT_FOUND' || policy.preset === 'readonly') throw error
    await paths.writeFile(path, '')
    return await paths.stat(path)
  })
  if (stats.kind !== 'file')
    throw new ToolError(`'${path}' is not a file.`, { code: 'E_NOT_REGULAR_FILE', hint: 'Name a database file.' })
  // Rejected if the file may be read but not written.
  if (policy.preset !== 'readonly') await paths.writeFile(path, '', { append: true })
  return { ...target, database: await realpath(resolve(paths.roots[0] as string, stats.path)) }
}

/** Checks that the database answers. */
async function checkResponse(ctx: Ctx, connection: OpenConnection): Promise<OpenConnection> {
  const [outcome] = await connection.driver.run({
    statements: [{ sql: 'SELECT 1', params: [] }],
    access: 'read',
    maxRows: 1,
    maxBytes: 1_000,
    timeoutMs: 10_000,
    signal: ctx.signal,
    principal: ctx.caller.principal,
  })
  if (outcome && 'error' in outcome) throw outcome.error
  return connection
}

/** Sets a stricter policy for this caller. @throws ToolError E_DENIED_BY_POLICY if it would allow more */
export function tightenPolicy(ctx: Ctx, id: string, requestedPolicy: PolicyInput): Policy {
  const named = connectionsFor(ctx).get(id)
  if (!named) throw new ToolError(`Unknown connection: "${id}".`, { code: 'E_NOT_FOUND' })
  const state = stateOf(ctx.services)
  const policy = ctx.setup
    ? parsePolicy(requestedPolicy)
    : narrowPolicy(named.policy, parsePolicy(requestedPolicy), `${named.setting}.policy`)
  if (!ctx.setup) state.tightened.set(key(ctx.caller.principal, id), policy)
  else if (state.opened.has(key(undefined, id))) state.opened.set(key(undefined, id), { ...named, policy })
  else throw invalid(`The policy of "${id}" is set in the configuration.`, `Set ${named.setting}.policy.`)
  state.changed()
  return policy
}

/** Closes a connection. One made by a client is forgotten; the operator's are opened again on next use. */
export async function close(ctx: Ctx, named: NamedConnection): Promise<void> {
  const state = stateOf(ctx.services)
  const targetKey = JSON.stringify(named.target)
  const isShared = [...state.opened.values(), ...connectionsFor(ctx).values()].some(
    (one) => (one.id !== named.id || one.owner !== named.owner) && JSON.stringify(one.target) === targetKey,
  )
  if (named.owner !== undefined) {
    state.opened.delete(key(named.owner, named.id))
    await ctx.services.kv?.del(kvKey(ctx, named.id))
    state.tightened.delete(key(named.owner, named.id))
    state.changed()
  }
  const driver = isShared ? undefined : state.drivers.get(targetKey)
  if (!driver) return
  state.drivers.delete(targetKey)
  await (await driver.catch(() => undefined))?.close()
}

/** What everyone may know about it: neither server nor login. */
export function describeConnection(
  ctx: Pick<Ctx, 'services' | 'config'>,
  named: NamedConnection,
): Readonly<Record<string, unknown>> {
  const { driver, database } = named.target
  return {
    id: named.id,
    driver,
    database: driver === 'sqlite' && database !== ':memory:' ? basename(database) : database,
    policy: describePolicy(named.policy),
    open: isOpen(ctx, named),
    ...(named.description !== undefined && { description: named.description }),
    ...(named.role !== undefined && { role: named.role }),
    ...(named.group !== undefined && { group: named.group }),
    made_by: named.owner === undefined ? 'operator' : 'you',
  }
}
