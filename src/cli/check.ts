import { failureLine } from '../app/failure-line.ts'
import { shownState } from '../catalog/owner-state.ts'
import { ignoredServerWarning } from '../config/read-servers.ts'
import { isPegboardError } from '../core/errors.ts'
import { formatCount } from '../core/format-count.ts'
import { DEFAULT_PROFILE } from '../core/profile.ts'
import { searchModelFault } from '../doctor/check-search.ts'
import { tokensOf } from '../view/listed-tools.ts'
import { readPromptSections } from '../view/prompt-sections.ts'
import type { View } from '../view/view.ts'
import { type Args, writeAnswer } from './args.ts'
import { callerForOptions, createClientReport, formatClientReport } from './client-report.ts'
import { configWarnings } from './config-warnings.ts'
import { withTypedCommands } from './invocation.ts'
import { formatTable, type Io, writeJson } from './io.ts'
import { findMissingPaths } from './missing-paths.ts'
import { describeStarting, type Session, unpinnedWarning, withApp } from './open-app.ts'

/** `pegboard check`: exit code 1 if something in the configuration cannot be used. */
export async function run(args: Args, io: Io): Promise<number> {
  const json = args.values['json'] === true
  try {
    // Warnings are part of the report.
    return await withApp(
      args,
      { ...io, stderr: (line) => line.startsWith('pegboard: warning: ') || io.stderr(line) },
      async (session) => {
        const frozen = args.values['frozen'] === true
        if (frozen) await refreshAll(session)
        const clientSession = { ...session, caller: callerForOptions(args, session.caller) }
        const report = createReport(clientSession, findMissingPaths(session.config, io.env, process.platform), frozen)
        writeAnswer(args, io, report, withTypedCommands(formatReport(report), args, io))
        return report.ok ? 0 : 1
      },
      { early: (session) => json || io.stdout(formatKnown(session)) },
    )
  } catch (error) {
    if (!json || !isPegboardError(error)) throw error
    writeJson(io, { ok: false, errors: [`${error.code}: ${error.message}`] })
    return 1
  }
}

/** The report while servers are still starting. */
function formatKnown({ app, caller }: Session): string {
  const view = app.view(caller)
  const rows = view.owners
    .map(({ id }) => [id, formatCount(view.count(id), 'tool')])
    .filter(([, tools]) => tools !== '0 tools')
  return `Known so far:\n${formatTable(rows.map((row) => ['', ...row]))}\n`
}

/** With --frozen every server is read again, because the tools on disk may be old. */
async function refreshAll({ app, config }: Session): Promise<void> {
  const ids = Object.keys(config.servers).filter((id) => config.servers[id]?.enabled)
  // The report shows servers that cannot be reached.
  await Promise.allSettled([...ids.map((id) => app.upstreams.refresh(id)), app.apis.refresh()])
}

/** Errors in the code of modules that only show when their tools are listed. The sentences name the files. */
function findModuleFaults({ catalog, loader }: Session['app'], view: View) {
  const files = new Map(loader.status().loaded.map(({ id, file }) => [id, `${file}: `]))
  const inFile = (module: string, sentence: string): string => `${files.get(module) ?? ''}${sentence}`
  const tools = catalog.snapshot().tools.flatMap(({ id, module, origin }) => {
    const { reason, failure } = view.hidden.get(id) ?? {}
    if (origin !== 'module' || failure === undefined) return []
    return [inFile(module, `clients do not see ${id}: ${reason}: ${failure}`)]
  })
  const sections: string[] = []
  readPromptSections(view, (module, error) => {
    sections.push(inFile(module, `clients do not get the prompt section of ${module}: ${error}`))
  })
  return { tools, sections }
}

type Report = ReturnType<typeof createReport>

function createReport({ app, config, caller, warnings }: Session, missing: readonly string[], frozen: boolean) {
  const searchProblem = searchModelFault(config)
  const view = app.view(caller)
  const owners = [...app.catalog.snapshot().owners.values()]
  const failing = owners.filter((owner) => ['failing', 'degraded', 'connecting', 'configured'].includes(owner.state))
  const starting = new Map(
    app.upstreams.status().flatMap((server) => (server.pending ? [[server.module, describeStarting(server)]] : [])),
  )
  const details = new Map(app.upstreams.status().map(({ module, detail }) => [module, detail]))
  const faults = findModuleFaults(app, view)
  const unusable = config.skipped.filter(({ self }) => !self)
  const errors = [
    ...app.failed().map(failureLine),
    ...faults.tools,
    ...unusable.map(({ reason }) => reason),
    ...(searchProblem === undefined ? [] : [searchProblem]),
    ...failing.map(
      (owner) =>
        `${owner.id} ${owner.reason ? `is ${shownState(owner, owner.tools.length)}: ${details.get(owner.id) ?? owner.reason}` : starting.has(owner.id) ? `${starting.get(owner.id)}; to wait longer: --wait 120` : `is ${shownState(owner, owner.tools.length)}`}`,
    ),
  ]
  const waiting = owners.flatMap(({ id, notice, quarantined }) => {
    const tools = quarantined.map(({ tool, reason }) => `${tool.id.slice(id.length + 1)} ${reason}`)
    return notice === undefined ? [] : [`${id}: ${notice} (${tools.join('; ')})`]
  })
  if (frozen) errors.push(...waiting)
  const estimateWith = (estimator: 'measured' | 'flat') => {
    const { mode, tokens } = app.explainExposure(caller, { estimator })
    return { tokens, mode }
  }
  const { mode, why, tools, tokens, budgetTokens } = app.explainExposure(caller)
  const visibleIds = new Set(view.owners.map(({ id }) => id))
  const categories = owners
    .filter(({ id }) => visibleIds.has(id))
    .map((owner) => {
      const { id } = owner
      const state = owner.state === 'ready' ? owner.state : shownState(owner, owner.tools.length)
      const ownTools = view.tools.filter((entry) => entry.tool.module === id)
      return { id, state, tools: ownTools.length, tokens: ownTools.reduce((sum, entry) => sum + tokensOf(entry), 0) }
    })
    .sort((a, b) => b.tokens - a.tokens)
  const client = caller.client && createClientReport(app, caller, mode, config.exposure.pinned)
  const skipped = new Set(unusable.map(({ reason }) => ignoredServerWarning(reason)))
  return {
    ok: errors.length === 0,
    config: config.file ?? null,
    profile: caller.profile,
    mode,
    why,
    tools,
    tokens,
    budgetTokens,
    tokensPerTool: config.exposure.tokensPerTool,
    listedTokens: app.listedTokens(caller, mode),
    estimators: { measured: estimateWith('measured'), flat: estimateWith('flat') },
    categories,
    ...(client ? { client } : {}),
    warnings: [
      ...new Set([
        ...(client?.warnings ?? []),
        ...warnings.filter((warning) => !skipped.has(warning)),
        ...[unpinnedWarning(config)].filter((warning) => warning !== undefined),
        ...faults.sections,
        ...(frozen ? [] : waiting),
        ...configWarnings(app, config, caller),
        ...missing,
      ]),
    ],
    errors,
  }
}

function formatReport(report: Report): string {
  const { measured, flat } = report.estimators
  const facts = formatTable([
    ['Configuration', report.config ?? 'none: bundled modules only'],
    ...(report.profile === DEFAULT_PROFILE ? [] : [['Profile', report.profile]]),
    ['Mode', `${report.mode}: ${report.why}`],
    ...(report.client ? formatClientReport(report.client) : []),
    [report.client ? 'It gets' : 'Clients get', `about ${report.listedTokens} tokens of definitions`],
    [
      'By length',
      `${measured.tokens} tokens for all tools: ${measured.mode} (whole definitions, 4 characters a token)`,
    ],
    ['By number', `${flat.tokens} tokens for all tools: ${flat.mode} (${report.tokensPerTool} tokens a tool)`],
  ])
  const rows = report.categories.map(({ id, tools, tokens, state }) => [
    `  ${id}`,
    formatCount(tools, 'tool'),
    `${tokens} tokens`,
    state === 'ready' ? '' : state,
  ])
  const section = (title: string, lines: readonly string[]): string =>
    lines.length > 0 ? `\n${title}\n${lines.map((line) => `  ${line}\n`).join('')}` : ''
  return [
    facts,
    rows.length > 0 ? `\nCategories\n${formatTable(rows)}` : '',
    section('Warnings', report.warnings),
    section('Errors', report.errors),
    report.ok ? (report.warnings.length > 0 ? '\nIt works, with warnings.\n' : '\nNo problems found.\n') : '',
  ].join('')
}
