import { existsSync } from 'node:fs'
import { basename } from 'node:path'
import { failureLine } from '../app/failure-line.ts'
import { mayConcern } from '../app/unmatched-rules.ts'
import { shownState } from '../catalog/owner-state.ts'
import type { Config } from '../config/load-config.ts'
import type { Caller } from '../core/caller.ts'
import { isPegboardError } from '../core/errors.ts'
import { didYouMean } from '../core/tool-names.ts'
import { searchModelFault } from '../doctor/check-search.ts'
import { compilePatterns, shortOf } from '../policy/policy-rules.ts'
import { grantFitsNone } from '../policy/token-scope.ts'
import { grantsOf } from '../server/bearer-tokens.ts'
import { moduleIds } from '../upstream/upstreams.ts'
import { tokensOf } from '../view/listed-tools.ts'
import { hasAlternatives } from '../view/portable-schema.ts'
import { type Args, readOption, writeAnswer } from './args.ts'
import { asClient, clientLines, clientReport } from './client-report.ts'

import { asTyped } from './invocation.ts'
import { formatCount, formatTable, type Io, writeJson } from './io.ts'
import { missingPaths } from './missing-paths.ts'
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
        const client = readOption(args, 'client')
        const as = client === undefined ? session : { ...session, caller: asClient(session.caller, client) }
        const report = reportOf(as, missingPaths(session.config, io.env, process.platform), frozen)
        writeAnswer(args, io, report, asTyped(reportText(report), args, io))
        return report.ok ? 0 : 1
      },
      { early: (session) => json || io.stdout(knownText(session)) },
    )
  } catch (error) {
    if (!json || !isPegboardError(error)) throw error
    writeJson(io, { ok: false, errors: [`${error.code}: ${error.message}`] })
    return 1
  }
}

/** The report while servers are still starting. */
function knownText({ app, caller }: Session): string {
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

type Report = ReturnType<typeof reportOf>

function reportOf({ app, config, caller, warnings }: Session, absences: readonly string[], frozen: boolean) {
  const searchProblem = searchModelFault(config)
  const view = app.view(caller)
  const owners = [...app.catalog.snapshot().owners.values()]
  const failing = owners.filter((owner) => ['failing', 'degraded', 'connecting', 'configured'].includes(owner.state))
  const late = new Map(
    app.upstreams.status().flatMap((one) => (one.pending ? [[one.module, describeStarting(one)]] : [])),
  )
  const details = new Map(app.upstreams.status().map(({ module, detail }) => [module, detail]))
  const unusable = config.skipped.filter(({ self }) => !self)
  const errors = [
    ...app.failed().map(failureLine),
    ...unusable.map(({ reason }) => reason),
    ...(searchProblem === undefined ? [] : [searchProblem]),
    ...failing.map(
      (owner) =>
        `${owner.id} ${owner.reason ? `is ${shownState(owner, owner.tools.length)}: ${details.get(owner.id) ?? owner.reason}` : late.has(owner.id) ? `${late.get(owner.id)}; to wait longer: --wait 120` : `is ${shownState(owner, owner.tools.length)}`}`,
    ),
  ]
  const waiting = owners.flatMap(({ id, notice, quarantined }) => {
    const tools = quarantined.map(({ tool, reason }) => `${tool.id.slice(id.length + 1)} ${reason}`)
    return notice === undefined ? [] : [`${id}: ${notice} (${tools.join('; ')})`]
  })
  if (frozen) errors.push(...waiting)
  const decide = (estimator: 'measured' | 'flat') => {
    const { mode, tokens } = app.explainExposure(caller, { estimator })
    return { tokens, mode }
  }
  const { mode, why, tools, tokens, budgetTokens } = app.explainExposure(caller)
  const seen = new Set(view.owners.map(({ id }) => id))
  const categories = owners
    .filter(({ id }) => seen.has(id))
    .map((owner) => {
      const { id } = owner
      const state = owner.state === 'ready' ? owner.state : shownState(owner, owner.tools.length)
      const own = view.tools.filter((entry) => entry.tool.module === id)
      return { id, state, tools: own.length, tokens: own.reduce((sum, entry) => sum + tokensOf(entry), 0) }
    })
    .sort((a, b) => b.tokens - a.tokens)
  const client = caller.client && clientReport(app, caller, mode, config.exposure.pinned)
  const skipped = new Set(unusable.map(({ reason }) => `${reason}; the server is ignored.`))
  return {
    ok: errors.length === 0,
    config: config.file ?? null,
    mode,
    why,
    tools,
    tokens,
    budgetTokens,
    listedTokens: app.listedTokens(caller, mode),
    estimators: { measured: decide('measured'), flat: decide('flat') },
    categories,
    ...(client ? { client } : {}),
    warnings: [
      ...new Set([
        ...(client?.warnings ?? []),
        ...warnings.filter((warning) => !skipped.has(warning)),
        ...[unpinnedWarning(config)].filter((warning) => warning !== undefined),
        ...(frozen ? [] : waiting),
        ...app.upstreams.status().flatMap(({ id, notes = [] }) => notes.map((note) => `${id}: ${note}`)),
        ...app.nameProblems(),
        ...findUnknownNames(app, config, caller),
        ...app.idleModules(caller),
        ...absences,
      ]),
    ],
    errors,
  }
}

/** Settings that name unknown tools or modules, probably misspelled. */
function findUnknownNames(app: Session['app'], config: Config, caller: Caller): string[] {
  const { tools, owners } = app.catalog.snapshot()
  const unknown = app
    .unmatchedConstraints()
    .map(({ owner, action }) => `modules.${owner}.constraints names "${action}", which is no tool of ${owner}.`)
  // Modules that failed to load are reported elsewhere.
  const failed = new Set(app.failed().flatMap(({ file }) => file.split(/[/\\.]/)))
  const modules = Object.entries(config.modules)
    .filter(([id, { enabled }]) => enabled && !owners.has(id) && !failed.has(id))
    // What is said of the tools of a server or API.
    .filter(([id, { constraints, tripwire }]) => {
      const servers = [config.servers[id] && moduleIds(config.servers).get(id), `mcp_${id}`, `api_${id}`]
      return !(constraints ?? tripwire) || !servers.some((owner) => owner !== undefined && owners.has(owner))
    })
    .map(([id]) => `modules.${id} names no loaded module${didYouMean(id, owners.keys(), '.')}`)
  const ids = tools.map((tool) => tool.id)
  const knownNames = new Set(
    tools.flatMap(({ id, name, module }) => {
      const action = id.slice(module.length + 1)
      return [id, name, action, `${shortOf(module)}.${action}`]
    }),
  )
  const switches = Object.keys(config.tools)
    .filter((name) => !(name.includes('*') ? [...knownNames].some(compilePatterns([name])) : knownNames.has(name)))
    .map((name) => `tools.${name} names no tool${didYouMean(name, ids, '.')}`)
  const view = app.view(caller)
  const pinned = config.exposure.pinned
    .filter((name) => view.resolve(name).kind !== 'found')
    .map((name) => `exposure.pinned names "${name}", which is no visible tool${didYouMean(name, ids, '.')}`)
  // The tools of a server that was left out are unknown, so a rule about them may be right.
  const denied = app
    .unmatchedRules('off')
    .filter((rule) => !config.skipped.some(({ id }) => mayConcern(rule, `mcp_${id}`)))
    .map(({ sentence }) => sentence)
  const granted = config.server.http.tokens.flatMap(({ tools: patterns = [] }, at) =>
    patterns
      .filter((pattern) => grantFitsNone(pattern, app.catalog.snapshot().owners.values()))
      .map((pattern) => `server.http.tokens.${at}.tools names ${JSON.stringify(pattern)}, which matches no tool.`),
  )
  const useless = config.server.http.tokens.flatMap(({ tools: patterns, effect }, at) => {
    const named = app.view({ ...caller, ...grantsOf({ tools: patterns }) }).size
    const isUseless =
      effect !== undefined && named > 0 && app.view({ ...caller, ...grantsOf({ tools: patterns, effect }) }).size === 0
    return isUseless
      ? [
          `server.http.tokens.${at} can use no tool: none of ${formatCount(named, 'tool')} that it names counts as "${effect}".`,
        ]
      : []
  })
  const alternatives = view.tools.filter(
    ({ input, schema = 'portable' }) => schema === 'portable' && hasAlternatives(input.json),
  )
  const refused =
    alternatives.length > 0 && app.explainExposure(caller).mode === 'direct'
      ? [
          `${alternatives.map(({ tool }) => tool.id).join(', ')}: the schema has alternatives at its top level, for which some providers refuse all tools; set exposure.schema to "strict" to merge them.`,
        ]
      : []
  const intents = [...new Set(tools.flatMap(({ intent }) => intent ?? []))]
  const triggers = Object.entries(config.profiles).flatMap(([id, { deliberate }]) =>
    Object.keys(deliberate.triggers)
      .filter((intent) => !intents.includes(intent))
      .map(
        (intent) =>
          `profiles.${id}.deliberate.triggers names "${intent}", which is no tool's intent${didYouMean(intent, intents, '.')}`,
      ),
  )
  const folder =
    config.modulesDir !== undefined && basename(config.modulesDir) !== 'modules' && !existsSync(config.modulesDir)
      ? [`modulesDir names a folder that does not exist: ${config.modulesDir}`]
      : []
  return [
    ...unknown,
    ...modules,
    ...switches,
    ...pinned,
    ...denied,
    ...granted,
    ...useless,
    ...triggers,
    ...refused,
    ...folder,
  ]
}

function reportText(report: Report): string {
  const { measured, flat } = report.estimators
  const facts = formatTable([
    ['Configuration', report.config ?? 'none: bundled modules only'],
    ['Mode', `${report.mode}: ${report.why}`],
    ...(report.client ? clientLines(report.client) : []),
    [report.client ? 'It gets' : 'Clients get', `about ${report.listedTokens} tokens of definitions`],
    ['Measured', `${measured.tokens} tokens of ${report.budgetTokens}: ${measured.mode}`],
    ['Flat', `${flat.tokens} tokens of ${report.budgetTokens}: ${flat.mode}`],
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
