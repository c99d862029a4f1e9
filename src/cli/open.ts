import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { App, AppOptions } from '../app.ts'
import { type Config, type Loaded, loadConfig } from '../config/load.ts'
import { createLog, type Log } from '../core/log.ts'
import type { Args } from './commands.ts'
import { type Io, UsageError } from './io.ts'

const USUAL_FILE = 'mcp.config.json'

/** Loads the configuration that --config names; warnings go to stderr. @throws PegboardError E_CONFIG_* */
export async function openConfig(args: Args, io: Io): Promise<Loaded> {
  const file = text(args, 'config')
  const loaded = await loadConfig({ env: io.env, cwd: io.cwd }, file)
  // Never read unasked: a cloned repository would decide what runs here.
  if (file === undefined && existsSync(join(io.cwd, USUAL_FILE)))
    io.stderr(`pegboard: ${USUAL_FILE} in this folder is not read unless named: --config ${USUAL_FILE}\n`)
  for (const warning of loaded.warnings) io.stderr(`pegboard: warning: ${warning}\n`)
  return loaded
}

/** A log on stderr. @param quiet entries below it are left out unless --verbose */
export const openLog = (args: Args, io: Io, quiet: 'info' | 'warn' | 'error'): Log =>
  createLog((line) => io.stderr(`${line}\n`), args.values['verbose'] === true ? 'debug' : quiet)

/** An app for this process, not started. */
export async function openApp(config: Config, log: Log, io: Io, options: AppOptions = {}): Promise<App> {
  const { createApp } = await import('../app.ts')
  return createApp(config, { log, env: io.env, ...options })
}

export interface Session {
  readonly app: App
  readonly config: Config
  readonly warnings: readonly string[]
}

/**
 * Opens an app for one question from the terminal and closes it afterwards.
 * @param options.enough when it answers true after the modules are loaded, servers are not waited for
 */
export async function withApp(
  args: Args,
  io: Io,
  use: (session: Session) => number | Promise<number>,
  options: Pick<AppOptions, 'onModelProgress'> & { readonly enough?: (app: App) => boolean } = {},
): Promise<number> {
  const { enough = () => false, ...appOptions } = options
  const waitMs = whole(args, 'wait', 0, 600, 10) * 1_000
  const { config, warnings } = await openConfig(args, io)
  const app = await openApp(config, openLog(args, io, 'error'), io, {
    connectDelayMs: { cold: 0, known: 0 },
    ...(args.values['frozen'] === true ? { frozen: true } : {}),
    ...appOptions,
  })
  try {
    await app.start()
    if (!enough(app)) await app.settled(waitMs)
    return await use({ app, config, warnings })
  } finally {
    await app.stop()
  }
}

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
