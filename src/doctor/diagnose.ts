import type { App } from '../app/app.ts'
import { parseJsonc } from '../config/jsonc.ts'
import type { Config, LoadedConfig } from '../config/load-config.ts'
import { homeOf } from '../config/machine.ts'
import { raceAbort } from '../core/abort.ts'
import { isPegboardError, messageOf } from '../core/errors.ts'
import { asRecord } from '../core/is-record.ts'
import { moduleIds } from '../upstream/upstreams.ts'
import { checkFiles } from './check-files.ts'
import { checkCertificates, checkNode, checkProxies } from './check-machine.ts'
import { checkPort } from './check-port.ts'
import { checkLlm, checkSearch } from './check-search.ts'
import { checkMissing, checkServers, checkSkipped, type ServerChecks } from './check-servers.ts'
import type { FindingCode, Reporter } from './findings.ts'

export interface DiagnoseOptions extends Pick<ServerChecks, 'env' | 'clock' | 'timeoutMs' | 'downloadMs' | 'report'> {
  /** Reads the configuration. @throws PegboardError E_CONFIG_* */
  load(): Promise<LoadedConfig>
  /** Creates the app without starting it. */
  open(config: Config): Promise<App>
  /** Settings without effect, as sentences. */
  configWarnings(app: App, config: Config): readonly string[]
  /** What clients see, as sentences. */
  clientLimits(app: App, config: Config): readonly string[]
  /** Names or ids of the servers to check; empty for all. */
  readonly only: readonly string[]
  readonly nodeVersion: string
  /** Ends the checks that need an app, with its reason. */
  readonly signal: AbortSignal
}

/** Checks everything that Pegboard depends on. Reports findings as they arrive. */
export async function diagnose(options: DiagnoseOptions): Promise<void> {
  const { env, report, nodeVersion } = options
  const all = options.only.length === 0
  if (all) {
    checkNode(nodeVersion, report)
    await checkCertificates(env, report)
  }
  const loaded = await loadOrReport(options)
  if (!loaded) return
  const { config } = loaded
  const only = options.only.flatMap((name) => findServer(name, config) ?? [])
  const chosen = Object.keys(config.servers).filter((id) => all || only.includes(id))
  const ids = chosen.filter((id) => config.servers[id]?.enabled)
  for (const id of chosen.filter((id) => !ids.includes(id)))
    report.passed({ about: `server ${id}`, message: 'disabled in the configuration, so not checked' })
  checkSkipped(config, only, report)
  if (!all)
    return void (await withStarted(options, config, (app) => checkServers(serverChecks(options, app, config), ids)))
  reportWarnings(loaded, report)
  checkMissing(config, report)
  const { host, port } = config.server.http
  const hasRemote = ids.some((id) => config.servers[id]?.target.kind !== 'stdio')
  await Promise.all([
    checkFiles(config, report),
    checkPort(host, port, namesPort(loaded), report),
    checkProxies(env, hasRemote, report),
    checkLlm(config, report),
    withStarted(options, config, (app) => checkApp(options, app, config, ids)),
  ])
}

/** The server with this name or id, such as `git` or `mcp_git`. */
export function findServer(name: string, { servers, skipped }: Config): string | undefined {
  const modules = moduleIds(servers)
  const names = [...Object.keys(servers), ...skipped.map(({ id }) => id)]
  return names.find((one) => one === name) ?? names.find((one) => (modules.get(one) ?? `mcp_${one}`) === name)
}

function namesPort({ text }: LoadedConfig): boolean {
  const { server } = asRecord(text === undefined ? undefined : parseJsonc(text).value)
  return asRecord(asRecord(server)['http'])['port'] !== undefined
}

const CONFIG_CODES: Readonly<Record<string, FindingCode>> = {
  E_CONFIG_MISSING: 'config-missing',
  E_CONFIG_SYNTAX: 'config-syntax',
  E_CONFIG_WRITABLE: 'config-unsafe',
}

async function loadOrReport({ load, report }: DiagnoseOptions): Promise<LoadedConfig | undefined> {
  const about = 'configuration'
  try {
    const loaded = await load()
    report.passed({ about, message: loaded.config.file ?? 'none: bundled modules only' })
    return loaded
  } catch (error) {
    if (!isPegboardError(error) || !error.code.startsWith('E_CONFIG_')) throw error
    const message = error.message.trim()
    const isUnset = /needs the environment variable/.test(message)
    const code = isUnset ? 'variable-missing' : (CONFIG_CODES[error.code] ?? 'config-invalid')
    report.found({ code, about, message })
    return undefined
  }
}

/** Warnings that no other finding contains. */
function reportWarnings({ config, warnings }: LoadedConfig, report: Reporter): void {
  const elsewhere = [...config.skipped.map(({ reason }) => reason), ...Object.values(config.missing)]
  for (const message of warnings)
    if (!elsewhere.some((reason) => message.startsWith(reason)) && !/is not safe: /.test(message))
      report.found({ code: 'config-warning', about: 'configuration', message })
}

const serverChecks = ({ env, clock, timeoutMs, downloadMs, report }: DiagnoseOptions, app: App, config: Config) => ({
  ...{ app, config, env, clock, timeoutMs, downloadMs, report },
  home: env['HOME'] || homeOf({ env, cwd: '/' }),
})

async function withStarted(
  { open, report, signal }: DiagnoseOptions,
  config: Config,
  work: (app: App) => Promise<void>,
): Promise<void> {
  const app = await open(config)
  try {
    await app.start()
    await raceAbort(work(app), signal)
  } catch (error) {
    if (!isPegboardError(error) || error.code !== 'E_STATE') throw error
    report.found({ code: 'state-unreachable', about: 'state', message: messageOf(error) })
  } finally {
    await app.stop()
  }
}

async function checkApp(options: DiagnoseOptions, app: App, config: Config, ids: readonly string[]): Promise<void> {
  const { report } = options
  const checks = serverChecks(options, app, config)
  for (const failed of app.failed())
    report.found({ code: 'module-failed', about: `module ${failed.file}`, message: failed.error })
  await checkServers(checks, ids)
  for (const { id, state, reason, module } of app.apis.status()) {
    if (reason !== undefined && state !== 'ready')
      report.found({ code: 'api-failed', about: `API ${id}`, message: `${reason}.` })
    else
      report.passed({
        about: `API ${id}`,
        message: `${app.catalog.snapshot().owners.get(module)?.tools.length ?? 0} operations`,
      })
  }
  for (const message of new Set(options.configWarnings(app, config)))
    report.found({ code: 'config-warning', about: 'configuration', message })
  await checkSearch(checks)
  for (const message of options.clientLimits(app, config))
    report.found({ code: 'client-limits', about: 'clients', message })
}
