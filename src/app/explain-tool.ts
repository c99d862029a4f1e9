import { actionNames, createFilters, leftOutBy } from '../catalog/naming.ts'
import { shownState } from '../catalog/owner-state.ts'
import { toolsNamed } from '../catalog/tools-named.ts'
import type { Config } from '../config/load-config.ts'
import type { Caller } from '../core/caller.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import type { Tool } from '../core/tool.ts'
import { actionOf, findNearest, removeOwnerPrefix } from '../core/tool-names.ts'
import type { WrittenText } from '../search/written-requests.ts'
import { isSearched } from '../view/exposure.ts'
import { createHiddenError, type HiddenReason, STAGES, type Stage } from '../view/visibility.ts'
import type { App } from './app.ts'
import { failureLine } from './failure-line.ts'
import { readKnownTools } from './review-desk.ts'

export interface ExplainContext {
  readonly app: Pick<App, 'explainExposure' | 'surface' | 'view' | 'catalog' | 'upstreams' | 'failed' | 'writtenText'>
  readonly config: Config
  readonly caller: Caller
}

/** Why a tool is visible or hidden for a caller. */
export interface Verdict {
  readonly tool: string
  readonly profile: string
  readonly visible: boolean
  /** The stage that hides it; `unknown` if no tool has this name. */
  readonly stage?: Stage | 'unknown'
  readonly rule?: string
  readonly setting?: string
  readonly hint?: string
  /** The stages it passed before, in order. */
  readonly passed?: readonly Stage[]
  readonly refusal?: string
  readonly names?: readonly string[]
  readonly listed?: boolean
  readonly listing?: string
  /** Condition under which it is listed. */
  readonly only?: string
  /** Approvals and rate limits of its calls, with their settings. */
  readonly calls?: readonly string[]
  /** What a language model wrote for search; only with `search.expand`. */
  readonly searchText?: WrittenText
  readonly server?: { readonly id: string; readonly state: string; readonly reason?: string }
  readonly nearest?: readonly string[]
}

/** Explains a tool by any of its names. */
export function verdictOf(session: ExplainContext, name: string): Verdict {
  const { app, caller } = session
  if (app.surface.metaNames.includes(name)) return explainMetaTool(session, name)
  const view = app.view(caller)
  const found = view.resolve(name)
  const { byId, byName } = app.catalog.snapshot()
  const namedTool = byId.get(name) ?? byName.get(name)
  // The name of a hidden tool may also be a spelling of a visible one.
  const namesHiddenTool = namedTool !== undefined && view.hidden.has(namedTool.id)
  if (found.kind === 'found' && !namesHiddenTool) return explainVisible(session, found.tool.tool)
  if (found.kind === 'ambiguous') return explainIds(session, name, found.candidates)
  return explainIds(session, name, namedTool ? [namedTool.id] : findHiddenIds(session, name))
}

function explainMetaTool({ app, caller }: ExplainContext, name: string): Verdict {
  const { mode, why } = app.explainExposure(caller)
  const listed = mode !== 'direct'
  const listing = `${listed ? `mode ${mode}` : 'in direct mode every tool is listed instead'} (${why})`
  return { tool: name, profile: caller.profile, visible: true, names: [name], listed, listing }
}

function explainVisible(session: ExplainContext, tool: Tool): Verdict {
  const searchText = session.app.writtenText(tool)
  return {
    tool: tool.id,
    profile: session.caller.profile,
    visible: true,
    ...listNames(session, tool),
    ...listingOf(session, tool),
    ...conditionOf(session, tool),
    ...guardsOf(session, tool),
    ...(searchText ? { searchText } : {}),
    ...serverOf(session, tool.module),
  }
}

/** Explains a name that does not lead to exactly one visible tool. @param ids tools that it may mean */
function explainIds(session: ExplainContext, name: string, ids: readonly string[]): Verdict {
  const { profile } = session.caller
  const [id, ...others] = ids
  if (id === undefined) return explainMissing(session, name)
  if (others.length > 0) {
    const rule = `several tools are called that: ${ids.join(', ')}`
    return { tool: name, profile, visible: false, stage: 'unknown', rule, nearest: ids }
  }
  const hidden = session.app.view(session.caller).hidden.get(id) ?? NO_SUCH_TOOL
  return {
    tool: id,
    profile,
    visible: false,
    ...describeHidden(id, hidden),
    ...serverOf(session, id.slice(0, id.indexOf('.'))),
  }
}

const NO_SUCH_TOOL: HiddenReason = { kind: 'denied', stage: 'policy', reason: 'there is no such tool' }

/** Why a tool is hidden, to be read after "hidden: ". */
export const hiddenReason = ({ kind, reason, failure }: HiddenReason): string =>
  kind === 'quarantined' ? `it ${reason}` : failure === undefined ? reason : `${reason}: ${failure}`

function describeHidden(id: string, hidden: HiddenReason): Partial<Verdict> {
  const isServers = removeOwnerPrefix(id) !== id
  const { stage, setting, hint } = hidden
  const refusal = hidden.kind === 'denied' ? undefined : createHiddenError({ id, hidden })
  return {
    stage,
    rule: hiddenReason(hidden),
    ...omitUndefined({ setting, hint }),
    passed: STAGES.slice(0, STAGES.indexOf(stage)).filter((one) => one !== (isServers ? 'backend' : 'upstream')),
    refusal: refusal ? `${refusal.code}: ${refusal.message}` : 'E_NOT_FOUND, as if it did not exist',
  }
}

/** By catalog id, with tools that wait for a review. */
export function knownTools({ catalog }: Pick<App, 'catalog'>): ReadonlyMap<string, Tool> {
  const { byId, owners } = catalog.snapshot()
  const all = new Map(byId)
  for (const { quarantined } of owners.values()) for (const { tool } of quarantined) all.set(tool.id, tool)
  return all
}

/** Ids of hidden tools with this name, in any spelling. */
const findHiddenIds = ({ app }: ExplainContext, name: string): readonly string[] => [
  ...new Set(toolsNamed(app.catalog.snapshot(), name).map(({ id }) => id)),
]

function listNames({ app, caller }: ExplainContext, tool: Tool): Partial<Verdict> {
  const view = app.view(caller)
  const { id, name, aliases } = tool
  const action = actionOf(tool)
  const spellings = [id, name, removeOwnerPrefix(id), action, ...aliases]
  const names = [...new Set(spellings)].filter((one) => {
    const found = view.resolve(one)
    return found.kind === 'found' && found.tool.tool.id === id
  })
  return { names }
}

function listingOf({ app, caller, config }: ExplainContext, tool: Tool): Partial<Verdict> {
  const { mode, why } = app.explainExposure(caller)
  const listed = app.surface.list(caller, mode).some(({ name }) => name === tool.name)
  const hasOwnPins = config.profiles[caller.profile]?.exposure.pinned !== undefined
  const pinned = `pinned by ${hasOwnPins ? `profiles.${caller.profile}.` : ''}exposure.pinned`
  const inSearchedMode = listed ? pinned : `behind ${app.surface.metaNames[0]}`
  const inListMode = mode === 'compact' ? 'by name and one line' : 'as a whole'
  return { listed, listing: `${isSearched(mode) ? inSearchedMode : inListMode}; mode ${mode} (${why})` }
}

/** For a tool that is listed only after certain messages, if no message was given. */
const conditionOf = ({ caller, config }: ExplainContext, { intent }: Tool): Partial<Verdict> =>
  intent !== undefined && !caller.turn && config.profiles[caller.profile]?.deliberate.enabled
    ? { only: `when a message asks for it (${intent}); to try one: --message "…"` }
    : {}

function guardsOf({ app, caller }: ExplainContext, tool: Tool): Partial<Verdict> {
  const { policy } = app.view(caller)
  const decision = policy.decide(tool, caller)
  const calls = [
    ...(decision.allow && decision.ask ? [`each needs the approval of a person (${decision.ask.setting})`] : []),
    ...policy.rates
      .filter((rate) => rate.matches(tool))
      .map(({ perMinute, setting }) => `${perMinute} a minute (${setting})`),
  ]
  return calls.length > 0 ? { calls } : {}
}

/** State of the server, if it is not running well. */
function serverOf({ app }: ExplainContext, module: string): Partial<Verdict> {
  const owner = app.catalog.snapshot().owners.get(module)
  if (owner?.origin !== 'upstream') return {}
  const { reason } = owner
  const state = shownState(owner, owner.tools.length)
  return { server: { id: module, state, ...(reason === undefined ? {} : { reason }) } }
}

type Missing = Pick<Verdict, 'stage' | 'rule' | 'setting' | 'nearest'>

/** Why a tool is not in the catalog: a setting, its server or module, or an unknown name. */
function explainMissing(session: ExplainContext, name: string): Verdict {
  const dotted = name.replace(FIRST_SEPARATOR, '.')
  const missing =
    explainByServer(session, dotted) ?? explainByCategory(session, dotted) ?? explainUnknown(session, dotted)
  return { tool: name, profile: session.caller.profile, visible: false, ...missing }
}

/** Explains a tool of a configured server: a setting disables it, or its tools are unknown. */
function explainByServer(session: ExplainContext, dotted: string): Missing | undefined {
  for (const [id, settings] of Object.entries(session.config.servers)) {
    const { ownerName, action } = splitName(dotted, id, settings)
    const ownName = readOfferedTools(session, id).get(action)
    if (ownName === undefined && ownerName === undefined) continue
    if (!settings.enabled) return { stage: 'upstream', rule: `its server is switched off by ${settings.where}` }
    const filter = ownName === undefined ? undefined : leftOutBy(createFilters(settings), ownName)
    if (filter !== undefined) {
      const setting = `${settings.where}.${filter}`
      return { stage: 'upstream', rule: `left out by ${setting}`, setting }
    }
    if (ownerName === undefined) continue
    const status = session.app.upstreams.status().find((server) => server.id === id)
    if (status && status.tools === 0) {
      const reason = status.detail ?? status.reason
      return { stage: 'upstream', rule: `the tools of mcp_${id} are not known${reason ? `: ${reason}` : ' yet'}` }
    }
  }
  return undefined
}

/** Says why the server, API or module that the name begins with has no tools. */
function explainByCategory({ app, config }: ExplainContext, dotted: string): Missing | undefined {
  const [category = ''] = dotted.split('.')
  const skipped = config.skipped.find(({ id }) => id === category || `mcp_${id}` === category)
  if (skipped) return { stage: 'upstream', rule: skipped.reason }
  const missing = config.missing[`modules.${category}`] ?? config.missing[`openapi.${category.replace(/^api_/, '')}`]
  if (missing !== undefined) return { stage: category.startsWith('api_') ? 'upstream' : 'backend', rule: missing }
  const isOff = Object.hasOwn(config.modules, category) && config.modules[category]?.enabled === false
  if (dotted.includes('.') && isOff) {
    const setting = `modules.${category}.enabled`
    return { stage: 'policy', rule: `its module is switched off by ${setting}`, setting }
  }
  const failed = app.failed().find(({ file }) => file.split(/[/\\.]/).includes(category))
  return failed && { stage: 'backend', rule: `its module could not be loaded: ${failureLine(failed)}` }
}

function explainUnknown({ app, config }: ExplainContext, dotted: string): Missing {
  const server = Object.keys(config.servers).find((id) => id === dotted || `mcp_${id}` === dotted)
  if (server !== undefined) return { stage: 'unknown', rule: 'it is a server, not a tool: see pegboard list servers' }
  const action = dotted.slice(dotted.indexOf('.') + 1)
  // Three edits turn any name of three letters into any other.
  const maxEdits = Math.max(1, Math.floor(action.length / 3))
  const ids = app.catalog.snapshot().tools.map(({ id }) => id)
  const nearest = findNearest(dotted, ids, maxEdits)
  return {
    stage: 'unknown',
    rule: 'there is no tool with this name; pegboard list --hidden shows all tools',
    nearest,
  }
}

const FIRST_SEPARATOR = /__|::|:|\//

/** The name of the server that a name begins with, if it does, and the rest. */
function splitName(dotted: string, id: string, { prefix }: Pick<Config['servers'][string], 'prefix'>) {
  const ownerName = [`mcp_${id}`, id, prefix].find((one) => one !== '' && dotted.startsWith(`${one}.`))
  return { ownerName, action: ownerName === undefined ? dotted : dotted.slice(ownerName.length + 1) }
}

/** A tool that `allow` or `deny` of its server leaves out. */
export interface LeftOutTool {
  readonly id: string
  readonly setting: string
}

/** The tool with this name that a running server offers and its settings leave out. */
export function findLeftOut(
  servers: Config['servers'],
  offeredBy: (id: string) => readonly string[],
  name: string,
): LeftOutTool | undefined {
  const dotted = name.replace(FIRST_SEPARATOR, '.')
  for (const [id, settings] of Object.entries(servers)) {
    const filters = createFilters(settings)
    if (!settings.enabled || filters.length === 0) continue
    const { action } = splitName(dotted, id, settings)
    const ownName = indexOwnNames(offeredBy(id), settings).get(action)
    const filter = ownName === undefined ? undefined : leftOutBy(filters, ownName)
    if (filter !== undefined) return { id: `mcp_${id}.${action}`, setting: `${settings.where}.${filter}` }
  }
  return undefined
}

/** Own names of the tools that a server offers or offered last, as `indexOwnNames` has them. Empty for a server that was never read. */
function readOfferedTools({ app, config }: ExplainContext, id: string): ReadonlyMap<string, string> {
  const settings = config.servers[id] as Config['servers'][string]
  const running = app.upstreams.offered(id)
  const names = running.length > 0 ? running : (readKnownTools(config, settings) ?? []).map(({ name }) => name)
  return indexOwnNames(names, settings)
}

/** Own names of tools, by the own name and by the last part of the id. */
function indexOwnNames(names: readonly string[], settings: Config['servers'][string]): ReadonlyMap<string, string> {
  const actions = actionNames(names, settings)
  return new Map(names.flatMap((own) => [[own, own] as const, [actions.get(own) ?? own, own] as const]))
}

/** A verdict as lines for people: pairs of a label and a text. */
export function verdictRows(verdict: Verdict): readonly (readonly [label: string, text: string])[] {
  const { profile, stage, rule, passed, server, names, listed, listing } = verdict
  const written = verdict.searchText && [verdict.searchText.when, ...verdict.searchText.requests].filter(Boolean)
  const rows: readonly (readonly [label: string, text: string | undefined])[] = [
    ['Profile', profile],
    [stage === 'unknown' ? 'Unknown' : 'Hidden because', stage && (rule ?? '')],
    ['Checks passed', passed?.join(', ') || undefined],
    ['Setting', verdict.setting],
    ['To do', verdict.hint],
    ['Clients get', verdict.refusal],
    ['Called as', names?.join(', ')],
    ['Listed', listed === undefined ? undefined : `${listed ? 'yes' : 'no'}: ${listing}`],
    ['Only', verdict.only],
    ['Calls', verdict.calls?.join('; ')],
    ['Found by', written && `${written.join(' · ')} (written by a model)`],
    ['Server', server && `${server.id} is ${server.state}${server.reason ? `: ${server.reason}` : ''}`],
    ['Perhaps', verdict.nearest?.join(', ') || undefined],
  ]
  return rows.flatMap(([label, text]) => (text === undefined ? [] : [[label, text] as const]))
}
