import type { App } from '../app/app.ts'
import type { Config } from '../config/load-config.ts'
import { localCaller } from '../core/caller.ts'
import { systemClock } from '../core/clock.ts'
import { formatCount } from '../core/format-count.ts'
import { groupBy } from '../core/group-by.ts'
import { silentLog } from '../core/log.ts'
import { didYouMean } from '../core/tool-names.ts'
import { diagnose, findServer } from '../doctor/diagnose.ts'
import {
  exitOf,
  type Finding,
  type FindingExit,
  fixOf,
  type PassedCheck,
  pageOf,
  worstExit,
} from '../doctor/findings.ts'
import { clientFacts } from '../view/client-table.ts'
import { type Args, readInteger, readOption } from './args.ts'
import { callerForClient, createClientReport } from './client-report.ts'
import { configWarnings } from './config-warnings.ts'
import { withTypedCommands } from './invocation.ts'
import { type Io, UsageError, writeJson } from './io.ts'
import { findMissingPaths } from './missing-paths.ts'
import { offline, openApp, openConfig, openLog } from './open-app.ts'

const DOWNLOAD_WAIT_MS = 60_000

/** `pegboard doctor [server …]`. Exit code 0: good; 10: retry later; 11: a person must act; 12: wrong set-up. */
export async function run(args: Args, io: Io): Promise<number> {
  const json = args.values['json'] === true
  const timeoutMs = readInteger(args, 'timeout', 1, 600, 30) * 1_000
  const problems: Finding[] = []
  /** Printed last, so that they do not hide problems. */
  const notes: Finding[] = []
  const passed: PassedCheck[] = []
  const print = (text: string): void => {
    // The checks that a signal interrupted fail while the app stops.
    if (!json && !io.stop.aborted) io.stdout(withTypedCommands(text, args, io))
  }
  await diagnose({
    load: async () => {
      // Warnings are findings.
      const loaded = await openConfig(args, {
        ...io,
        stderr: (line) => line.includes(': warning: ') || io.stderr(line),
      })
      assertServers(args.positionals, loaded.config)
      return loaded
    },
    open: (config) =>
      openApp(config, args.values['verbose'] === true ? openLog(args, io, 'error', config.log.format) : silentLog, io, {
        connectDelayMs: { ...offline.connectDelayMs, cold: 0 },
      }),
    // It reports the programs and folders of servers when it starts them.
    configWarnings: (app, config) => [
      ...configWarnings(app, config, localCaller),
      ...findMissingPaths({ ...config, servers: {} }, io.env, process.platform),
    ],
    clientLimits: findClientLimits,
    only: args.positionals,
    env: io.env,
    nodeVersion: process.version,
    signal: io.stop,
    clock: systemClock,
    timeoutMs,
    downloadMs: readOption(args, 'timeout') === undefined ? DOWNLOAD_WAIT_MS : 0,
    report: {
      waiting: (message) => io.stderr(`pegboard: ${message}\n`),
      found(finding) {
        if (exitOf(finding) === 0) notes.push(finding)
        else {
          problems.push(finding)
          print(formatFinding(finding))
        }
      },
      passed(finding) {
        passed.push(finding)
        print(`ok      ${finding.about}: ${finding.message}\n`)
      },
    },
  })
  for (const note of notes) print(formatFinding(note))
  const exit = worstExit(problems)
  if (json)
    writeJson(io, {
      ok: exit === 0,
      exit,
      findings: [...problems, ...notes].map((finding) => ({
        code: finding.code,
        level: LEVELS[exitOf(finding)],
        about: finding.about,
        message: finding.message,
        fix: fixOf(finding),
        page: pageOf(finding),
      })),
      passed,
    })
  else print(`\n${formatSummary(problems.length, notes.length, exit)}\n`)
  return exit
}

function assertServers(names: readonly string[], config: Config): void {
  const unknown = names.find((name) => findServer(name, config) === undefined)
  if (unknown === undefined) return
  const ids = [...Object.keys(config.servers), ...config.skipped.map(({ id }) => id)]
  const known = ids.length > 0 ? `; servers: ${ids.join(', ')}` : '; no server is configured'
  throw new UsageError(`there is no server "${unknown}"${didYouMean(unknown, ids, known)}`)
}

const LEVELS: Readonly<Record<FindingExit, string>> = { 0: 'note', 10: 'retry', 11: 'person', 12: 'wrong' }

const formatFinding = (finding: Finding): string =>
  [
    `${LEVELS[exitOf(finding)].padEnd(6)}  ${finding.about}: ${finding.message}\n`,
    `        fix: ${fixOf(finding)}\n`,
    `        ${finding.code}: ${pageOf(finding)}\n`,
  ].join('')

function formatSummary(problems: number, notes: number, exit: FindingExit): string {
  const noteCount = notes === 0 ? '' : `, ${formatCount(notes, 'note')}`
  if (exit === 0) return `Everything works${noteCount}.`
  const next = { 10: 'Try again later', 11: 'A person must act', 12: 'The set-up is wrong' }[exit]
  return `${next}: ${formatCount(problems, 'problem')}${noteCount}.`
}

/** What known and configured clients do not show, as sentences. */
function findClientLimits(app: App, config: Config): readonly string[] {
  const names = [...new Set([...Object.keys(clientFacts), ...Object.keys(config.clients)])].filter(
    (name) => !name.includes('*'),
  )
  const all = names.flatMap((name) => {
    const caller = callerForClient(localCaller, name)
    const { mode } = app.explainExposure(caller)
    return createClientReport(app, caller, mode, config.exposure.pinned)
      .warnings.filter((warning) => !warning.startsWith('Pegboard knows no client'))
      .map((warning) => ({ name, warning }))
  })
  return [...groupBy(all, ({ warning }) => warning)].map(
    ([warning, clients]) => `${clients.map(({ name }) => name).join(', ')}: ${warning}`,
  )
}
