import { once } from 'node:events'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { App } from '../app/app.ts'
import { profileForFolder } from '../config/folder-profiles.ts'
import type { Config } from '../config/load-config.ts'
import { type Caller, localCaller } from '../core/caller.ts'
import { systemClock } from '../core/clock.ts'
import { messageOf } from '../core/errors.ts'
import { createLog, type Log } from '../core/log.ts'
import { DEFAULT_PROFILE } from '../core/profile.ts'
import { formatActivity } from './activity-line.ts'
import { type Args, readInteger, readOption } from './args.ts'
import { type Io, UsageError } from './io.ts'
import { setupDir } from './machine-of.ts'
import {
  machineFor,
  openApp,
  openConfig,
  openLog,
  profileFor,
  profileOption,
  recordingFor,
  unpinnedWarning,
  withFlags,
} from './open-app.ts'
import type { ConnectionInfo } from './snippets.ts'

/** Time for running requests at shutdown. */
const GRACE_MS = 2_000
/** Longest time that the first answer waits for modules. */
const MAX_MODULE_WAIT_MS = 1_500
const MAX_RECORD_WAIT_MS = 60_000
/** After this time without a list, the client counts as one that does not list. */
const UNLISTED_MS = 2_000
/** Servers that were never read are read after the first list, or after this time. */
const FIRST_READ_MS = 1_000
/** Pause before watching files is tried again. */
const RETRY_MS = 5_000

/** `pegboard serve`: runs until the client disconnects or the process gets a signal to stop. */
export async function run(args: Args, io: Io): Promise<number> {
  const overHttp = wantsHttp(args, io)
  const loaded = await openConfig(args, io, { isExposed: overHttp, namesIgnoredServers: true })
  const config = withAddress(loaded.config, args)
  // Clients over HTTP do not start Pegboard, so its working directory says nothing about them.
  const profile = overHttp ? (profileOption(args, config) ?? DEFAULT_PROFILE) : profileFor(args, config, io)
  const caller = { ...localCaller, profile }
  // People read sentences; JSON is for log collectors.
  const isWatched =
    overHttp && io.terminal?.err === true && config.log.level === undefined && config.log.format === undefined
  const log =
    isWatched && args.values['verbose'] !== true && args.values['json'] !== true
      ? createActivityLog(io)
      : openLog(args, io, config.log.level ?? (overHttp && io.input.isTTY ? 'warn' : 'info'), config.log.format)
  const app = await openApp(config, log, io, {
    ...(args.values['frozen'] === true ? { frozen: true } : {}),
    connectDelayMs: { cold: FIRST_READ_MS },
    ...recordingFor(args, io),
    page: overHttp && (await hasPage(config)),
    setupDir: setupDir(io),
  })
  const stopFunctions: Array<() => void> = []
  let isOver = false
  let cancelFollowing: (() => void) | undefined
  // Before the file is followed, nothing has to be read again. With a terminal, SIGHUP means that the terminal was closed.
  let reload = (): void => undefined
  if (overHttp && io.input.isTTY !== true) io.onHangUp?.(() => reload())
  const followFiles = async (): Promise<void> => {
    const { followConfig, watchConfig } = await import('../config/reload-config.ts')
    const { lockFile } = await import('../trust/lock-file.ts')
    if (isOver) return
    if (config.file === undefined) {
      reload = () => log.info('SIGHUP: no configuration file is in use')
      return
    }
    stopFunctions.push(app.loader.watch())
    const lock = lockFile(config.file)
    if (lock !== undefined) stopFunctions.push(watchConfig(lock, () => app.reviewed(), { log }))
    const machine = machineFor(args, io)
    const refine = (after: Config): Config => withAddress(withFlags(after, args), args)
    const onConfig = async (after: Config): Promise<void> => {
      io.onSecrets?.(after.secrets)
      await app.reload(after)
    }
    const { secretsFile } = await import('../state/secret-store.ts')
    const secrets = secretsFile(setupDir(io))
    const followed = followConfig({ config, text: loaded.text, secrets, machine, log, refine, onConfig })
    stopFunctions.push(followed.stop)
    reload = followed.reload
  }
  /** There may be no file descriptor left to load code with. */
  const tryToFollow = (): Promise<void> =>
    followFiles().catch((error: unknown) => {
      log.warn('cannot watch files for now', { error: messageOf(error) })
      if (!isOver) cancelFollowing = systemClock.after(RETRY_MS, () => void tryToFollow())
    })
  // Background work: indexing, and watching files.
  const follow = async (): Promise<void> => {
    if (isOver) return
    const warning = args.values['replay'] === undefined ? unpinnedWarning(config) : undefined
    if (warning !== undefined) log.warn(warning)
    app.warm()
    await tryToFollow()
    if (!isOver) await app.work()
  }
  try {
    await app.open()
    // Drop-ins that take longer appear later.
    const modulesLoaded = app.start()
    modulesLoaded.catch((error: unknown) => log.error('modules could not be loaded', { error }))
    // A recording is made with all tools, as it is replayed.
    const maxWaitMs = args.values['record'] === undefined ? MAX_MODULE_WAIT_MS : MAX_RECORD_WAIT_MS
    await Promise.race([modulesLoaded, new Promise((resolve) => setTimeout(resolve, maxWaitMs).unref())])
    const serving = { app, config, args, io, follow, caller, modulesLoaded }
    await (overHttp ? serveHttp(serving) : serveStdio(serving))
    return 0
  } finally {
    isOver = true
    cancelFollowing?.()
    for (const stop of stopFunctions) stop()
    await app.stop()
  }
}

/**
 * For a client that starts Pegboard in another folder than that of its project. Undefined if the command line or the
 * working directory chooses the profile, or if no profile names folders.
 */
function profileByRoots(
  args: Args,
  config: Config,
  io: Io,
): ((uris: readonly string[]) => string | undefined) | undefined {
  const machine = machineFor(args, io)
  const isChosen = readOption(args, 'profile') !== undefined || profileForFolder(config, io.cwd, machine) !== undefined
  if (isChosen || Object.values(config.profiles).every(({ folders }) => folders.length === 0)) return undefined
  return (uris) => {
    for (const uri of uris) {
      const folder = folderOf(uri)
      const profile = folder === undefined ? undefined : profileForFolder(config, folder, machine)
      if (profile !== undefined) return profile
    }
    return undefined
  }
}

function folderOf(uri: string): string | undefined {
  try {
    return fileURLToPath(uri)
  } catch {
    // Not a folder of this machine.
    return undefined
  }
}

/** One line for each connection, call, refusal and configuration change. */
function createActivityLog(io: Io): Log {
  let lastText = ''
  return createLog((line) => {
    const text = formatActivity(line)
    // Repeated refusals are logged once.
    if (text === undefined || (text === lastText && text.includes('refused a request'))) return
    lastText = text
    io.stderr(`${text}\n`)
  }, 'debug')
}

function wantsHttp(args: Args, io: Io): boolean {
  const { stdio, http, sse, port, host } = args.values
  const isHttp = http === true || sse === true
  if (stdio === true && isHttp) throw new UsageError('choose --stdio or --http, not both')
  if (stdio === true) return false
  return isHttp || port !== undefined || host !== undefined || io.input.isTTY === true
}

/** The page is for browsers on this machine. */
async function hasPage({ server: { http } }: Config): Promise<boolean> {
  const { isLoopback, isWildcard } = await import('../server/origin-check.ts')
  return http.page && (isLoopback(http.host) || isWildcard(http.host))
}

function withAddress(config: Config, args: Args): Config {
  const { http } = config.server
  const port = readInteger(args, 'port', 0, 65_535, http.port)
  const host = readOption(args, 'host') ?? http.host
  return { ...config, server: { ...config.server, http: { ...http, port, host } } }
}

interface ServeContext {
  readonly app: App
  readonly config: Config
  readonly args: Args
  readonly io: Io
  /** A client that selects no profile. */
  readonly caller: Caller
  follow(): Promise<void>
  readonly modulesLoaded: Promise<void>
}

async function serveStdio({ app, config, args, io, follow, caller: initialCaller }: ServeContext): Promise<void> {
  const { serveOnStdio } = await import('../server/serve-stdio.ts')
  let caller = initialCaller
  const byRoots = profileByRoots(args, config, io)
  let bannerShown = false
  const announce = async (): Promise<void> => {
    if (bannerShown) return
    bannerShown = true
    const { formatBanner, factsOf } = await import('./banner.ts')
    // JSON logs replace the text.
    if (config.log.format === 'json') app.log.info('serving', { ...factsOf(app, caller) })
    else
      io.stderr(
        formatBanner(factsOf(app, caller), io.input.isTTY ? createConnectionInfo({ args, config, io }) : undefined),
      )
    await follow()
  }
  // Clients wait for the first list, so other work starts after it. A client that calls without listing, or that lists
  // with the newer protocol, gets time for its first answers.
  const announceInBackground = (): void =>
    void announce().catch((error: unknown) => app.log.error('after the first list', { error }))
  let cancel: () => void = () => undefined
  const connection = serveOnStdio({
    host: app.server,
    clock: systemClock,
    input: io.input,
    output: io.claimOutput(),
    profile: caller.profile,
    profileForRoots:
      byRoots &&
      ((uris) => {
        const profile = byRoots(uris)
        if (profile !== undefined) {
          caller = { ...caller, profile }
          app.log.info('the roots of the client choose the profile', { profile })
        }
        return profile
      }),
    onListed: announceInBackground,
  })
  let hasInput = false
  io.input.once('data', () => {
    hasInput = true
    cancel = systemClock.after(UNLISTED_MS, announceInBackground)
  })
  await Promise.race([connection.closed, waitForStop(io)])
  cancel()
  // A client that disconnected needs no answers; others get those of running calls.
  if (io.stop.aborted) await Promise.race([connection.closed, drain(app, io)])
  connection.close()
  if (!hasInput && args.values.stdio !== true && !io.stop.aborted)
    io.stderr(
      'pegboard: without a terminal, Pegboard serves MCP on stdin, but no client was there. To listen on HTTP instead, run pegboard serve --http\n',
    )
}

async function serveHttp({ app, config, args, io, follow, caller, modulesLoaded }: ServeContext): Promise<void> {
  const { token, file: tokenFile } = await tokenFor(config)
  if (token !== undefined) io.onSecrets?.([token])
  const { listenHttp } = await import('../server/listen-http.ts')
  const { createServedPage } = await import('./served-page.ts')
  const page = await createServedPage(app, config, systemClock)
  const server = await listenHttp({
    host: app.server,
    settings: config.server.http,
    token,
    profile: caller.profile,
    clock: systemClock,
    forget: app.forget,
    page: page?.create,
  })
  await page?.announce(server.url)
  const { formatBanner, factsOf, describeExposure } = await import('./banner.ts')
  const { isWildcard } = await import('../server/origin-check.ts')
  const { PLACEHOLDER } = await import('./snippets.ts')
  const { withTypedCommands } = await import('./invocation.ts')
  const { auth, oauth, tokens, host, publicUrl, allowedHosts } = config.server.http
  const names = [...(publicUrl === undefined ? [] : [new URL(publicUrl).hostname]), ...allowedHosts]
  // A pipe often leads to a journal that others can read. Only a terminal gets the token and a link that logs in.
  const isTerminal = io.terminal?.out === true
  const shownToken = isTerminal ? token : undefined
  const url = `${server.url}/mcp`
  // On other machines, clients use tokens of their own or those of an OAuth issuer.
  const needsToken = token !== undefined || (auth === 'token' && (tokens.length > 0 || !oauth))
  const placeholder = needsToken && shownToken === undefined ? PLACEHOLDER : undefined
  const tokenInConfig = token === undefined ? 'a token from server.http.tokens' : 'the value of server.http.token'
  const bannerHttp = {
    url,
    token: shownToken ?? placeholder,
    tokenSource: placeholder && (tokenFile === undefined ? tokenInConfig : `the token in ${tokenFile}`),
  }
  const facts = factsOf(app, caller, {
    url,
    names: isWildcard(host) ? names : undefined,
    profiles: Object.keys(config.profiles),
    token: shownToken,
    tokenFile,
    page: page && `${server.url}/ui`,
    pageLink: isTerminal ? page?.createLink() : undefined,
  })
  if (args.values['json'] === true) io.stdout(`${JSON.stringify(facts)}\n`)
  else
    io.stdout(
      withTypedCommands(
        formatBanner(facts, { ...createConnectionInfo({ args, config, io }), http: bannerHttp }),
        args,
        io,
      ),
    )
  const printLoaded = (): void => {
    if (!io.stop.aborted && args.values['json'] !== true)
      io.stdout(`\nAll modules are loaded: ${describeExposure(factsOf(app, caller))}\n`)
  }
  if (facts.loading) modulesLoaded.then(printLoaded, () => undefined)
  await follow()
  await waitForStop(io)
  server.drain()
  await drain(app, io)
  await page?.withdraw()
  await server.close(GRACE_MS)
}

function createConnectionInfo({ args, config, io }: Pick<ServeContext, 'args' | 'config' | 'io'>): ConnectionInfo {
  const profile = readOption(args, 'profile')
  return { ...io.self, config: config.file, ...(profile === undefined ? {} : { profile }) }
}

/** The token of the operator, and the file that has it if the configuration does not. */
async function tokenFor(config: Config): Promise<{ readonly token?: string | undefined; readonly file?: string }> {
  const { isLoopback } = await import('../server/origin-check.ts')
  const { auth, token, host } = config.server.http
  if (auth === 'none') return {}
  // For other machines the operator sets the token; serveHttp refuses to start without one.
  if (token !== undefined || !isLoopback(host)) return { token }
  const { loadOrCreateToken } = await import('../server/bearer-tokens.ts')
  const file = join(config.dirs.state, 'token')
  return { token: await loadOrCreateToken(file), file }
}

/** Reports the signal, and waits for running calls. */
async function drain(app: App, { stop }: Io): Promise<void> {
  const { running, waiting } = app.load()
  const calls = running + waiting
  app.log.info('stopping', {
    signal: messageOf(stop.reason),
    ...(calls > 0 && { waitsForCalls: calls, maxWaitMs: GRACE_MS }),
  })
  await app.drain(GRACE_MS)
}

async function waitForStop(io: Io): Promise<void> {
  if (!io.stop.aborted) await once(io.stop, 'abort')
}
