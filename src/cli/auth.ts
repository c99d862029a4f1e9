import { createInterface } from 'node:readline/promises'
import type { Config } from '../config/load-config.ts'
import { systemClock } from '../core/clock.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import { didYouMean } from '../core/tool-names.ts'
import { namedScopes } from '../upstream/oauth/auth-challenge.ts'
import type { Grant, GrantKey, TokenStore } from '../upstream/oauth/token-store.ts'
import type { HttpTarget, ServerSettings } from '../upstream/upstream-settings.ts'
import { type Args, readInteger, readOption, writeAnswer } from './args.ts'
import { formatTable, type Io, UsageError, writeWarning } from './io.ts'
import { openConfig, openLog } from './open-app.ts'

/** `pegboard auth [server]`: logs in to a remote server, logs out, or lists logins. */
export async function run(args: Args, io: Io): Promise<number> {
  const { config } = await openConfig(args, io, { namesIgnoredServers: args.positionals.length > 0 })
  const { openTokenStore } = await import('../upstream/oauth/token-store.ts')
  const store = await openTokenStore(config.dirs.state, io.env, (message) => writeWarning(io, message))
  const id = args.positionals[0]
  if (id === undefined) return await list(args, io, config.servers, store)
  const { settings, target } = findServer(id, config.servers)
  const principal = principalOf(args, id, settings)
  const key: GrantKey = { server: id, url: target.url, principal }
  if (args.values['logout'] === true) return await logout(args, io, key, store)
  if (settings.auth?.type === 'none') throw new UsageError(`${id} needs no login: ${settings.where}.auth.type is none`)
  if (principal !== undefined) await warnOfUnknownPrincipal(args, io, config, await store.principals(id, target.url))
  const { login } = await import('../upstream/oauth/login.ts')
  const { createBrowser } = await import('../upstream/oauth/browser.ts')
  const isWithoutBrowser = args.values['no-browser'] === true
  const grant = await login({
    id,
    settings,
    target,
    principal,
    store,
    clock: systemClock,
    signal: io.stop,
    timeoutMs: readInteger(args, 'timeout', 1, 3_600, 300) * 1_000,
    prompt: {
      show: (url) => io.stderr(`Log in to ${id} here:\n\n  ${url}\n\n`),
      warn: (message) => writeWarning(io, message),
      ...(isWithoutBrowser
        ? { paste: () => readPastedAddress(io) }
        : { open: createBrowser(process.platform, io.env) }),
    },
  })
  const state = stateOf(grant, systemClock.now())
  const text = `Logged in to ${id}${describeExpiry(state)}. The tokens are in ${store.place}.\n`
  writeAnswer(args, io, { server: id, ...(principal ? { principal } : {}), ...state }, text)
  return 0
}

async function readPastedAddress(io: Io): Promise<string> {
  io.stderr('Paste the address of the page the browser shows after the login: ')
  const lines = createInterface({ input: io.input })
  try {
    for await (const line of lines) if (line.trim() !== '') return line
  } finally {
    lines.close()
  }
  throw new PegboardError('E_AUTH_FAILED', 'No address was pasted.')
}

async function logout(args: Args, io: Io, key: GrantKey, store: TokenStore): Promise<number> {
  const grant = await store.read(key).catch(() => undefined)
  await store.exclusively(key, () => store.delete(key))
  const text = grant?.tokens ? `Logged out of ${key.server}.\n` : `There was no login at ${key.server}.\n`
  writeAnswer(args, io, { server: key.server, state: 'logged out', was: grant?.tokens !== undefined }, text)
  return 0
}

interface LoginState {
  readonly state: 'logged in' | 'expired' | 'login needed' | 'not logged in' | 'cannot be read'
  /** Why the login cannot be read. */
  readonly reason?: string
  readonly expires_at?: string
  readonly renews?: boolean
  readonly scope?: string
  /** A scope that the server has requested since. */
  readonly wants_scope?: string
}

function stateOf(grant: Grant | undefined, now: number): LoginState {
  const { tokens, expiresAt, wanted } = grant ?? {}
  const wantedScope = wanted?.scope === undefined ? {} : { wants_scope: wanted.scope }
  if (!tokens) return { state: wanted ? 'login needed' : 'not logged in', ...wantedScope }
  const renews = tokens.refresh_token !== undefined
  return {
    state: expiresAt !== undefined && expiresAt < now && !renews ? 'expired' : 'logged in',
    ...(expiresAt === undefined ? {} : { expires_at: new Date(expiresAt).toISOString() }),
    renews,
    ...(tokens.scope === undefined ? {} : { scope: tokens.scope }),
    ...wantedScope,
  }
}

const createUnreadableState = (error: unknown): LoginState => ({ state: 'cannot be read', reason: messageOf(error) })

function describeExpiry({ expires_at, renews, reason }: LoginState): string {
  if (reason !== undefined) return reason
  if (renews) return ', renewed by itself'
  return expires_at === undefined ? '' : ` until ${expires_at}`
}

async function list(args: Args, io: Io, servers: Config['servers'], store: TokenStore): Promise<number> {
  const principal = readOption(args, 'principal')
  const now = systemClock.now()
  const rows = []
  for (const [id, settings] of Object.entries(servers)) {
    const { target } = settings
    if (target.kind === 'stdio') continue
    for (const loginPrincipal of await principalsToList(id, target, settings, principal, store)) {
      const key: GrantKey = { server: id, url: target.url, principal: loginPrincipal }
      const state = await store.read(key).then((grant) => stateOf(grant, now), createUnreadableState)
      rows.push({ server: id, ...(loginPrincipal === undefined ? {} : { principal: loginPrincipal }), ...state })
    }
  }
  const lines = rows.map((row) => [
    row.server,
    row.principal ?? '',
    // Most servers need no login.
    row.state === 'not logged in' ? 'not logged in; has not asked for a login' : row.state,
    describeExpiry(row).replace(/^, /, ''),
    row.wants_scope === undefined ? '' : `wants ${namedScopes(row.wants_scope) ?? 'more rights'}`,
  ])
  writeAnswer(args, io, rows, formatTable(lines) || 'No remote servers.\n')
  return 0
}

/** Whose logins at a server to list: all, but at least one row for the server. */
async function principalsToList(
  id: string,
  { url }: HttpTarget,
  { auth }: ServerSettings,
  principal: string | undefined,
  store: TokenStore,
): Promise<readonly (string | undefined)[]> {
  if (auth?.perPrincipal !== true) return [undefined]
  if (principal !== undefined) return [principal]
  const loggedIn = await store.principals(id, url)
  return loggedIn.length > 0 ? loggedIn : ['local']
}

/** With an OAuth issuer, any name may be that of a principal. */
async function warnOfUnknownPrincipal(args: Args, io: Io, config: Config, known: readonly string[]): Promise<void> {
  const principal = readOption(args, 'principal')
  const { oauth, tokens } = config.server.http
  if (principal === undefined || principal === 'local' || oauth !== undefined) return
  const { openAppState } = await import('../app/app-state.ts')
  let names = [...known, ...tokens.map((token) => token.principal)]
  try {
    const { tokens: created, shared } = await openAppState(config, openLog(args, io, 'warn', config.log.format))
    names = [...names, ...(await created.list().finally(shared.close)).map((token) => token.principal)]
  } catch {
    // A login does not need the state.
    return
  }
  if (!names.includes(principal))
    writeWarning(io, `no token has the principal "${principal}"${didYouMean(principal, names)}`)
}

function findServer(
  id: string,
  servers: Config['servers'],
): { readonly settings: ServerSettings; readonly target: HttpTarget } {
  const settings = Object.hasOwn(servers, id) ? servers[id] : undefined
  if (!settings) {
    const remote = Object.keys(servers).filter((serverId) => servers[serverId]?.target.kind !== 'stdio')
    const known = remote.length > 0 ? `; remote servers: ${remote.join(', ')}` : '; no remote server is configured'
    throw new UsageError(`there is no server "${id}"${didYouMean(id, Object.keys(servers), known)}`)
  }
  if (settings.target.kind === 'stdio')
    throw new UsageError(
      `${id} is a local program, and only remote servers have logins; put its keys into ${settings.where}.env`,
    )
  return { settings, target: settings.target }
}

/** The principal, if each one logs in for itself; else undefined. */
function principalOf(args: Args, id: string, settings: ServerSettings): string | undefined {
  const principal = readOption(args, 'principal')
  if (settings.auth?.perPrincipal === true) return principal ?? 'local'
  if (principal !== undefined)
    throw new UsageError(
      `${id} has one login for all principals; set ${settings.where}.auth.perPrincipal to true for separate logins`,
    )
  return undefined
}
