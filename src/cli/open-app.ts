import { resolve } from 'node:path'
import type { App, AppOptions } from '../app/app.ts'
import { failureLine } from '../app/failure-line.ts'
import type { RecordingOptions } from '../app/record-and-replay.ts'
import { profileForFolder } from '../config/folder-profiles.ts'
import type { Config, LoadedConfig } from '../config/load-config.ts'
import { type Machine, UNSET } from '../config/machine.ts'
import { raceAbort } from '../core/abort.ts'
import { type Caller, localCaller } from '../core/caller.ts'
import { PegboardError } from '../core/errors.ts'
import { formatCount } from '../core/format-count.ts'
import { createLog, type Log, type LogLevel, silentLog } from '../core/log.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import { toPrintable } from '../core/printable.ts'
import { DEFAULT_PROFILE } from '../core/profile.ts'
import { tryParseJson } from '../core/try-parse-json.ts'
import { allowInsecurePermissions, replacedByOthers, writtenByOthers } from '../core/written-by-others.ts'
import type { LogSettings } from '../observe/telemetry-options.ts'
import { lockFile } from '../trust/lock-file.ts'
import { mayInstall } from '../upstream/package-download.ts'
import { unpinnedPackage } from '../upstream/unpinned-package.ts'
import type { UpstreamStatus } from '../upstream/upstream.ts'
import { type Args, readInteger, readOption } from './args.ts'
import { ERASE, type Io, UsageError, writeWarning } from './io.ts'
import { machineOf } from './machine-of.ts'

const INSTALL_WAIT_MS = 50_000
const LONG_WAIT_S = 120
/** Progress is shown when waiting takes longer. */
const SHORT_WAIT_MS = 2_000
/** An interrupted command that takes longer to stop says so. */
const REPORTED_STOP_MS = 300

type Server = Pick<UpstreamStatus, 'id' | 'module' | 'tools'>

export interface OpenedConfig extends LoadedConfig {
  /** The project's configuration, if Pegboard ignores it because the user has not confirmed it. */
  readonly ignored?: string
}

/**
 * Loads the configuration that --config names or that is found; prints warnings to stderr.
 * @param options.isExposed true if other machines can connect: then files that other users can write are errors, not warnings
 * @param options.namesIgnoredServers also prints warnings about servers that cannot be used, which most commands do not need
 * @throws PegboardError E_CONFIG_*
 */
export async function openConfig(
  args: Args,
  io: Io,
  options: { readonly isExposed?: boolean; readonly namesIgnoredServers?: boolean } = {},
): Promise<OpenedConfig> {
  if (args.values['insecure-permissions'] === true) allowInsecurePermissions()
  const option = readOption(args, 'config')
  // Most starts name the file, so the search is loaded only when needed.
  const { file, ignored } =
    option === undefined
      ? await (await import('./find-config.ts')).findConfig(option, io)
      : { file: option, ignored: undefined }
  const { loadConfig } = await import('../config/load-config.ts')
  const { ignoredServerWarning } = await import('../config/read-servers.ts')
  const loaded = await loadConfig(machineFor(args, io), file)
  const unsafe = findUnsafeFiles(loaded.config, options.isExposed === true)
  const config = withFlags(loaded.config, args)
  const warnings = [
    ...loaded.warnings,
    ...config.skipped.slice(loaded.config.skipped.length).map(({ reason }) => ignoredServerWarning(reason)),
    ...unsafe,
  ]
  if (ignored !== undefined)
    io.stderr(
      `pegboard: ${ignored} is ignored. To use it, run pegboard in a terminal here and confirm it, or pass --config ${ignored}\n`,
    )
  io.onSecrets?.(config.secrets)
  const ofServers = new Set(config.skipped.map(({ reason }) => ignoredServerWarning(reason)))
  for (const warning of warnings)
    if (options.namesIgnoredServers === true || !ofServers.has(warning)) writeWarning(io, warning)
  return { ...loaded, config, warnings, ...(ignored === undefined ? {} : { ignored }) }
}

/** @returns the environment of the configuration */
export const machineFor = (args: Args, io: Io): Machine => ({
  ...machineOf(io),
  ...(readOption(args, 'replay') === undefined ? {} : { unset: UNSET }),
})

/** The folders of --replay and of `pegboard record`. */
export function recordingFor(args: Args, io: Io): RecordingOptions {
  const [record, replay] = ['record', 'replay'].map((name) => {
    const dir = readOption(args, name)
    return dir === undefined ? undefined : resolve(io.cwd, dir)
  })
  return { record, replay }
}

/** Files that other users can write and that decide what runs. @throws PegboardError E_CONFIG_WRITABLE if `exposed` */
function findUnsafeFiles({ file, modulesDir }: Config, exposed: boolean): string[] {
  if (file === undefined) return []
  const lock = lockFile(file)
  const checks: [string, string | undefined][] = [
    ['The configuration file', replacedByOthers(file)],
    ['The lock file', lock === undefined ? undefined : writtenByOthers(lock)],
    ['The modules folder', modulesDir === undefined ? undefined : writtenByOthers(modulesDir)],
  ]
  return checks.flatMap(([what, why]) => {
    if (why === undefined) return []
    if (!exposed) return [`${what} is not safe: ${why}.`]
    throw new PegboardError('E_CONFIG_WRITABLE', `${what} is not safe to serve over HTTP: ${why}.`, {
      hint: 'To serve it anyway, add --insecure-permissions.',
    })
  })
}

/**
 * Applies options of the command line. With --frozen, skips servers whose command downloads the latest version of a
 * package, because that version is not reviewed.
 */
export function withFlags(config: Config, args: Args): Config {
  if (args.values['frozen'] !== true) return config
  const unpinned = Object.entries(config.servers).flatMap(([id, server]) => {
    const name = server.enabled ? unpinnedPackage(server) : undefined
    return name === undefined
      ? []
      : [{ id, reason: `${server.where} fetches the newest version of ${name}, which --frozen refuses` }]
  })
  if (unpinned.length === 0) return config
  const unpinnedIds = new Set(unpinned.map(({ id }) => id))
  const servers = Object.fromEntries(Object.entries(config.servers).filter(([id]) => !unpinnedIds.has(id)))
  return { ...config, servers, skipped: [...config.skipped, ...unpinned] }
}

/**
 * A log on stderr.
 * @param level minimum level without --verbose
 * @param format default: text on a terminal
 */
export function openLog(args: Args, io: Io, level: LogLevel, format?: LogSettings['format']): Log {
  const asText = format === undefined ? io.terminal?.err === true : format === 'text'
  return createLog(
    (line) => io.stderr(`${asText ? formatLogEntry(line) : line}\n`),
    args.values['verbose'] === true ? 'debug' : level,
  )
}

/** `dice.ts:14 total is not defined` for a call that failed by a bug in a drop-in. */
function describeBug({ message, at, error, tool, callId }: Readonly<Record<string, unknown>>): string | undefined {
  if (message !== 'call' || typeof at !== 'string' || error === undefined) return undefined
  return `${at} ${(error as { message?: string }).message ?? ''} (${tool}, ${callId})`
}

/** A log entry as text for people: level, scope and message, then one line a field. Without the time. */
export function formatLogEntry(line: string): string {
  const entry = tryParseJson(line) as Readonly<Record<string, unknown>> | undefined
  // Not a log entry.
  if (entry === undefined) return line
  const { time: _time, level, scope, message, ...fields } = entry
  const bug = describeBug(entry)
  if (bug !== undefined) return toPrintable(`pegboard: ${bug}`)
  const head = [level, scope, message].filter((part) => part !== undefined && part !== 'info').join(': ')
  const rest = Object.entries(fields).map(
    ([name, value]) =>
      `\n    ${name}: ${typeof value === 'string' ? value.replaceAll('\n', '\n      ') : JSON.stringify(value)}`,
  )
  // Text of a server may contain terminal commands.
  return toPrintable(`pegboard: ${head}${rest.join('')}`)
}

/** Creates an app without starting it. */
export async function openApp(config: Config, log: Log, io: Io, options: AppOptions = {}): Promise<App> {
  const { createApp } = await import('../app/app.ts')
  const { env, droppedLogLines, onSecrets, beforeDropIns } = io
  return createApp(config, { log, env, ...omitUndefined({ droppedLogLines, onSecrets, beforeDropIns }), ...options })
}

/** Timers allow no more, about 25 days. */
const NEVER_MS = 0x7fff_ffff
/** Connects to no server, so that an app has the tools that are known from disk. */
export const offline = { connectDelayMs: { cold: NEVER_MS, known: NEVER_MS } } as const

/** Runs `use` with an app that starts no server. */
export async function withOfflineApp<T>(
  config: Config,
  io: Io,
  use: (app: App) => T,
  options: AppOptions = {},
): Promise<T> {
  const app = await openApp(config, silentLog, io, { ...offline, ...options })
  try {
    await app.start()
    return use(app)
  } finally {
    await app.stop()
  }
}

export interface Session extends Pick<OpenedConfig, 'config' | 'warnings' | 'ignored'> {
  readonly app: App
  /** The local client, with the profile of --profile or of the folder. */
  readonly caller: Caller
}

/**
 * Starts an app for one command, and stops it afterwards. Rejects with the reason of `io.stop` if a signal arrives
 * during a wait.
 * @param options.shouldWaitFor servers to wait for, evaluated again after each change (default all)
 * @param options.waitS seconds to wait without --wait (default 10, or 60 for a server that may be downloading)
 * @param options.early called after two seconds if servers are still starting
 */
export async function withApp(
  args: Args,
  io: Io,
  use: (session: Session) => number | Promise<number>,
  options: Pick<AppOptions, 'onModelProgress' | 'everyModule'> & {
    readonly shouldWaitFor?: (server: Server, session: Session) => boolean
    readonly waitS?: number
    readonly early?: (session: Session) => void
  } = {},
): Promise<number> {
  const { shouldWaitFor = () => true, waitS, early, ...appOptions } = options
  const waitMs = readInteger(args, 'wait', 0, 600, waitS ?? 10) * 1_000
  const { config, warnings, ignored } = await openConfig(args, io)
  const profile = profileFor(args, config, io)
  const caller = { ...localCaller, profile }
  if (profile !== DEFAULT_PROFILE && readOption(args, 'profile') === undefined)
    io.stderr(
      `pegboard: using profile ${profile}, because this folder matches profiles.${profile}.folders. To use another: --profile NAME\n`,
    )
  const app = await openApp(config, openLog(args, io, 'error', config.log.format), io, {
    connectDelayMs: { cold: 0, known: 0 },
    ...(args.values['frozen'] === true ? { frozen: true } : {}),
    ...recordingFor(args, io),
    ...appOptions,
  })
  try {
    await app.start()
    for (const failed of app.failed()) writeWarning(io, `not loaded: ${failureLine(failed)}`)
    const session = { app, config, caller, warnings, ...(ignored === undefined ? {} : { ignored }) }
    const isAwaited = (server: Server): boolean => shouldWaitFor(server, session)
    const shortWaitMs = Math.min(waitMs, SHORT_WAIT_MS)
    await raceAbort(app.settled(shortWaitMs, isAwaited), io.stop)
    // A short rest of the wait needs no message.
    const isWaiting = waitMs >= 2 * SHORT_WAIT_MS && findWaiting(app, isAwaited).length > 0
    if (isWaiting) early?.(session)
    const stop = isWaiting ? showProgress(app, isAwaited, io) : () => undefined
    await raceAbort(app.settled(waitMs - shortWaitMs, isAwaited), io.stop).finally(stop)
    if (waitS === undefined && readOption(args, 'wait') === undefined) await waitForDownloads(session, isAwaited, io)
    for (const server of app.upstreams.status())
      if (server.pending && server.tools === 0 && isAwaited(server))
        writeWarning(io, `${describeLateServer(server)}; to wait longer: --wait ${LONG_WAIT_S}`)
    return await use(session)
  } finally {
    await stopApp(app, io)
  }
}

/** Reports a slow stop after a signal, because otherwise nothing shows that the signal arrived. */
export async function stopApp(app: App, io: Io): Promise<void> {
  const report = (): void => {
    if (io.stop.aborted) io.stderr('pegboard: stopping the servers (press Ctrl-C again to stop at once)\n')
  }
  const timer = setTimeout(report, REPORTED_STOP_MS)
  await app.stop().finally(() => clearTimeout(timer))
}

const findWaiting = (app: App, isAwaited: (server: Server) => boolean): UpstreamStatus[] =>
  app.upstreams.status().filter((server) => server.pending && isAwaited(server))

/** Reports the servers that are starting, and the result of each. @returns stops reporting */
function showProgress(app: App, isAwaited: (server: Server) => boolean, io: Io): () => void {
  const startedAt = Date.now()
  const startingModules = new Set(findWaiting(app, isAwaited).map(({ module }) => module))
  const isTerminal = io.terminal?.err === true
  const names = (): string => [...startingModules].join(', ')
  const print = (line: string): void => io.stderr(`${isTerminal ? ERASE : ''}pegboard: ${line}\n`)
  const redraw = (): void => {
    if (isTerminal && startingModules.size > 0)
      io.stderr(`${ERASE}pegboard: waiting for ${names()} (${Math.round((Date.now() - startedAt) / 1_000)} s)`)
  }
  const reportChanges = (): void => {
    for (const { module, pending, tools, state, detail, reason } of app.upstreams.status()) {
      if (pending || !startingModules.delete(module)) continue
      print(
        state === 'failing' ? `${module} failed: ${detail ?? reason}` : `${module} has ${formatCount(tools, 'tool')}`,
      )
    }
    redraw()
  }
  if (isTerminal) redraw()
  else print(`waiting for ${names()}`)
  const timer = setInterval(reportChanges, 1_000)
  return () => {
    clearInterval(timer)
    reportChanges()
    if (isTerminal) io.stderr(ERASE)
  }
}

/** Waits longer for servers that may be downloading, because stopping them would repeat the download. */
async function waitForDownloads(
  { app, config }: Session,
  isAwaited: (server: Server) => boolean,
  io: Io,
): Promise<void> {
  // A server with a reason is not downloading.
  const mayBeDownloading = ({ id, tools, reason }: UpstreamStatus): boolean => {
    const settings = config.servers[id]
    return tools === 0 && reason === undefined && settings !== undefined && mayInstall(settings)
  }
  const slow = app.upstreams
    .status()
    .filter((server) => server.pending && mayBeDownloading(server) && isAwaited(server))
  if (slow.length === 0) return
  const names = slow.map(({ module }) => module).join(', ')
  io.stderr(`pegboard: waiting up to ${INSTALL_WAIT_MS / 1_000} s more for ${names}, which may still be downloading\n`)
  const isSlow = (server: Server): boolean => slow.some(({ id }) => id === server.id) && isAwaited(server)
  const stop = showProgress(app, isSlow, io)
  await raceAbort(app.settled(INSTALL_WAIT_MS, isSlow), io.stop).finally(stop)
}

/** Warns of servers that run the latest version of a package; undefined if there is none. */
export function unpinnedWarning({ servers }: Config): string | undefined {
  const names = Object.values(servers).flatMap((server) => {
    const name = server.enabled ? unpinnedPackage(server) : undefined
    return name === undefined ? [] : [`${server.where} (${name})`]
  })
  if (names.length === 0) return undefined
  return `These servers fetch the newest version of a package when they start: ${names.join(', ')}. To run a fixed version, write name@1.2.3.`
}

const describeLateServer = ({ module, detail, reason, ...status }: UpstreamStatus): string =>
  reason === undefined ? `${module} ${describeStarting(status)}` : `${module}: ${detail ?? reason}`

/** State of a server that has not answered yet and gave no reason. */
export const describeStarting = ({ transport, installs }: Pick<UpstreamStatus, 'transport' | 'installs'>): string =>
  transport !== 'stdio'
    ? 'has not answered yet'
    : installs
      ? 'is still starting, and may still be downloading'
      : 'is still starting'

/** The name of --profile; undefined without it. @throws UsageError if there is no such profile */
export function profileOption(args: Args, { profiles }: Config): string | undefined {
  const name = readOption(args, 'profile')
  if (name === undefined || name === DEFAULT_PROFILE || Object.hasOwn(profiles, name)) return name
  const profileNames = Object.keys(profiles)
  throw new UsageError(
    `there is no profile "${name}"; ${profileNames.length > 0 ? `the configuration has ${profileNames.join(', ')}` : 'the configuration has none'}`,
  )
}

/**
 * The profile of --profile, otherwise the one whose folders match the working directory: who starts Pegboard there
 * could also pass --profile. Not for HTTP, whose clients start nothing.
 */
export const profileFor = (args: Args, config: Config, io: Io): string =>
  profileOption(args, config) ?? profileForFolder(config, io.cwd, machineFor(args, io)) ?? DEFAULT_PROFILE
