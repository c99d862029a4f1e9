import type { App, AppOptions } from '../app.ts'
import type { Config, Loaded } from '../config/load.ts'
import { type Caller, localCaller } from '../core/context.ts'
import { PegboardError } from '../core/errors.ts'
import { createLog, type Log, type LogLevel } from '../core/log.ts'
import { plain } from '../core/plain.ts'
import { DEFAULT_PROFILE } from '../core/profile.ts'
import { allowInsecurePermissions, replacedByOthers, writtenByOthers } from '../core/written-by-others.ts'
import type { LogSettings } from '../observe/options.ts'
import { lockFile } from '../trust/lock.ts'
import { mayInstall } from '../upstream/install.ts'
import { unpinned } from '../upstream/pinned.ts'
import type { UpstreamStatus } from '../upstream/upstream.ts'
import type { Args } from './commands.ts'
import { failureLine } from './describe.ts'
import { ERASE, type Io, UsageError } from './io.ts'
import { recallConfig } from './recall.ts'

const INSTALL_WAIT_MS = 50_000
const LONG_WAIT_S = 120
/** Servers that need longer are not waited for in silence. */
const MOMENT_MS = 2_000

type Server = Pick<UpstreamStatus, 'id' | 'module' | 'tools'>

export interface Opened extends Loaded {
  /** The configuration of a project that is not used, as nobody has confirmed it. */
  readonly ignored?: string
}

/**
 * Loads the configuration that --config names or that is found; warnings go to stderr.
 * @param exposed whether others reach what is served: then files that another user may write are an error, not a warning
 * @throws PegboardError E_CONFIG_*
 */
export async function openConfig(args: Args, io: Io, exposed = false): Promise<Opened> {
  if (args.values['insecure-permissions'] === true) allowInsecurePermissions()
  const named = text(args, 'config')
  // Most starts name it, and need not look for any.
  const { file, ignored } =
    named === undefined
      ? await (await import('./find-config.ts')).findConfig(named, io)
      : { file: named, ignored: undefined }
  const read = await recallConfig({ env: io.env, cwd: io.cwd, self: io.self.script }, file)
  const unsafe = unsafeFiles(read.config, exposed)
  const config = withFlags(read.config, args)
  const warnings = [
    ...read.warnings,
    ...config.skipped.slice(read.config.skipped.length).map(({ reason }) => `${reason}; the server is left out.`),
    ...unsafe,
  ]
  if (ignored !== undefined)
    io.stderr(
      `pegboard: ${ignored} is not read unless named (--config ${ignored}) or confirmed once: run pegboard on a terminal here\n`,
    )
  io.know?.(config.secrets)
  for (const warning of warnings) io.stderr(`pegboard: warning: ${warning}\n`)
  return { ...read, config, warnings, ...(ignored === undefined ? {} : { ignored }) }
}

/** What another user may write of the files that decide what runs here. @throws PegboardError E_CONFIG_WRITABLE if exposed */
function unsafeFiles({ file, modulesDir }: Config, exposed: boolean): string[] {
  if (file === undefined) return []
  const lock = lockFile(file)
  const looked: [string, string | undefined][] = [
    ['The configuration file', replacedByOthers(file)],
    ['The lock file', lock === undefined ? undefined : writtenByOthers(lock)],
    ['The modules folder', modulesDir === undefined ? undefined : writtenByOthers(modulesDir)],
  ]
  return looked.flatMap(([what, why]) => {
    if (why === undefined) return []
    if (!exposed) return [`${what} is not safe: ${why}.`]
    throw new PegboardError('E_CONFIG_WRITABLE', `${what} is not safe to serve over HTTP: ${why}.`, {
      hint: 'To serve it all the same: --insecure-permissions.',
    })
  })
}

/**
 * What the command line says over the file: with --frozen, no server runs whose command fetches whatever is newest, as
 * nobody has seen that.
 */
export function withFlags(config: Config, args: Args): Config {
  if (args.values['frozen'] !== true) return config
  const fetched = Object.entries(config.servers).flatMap(([id, server]) => {
    const name = server.enabled ? unpinned(server) : undefined
    return name === undefined
      ? []
      : [{ id, reason: `${server.where} fetches ${name} in whatever version is newest, which --frozen refuses` }]
  })
  if (fetched.length === 0) return config
  const out = new Set(fetched.map(({ id }) => id))
  const servers = Object.fromEntries(Object.entries(config.servers).filter(([id]) => !out.has(id)))
  return { ...config, servers, skipped: [...config.skipped, ...fetched] }
}

/**
 * A log on stderr.
 * @param quiet entries below it are left out unless --verbose
 * @param format default for people where one reads it
 */
export function openLog(args: Args, io: Io, quiet: LogLevel, format?: LogSettings['format']): Log {
  const asText = format === undefined ? io.terminal?.err === true : format === 'text'
  return createLog(
    (line) => io.stderr(`${asText ? sentenceOf(line) : line}\n`),
    args.values['verbose'] === true ? 'debug' : quiet,
  )
}

/** `dice.ts:14 total is not defined`, of a call that failed by a bug in a drop-in. */
export function bugOf({ message, at, error, tool, callId }: Readonly<Record<string, unknown>>): string | undefined {
  if (message !== 'call' || typeof at !== 'string' || error === undefined) return undefined
  return `${at} ${(error as { message?: string }).message ?? ''} (${tool}, ${callId})`
}

/** A line of the log as a person reads it. */
export function sentenceOf(line: string): string {
  let entry: Readonly<Record<string, unknown>>
  try {
    entry = JSON.parse(line) as Readonly<Record<string, unknown>>
  } catch {
    // Not one of ours.
    return line
  }
  const { time: _time, level, scope, message, ...fields } = entry
  const bug = bugOf(entry)
  if (bug !== undefined) return plain(`pegboard: ${bug}`)
  const head = [level, scope, message].filter((part) => part !== undefined && part !== 'info').join(': ')
  const rest = Object.entries(fields).map(
    ([name, value]) =>
      `\n    ${name}: ${typeof value === 'string' ? value.replaceAll('\n', '\n      ') : JSON.stringify(value)}`,
  )
  // What a server wrote may steer a terminal.
  return plain(`pegboard: ${head}${rest.join('')}`)
}

/** An app for this process, not started. */
export async function openApp(config: Config, log: Log, io: Io, options: AppOptions = {}): Promise<App> {
  const { createApp } = await import('../app.ts')
  return createApp(config, { log, env: io.env, ...worldOf(io), ...options })
}

const worldOf = ({ unwritten, know, beforeDropIns }: Io): Pick<AppOptions, 'unwritten' | 'know' | 'beforeDropIns'> => ({
  ...(unwritten ? { unwritten } : {}),
  ...(beforeDropIns ? { beforeDropIns } : {}),
  ...(know ? { know } : {}),
})

export interface Session {
  readonly app: App
  readonly config: Config
  /** This terminal, as a client of the profile that --profile names. */
  readonly caller: Caller
  readonly warnings: readonly string[]
  /** The configuration of a project that is not used. */
  readonly ignored?: string
}

/**
 * Opens an app for one question from the terminal and closes it afterwards.
 * @param options.awaited which servers are waited for, asked again after each change; default all
 * @param options.waitS how long, unless --wait says; default 10, and a minute where one may be downloading itself
 * @param options.early prints what is known when servers are still waited for after a moment
 */
export async function withApp(
  args: Args,
  io: Io,
  use: (session: Session) => number | Promise<number>,
  options: Pick<AppOptions, 'onModelProgress'> & {
    readonly awaited?: (server: Server, session: Session) => boolean
    readonly waitS?: number
    readonly early?: (session: Session) => void
  } = {},
): Promise<number> {
  const { awaited = () => true, waitS, early, ...appOptions } = options
  const waitMs = whole(args, 'wait', 0, 600, waitS ?? 10) * 1_000
  const { config, warnings, ignored } = await openConfig(args, io)
  const caller = { ...localCaller, profile: profileFor(args, config) }
  const app = await openApp(config, openLog(args, io, 'error', config.log.format), io, {
    connectDelayMs: { cold: 0, known: 0 },
    ...(args.values['frozen'] === true ? { frozen: true } : {}),
    ...appOptions,
  })
  try {
    await app.start()
    for (const failed of app.failed()) io.stderr(`pegboard: warning: not loaded: ${failureLine(failed)}\n`)
    const session = { app, config, caller, warnings, ...(ignored === undefined ? {} : { ignored }) }
    const wanted = (server: Server): boolean => awaited(server, session)
    const momentMs = Math.min(waitMs, MOMENT_MS)
    await app.settled(momentMs, wanted)
    // A wait that is nearly over needs no words.
    const waiting = waitMs >= 2 * MOMENT_MS && waited(app, wanted).length > 0
    if (waiting) early?.(session)
    const stop = waiting ? showProgress(app, wanted, io) : () => undefined
    await app.settled(waitMs - momentMs, wanted).finally(stop)
    if (waitS === undefined && text(args, 'wait') === undefined) await installed(session, wanted, io)
    for (const one of app.upstreams.status())
      if (one.pending && one.tools === 0 && wanted(one))
        io.stderr(`pegboard: warning: ${late(one)}; to wait longer: --wait ${LONG_WAIT_S}\n`)
    return await use(session)
  } finally {
    await app.stop()
  }
}

const waited = (app: App, wanted: (server: Server) => boolean): UpstreamStatus[] =>
  app.upstreams.status().filter((one) => one.pending && wanted(one))

/** Says which servers are waited for, and how each of them turns out. Answers how to stop. */
function showProgress(app: App, wanted: (server: Server) => boolean, io: Io): () => void {
  const startedAt = Date.now()
  const missing = new Set(waited(app, wanted).map(({ module }) => module))
  const live = io.terminal?.err === true
  const names = (): string => [...missing].join(', ')
  const tell = (line: string): void => io.stderr(`${live ? ERASE : ''}pegboard: ${line}\n`)
  const redraw = (): void => {
    if (live && missing.size > 0)
      io.stderr(`${ERASE}pegboard: waiting for ${names()} (${Math.round((Date.now() - startedAt) / 1_000)} s)`)
  }
  const look = (): void => {
    for (const { module, pending, tools, state, detail, reason } of app.upstreams.status()) {
      if (pending || !missing.delete(module)) continue
      tell(state === 'failing' ? `${module} failed: ${detail ?? reason}` : `${module} has ${tools} tools`)
    }
    redraw()
  }
  if (live) redraw()
  else tell(`waiting for ${names()}`)
  const timer = setInterval(look, 1_000)
  return () => {
    clearInterval(timer)
    look()
    if (live) io.stderr(ERASE)
  }
}

/** What is being downloaded would have to be downloaded again. */
async function installed({ app, config }: Session, wanted: (server: Server) => boolean, io: Io): Promise<void> {
  // One that gave a reason does something else.
  const installs = ({ id, tools, reason }: UpstreamStatus): boolean => {
    const settings = config.servers[id]
    return tools === 0 && reason === undefined && settings !== undefined && mayInstall(settings)
  }
  const slow = app.upstreams.status().filter((one) => one.pending && installs(one) && wanted(one))
  if (slow.length === 0) return
  const names = slow.map(({ module }) => module).join(', ')
  io.stderr(`pegboard: waiting up to ${INSTALL_WAIT_MS / 1_000} s more for ${names}, perhaps still downloading\n`)
  const still = (one: Server): boolean => slow.some(({ id }) => id === one.id) && wanted(one)
  const stop = showProgress(app, still, io)
  await app.settled(INSTALL_WAIT_MS, still).finally(stop)
}

/** Names servers that run whatever is newest when they start; undefined where there is none. */
export function unpinnedWarning({ servers }: Config): string | undefined {
  const names = Object.values(servers).flatMap((server) => {
    const name = server.enabled ? unpinned(server) : undefined
    return name === undefined ? [] : [`${server.where} (${name})`]
  })
  if (names.length === 0) return undefined
  return `What these servers run is fetched in whatever version is newest then: ${names.join(', ')}. To run what you have seen, name a version: name@1.2.3.`
}

const late = ({ module, detail, reason, ...one }: UpstreamStatus): string =>
  reason === undefined ? `${module} ${starting(one)}` : `${module}: ${detail ?? reason}`

/** Of a server that has not answered yet, and has given no reason. */
export const starting = ({ transport, installs }: Pick<UpstreamStatus, 'transport' | 'installs'>): string =>
  transport !== 'stdio'
    ? 'has not answered yet'
    : installs
      ? 'is still starting, perhaps still downloading'
      : 'is still starting'

export function text(args: Args, name: string): string | undefined {
  const value = args.values[name]
  return typeof value === 'string' ? value : undefined
}

/** A whole number within bounds. @throws UsageError */
export function whole(args: Args, name: string, min: number, max: number, fallback: number): number {
  const raw = text(args, name)
  if (raw === undefined) return fallback
  const value = Number(raw)
  if (!/^\d+$/.test(raw) || value < min || value > max)
    throw new UsageError(`--${name} takes a whole number from ${min} to ${max}, not "${raw}"`)
  return value
}

/** The profile that --profile names. @throws UsageError */
export function profileFor(args: Args, { profiles }: Config): string {
  const name = text(args, 'profile') ?? DEFAULT_PROFILE
  if (name === DEFAULT_PROFILE || Object.hasOwn(profiles, name)) return name
  const known = Object.keys(profiles)
  throw new UsageError(
    `there is no profile "${name}"; ${known.length > 0 ? `the configuration has ${known.join(', ')}` : 'the configuration has none'}`,
  )
}

/** One of some words. @throws UsageError */
export function oneOf<const Word extends string>(
  args: Args,
  name: string,
  words: readonly Word[],
  fallback: Word,
): Word {
  const raw = text(args, name) ?? fallback
  const word = words.find((one) => one === raw)
  if (word === undefined) throw new UsageError(`--${name} takes ${words.join(', ')}, not "${raw}"`)
  return word
}
