import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import type { App } from '../app/app.ts'
import type { Config } from '../config/load-config.ts'
import type { Environment } from '../config/machine.ts'
import type { Clock } from '../core/clock.ts'
import { isPegboardError, messageOf } from '../core/errors.ts'
import { formatCount } from '../core/format-count.ts'
import { quoteWord } from '../core/quote-word.ts'
import { waitAtMost } from '../core/wait-at-most.ts'
import { findErrorLine } from '../upstream/error-reasons.ts'
import { mayInstall } from '../upstream/package-download.ts'
import { unpinnedPackage } from '../upstream/unpinned-package.ts'
import { describeReach, type ServerSettings } from '../upstream/upstream-settings.ts'
import type { Finding, FindingCode, Reporter } from './findings.ts'
import { serverFault } from './server-fault.ts'

export interface ServerChecks {
  readonly app: App
  readonly config: Config
  readonly env: Environment
  readonly home: string
  readonly clock: Clock
  readonly timeoutMs: number
  /** How much longer a server may take that may be downloading. */
  readonly downloadMs: number
  readonly report: Reporter
}

/** Entries of servers that cannot be used. @param only names of servers; empty for all */
export function checkSkipped({ skipped }: Config, only: readonly string[], report: Reporter): void {
  for (const { id, reason, self } of skipped) {
    if (only.length > 0 && !only.includes(id)) continue
    const about = `server ${id}`
    const secret = /needs the secret ([^\s,]+), which is not set/.exec(reason)?.[1]
    const isUnset = secret !== undefined || /needs the environment variable/.test(reason)
    if (self) report.passed({ about, message: 'left out: it is this Pegboard' })
    else
      report.found({
        code: isUnset ? 'variable-missing' : 'server-entry-invalid',
        about,
        message: `${reason}.`,
        ...(secret === undefined ? {} : { fix: `pegboard secret set ${secret}` }),
      })
  }
}

/** Entries of modules and APIs that need a variable. */
export function checkMissing({ missing }: Config, report: Reporter): void {
  for (const [key, reason] of Object.entries(missing))
    report.found({ code: 'variable-missing', about: key, message: `${reason}.` })
}

/** Starts all servers at once and reads their lists. */
export async function checkServers(checks: ServerChecks, ids: readonly string[]): Promise<void> {
  const faults = await Promise.all(ids.map((id) => checkServer(checks, id)))
  // A package that does not exist has no version to choose.
  reportUnpinned(
    checks,
    ids.filter((_id, index) => faults[index] !== 'server-package-missing'),
  )
}

function reportUnpinned({ config, report }: ServerChecks, ids: readonly string[]): void {
  const unpinned = ids.flatMap((id) => {
    const settings = config.servers[id] as ServerSettings
    const name = unpinnedPackage(settings)
    return name === undefined ? [] : [{ id, where: settings.where, name }]
  })
  const [first] = unpinned
  if (!first) return
  const names = unpinned.map(({ where, name }) => `${where} (${name})`).join(', ')
  report.found({
    code: 'server-unpinned',
    ...(unpinned.length === 1
      ? { about: `server ${first.id}`, message: `${first.where} runs the newest version of ${first.name}.` }
      : { about: 'servers', message: `these run the newest version of a package: ${names}.` }),
  })
}

/** @returns why the server does not work */
async function checkServer(checks: ServerChecks, id: string): Promise<FindingCode | undefined> {
  const { app, config, report } = checks
  const about = `server ${id}`
  const settings = config.servers[id] as ServerSettings
  const needs = missingNeed(settings, checks)
  if (needs) report.found({ ...needs, about })
  const fault = await connectFault(checks, id)
  const status = app.upstreams.status().find((one) => one.id === id)
  if (fault !== undefined) {
    // The words of the server stay as they are.
    const message = (status?.detail ?? status?.reason ?? fault).replace(/\.$/, '')
    // A server that waits for another one says so only on stderr.
    const words = /^no answer within [\d.]+ s$/.test(message)
      ? findErrorLine(app.upstreams.stderrTail(id), false)
      : undefined
    const reason = words === undefined ? message : `${message}; it printed: ${words}`
    const { target } = settings
    const code = serverFault({
      reason,
      isRemote: target.kind !== 'stdio',
      hasHeaders: target.kind !== 'stdio' && Object.keys(target.headers).length > 0,
    })
    if (needs?.code === code) return code
    const fix = code === 'server-login' ? { fix: `pegboard auth ${quoteWord(id)}` } : {}
    report.found({ code, about, message: `${reason}.`, ...fix })
    return code
  }
  const owner = status && app.catalog.snapshot().owners.get(status.module)
  const waiting = owner?.quarantined.length ?? 0
  if (waiting > 0)
    report.found({
      code: 'tools-waiting',
      about,
      message: `${waiting === 1 ? '1 tool waits' : `${waiting} tools wait`} for a review.`,
      fix: `pegboard review ${quoteWord(id)}`,
    })
  const tools = owner?.tools.length ?? 0
  if (tools + waiting === 0) report.found({ code: 'server-lists-nothing', about, message: 'It has no tools.' })
  else
    report.passed({
      about,
      message: `answers, ${formatCount(tools, 'tool')}; may touch: ${describeReach(settings)}`,
    })
  return undefined
}

/** Why a server does not answer or list; undefined if it does. */
async function connectFault(checks: ServerChecks, id: string): Promise<string | undefined> {
  const { app, config, clock, timeoutMs, report } = checks
  const downloadMs = mayInstall(config.servers[id] as ServerSettings) ? checks.downloadMs : 0
  const waitMs = timeoutMs + downloadMs
  const startedAt = clock.now()
  const stopNotice =
    downloadMs === 0
      ? () => undefined
      : clock.after(timeoutMs, () =>
          report.waiting(`waiting up to ${downloadMs / 1_000} s more for ${id}, which may still be downloading`),
        )
  try {
    for (;;) {
      const restMs = startedAt + waitMs - clock.now()
      if (restMs <= 0) return `no answer within ${waitMs / 1_000} s`
      const fault = await waitAtMost(restMs, refreshFault(app, id), () => STILL_CONNECTING, clock)
      // A call gives up earlier than this check.
      if (fault === undefined || !fault.endsWith(STILL_CONNECTING)) return fault
    }
  } finally {
    stopNotice()
  }
}

/** The end of the error of a call that waited for a server long enough, while the server still starts. */
const STILL_CONNECTING = ' is still connecting.'

const refreshFault = (app: App, id: string): Promise<string | undefined> =>
  app.upstreams.refresh(id).then(
    () => undefined,
    (error: unknown) =>
      isPegboardError(error) && error.code === 'E_AUTH_REQUIRED' ? 'it requires a login' : messageOf(error),
  )

const BROWSER = /(?:^|[^a-z])(?:playwright|puppeteer|chrome-devtools|selenium|browsermcp)(?:[^a-z]|$)/i
const BROWSERS = [
  'google-chrome',
  'google-chrome-stable',
  'chromium',
  'chromium-browser',
  'chrome',
  'firefox',
  'msedge',
]
const BROWSER_FOLDERS = [
  '.cache/ms-playwright',
  '.cache/puppeteer',
  'Library/Caches/ms-playwright',
  'AppData/Local/ms-playwright',
]
const BROWSER_APPS = ['/Applications/Google Chrome.app', 'C:\\Program Files\\Google\\Chrome\\Application\\chrome.exe']
const CLUSTER = /(?:^|[^a-z])(?:kubernetes|kubectl|k8s|helm|openshift)(?:[^a-z]|$)/i

/** What a local server needs besides its program; many fail only when a tool is called. */
function missingNeed(
  { target }: ServerSettings,
  { env, home }: ServerChecks,
): Pick<Finding, 'code' | 'message'> | undefined {
  if (target.kind !== 'stdio') return undefined
  const words = [target.command, ...target.args].join(' ')
  const all = { ...env, ...target.env }
  if (BROWSER.test(words) && !target.args.some((word) => /cdp|endpoint|executable/i.test(word))) {
    const folders = (all['PATH'] ?? '').split(delimiter).filter(Boolean)
    const found =
      all['PLAYWRIGHT_BROWSERS_PATH'] !== undefined ||
      all['PUPPETEER_EXECUTABLE_PATH'] !== undefined ||
      folders.some((folder) => BROWSERS.some((name) => existsSync(join(folder, name)))) ||
      BROWSER_FOLDERS.some((folder) => existsSync(join(home, folder))) ||
      BROWSER_APPS.some((app) => existsSync(app))
    if (!found) return { code: 'server-needs-browser', message: 'It drives a browser, and no browser was found.' }
  }
  if (CLUSTER.test(words)) {
    const files = (all['KUBECONFIG'] ?? join(home, '.kube', 'config')).split(delimiter)
    if (!files.some((file) => existsSync(file)) && all['KUBERNETES_SERVICE_HOST'] === undefined)
      return { code: 'server-needs-cluster', message: `There is no configuration of a cluster: ${files.join(', ')}.` }
  }
  return undefined
}
