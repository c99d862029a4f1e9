import type { Snapshot } from '../catalog/catalog.ts'
import type { Owner } from '../catalog/owner.ts'
import type { Caller } from '../core/caller.ts'
import { messageOf } from '../core/errors.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import { once } from '../core/once.ts'
import type { NameOf, Tool } from '../core/tool.ts'
import { distinctName, WIRE_NAME_MAX } from '../core/tool-names.ts'
import { assemble } from './assemble-tools.ts'
import type { SchemaStyle } from './portable-schema.ts'
import { applyReplacements, type ViewDraft } from './replacement.ts'
import { expandMacros, hasMacros } from './text-macros.ts'
import type { View, ViewTool } from './view.ts'
import type { ViewRules } from './view-rules.ts'
import { checkVisibility, type HiddenReason } from './visibility.ts'

/** Reports why a tool is hidden although its owner offers it. `tool` is empty if it concerns all tools of servers. */
export type Warn = (tool: string, why: string, message?: string) => void

/** For whom tools are merged, and how. */
export interface MergeScope {
  readonly caller: Caller
  readonly rules: ViewRules
  /** The owners that the caller may see. */
  readonly owners: readonly Owner[]
  /** Intents whose tools are offered now; undefined: all. */
  readonly offered: readonly string[] | undefined
  readonly listingLimits: ListingLimits
  readonly warn: Warn
}

/** Limits of the client for listed tools. */
export interface ListingLimits {
  readonly schema: SchemaStyle
  readonly listsOutput: View['listsOutput']
  /** In characters. */
  readonly maxNameLength: number
  isTaken(name: string): boolean
}

/** The tools that a caller sees, and those that it does not. */
export interface MergedTools {
  readonly tools: readonly ViewTool[]
  readonly byId: ReadonlyMap<string, ViewTool>
  readonly hidden: ReadonlyMap<string, HiddenReason>
  /** Ids by shortened names. */
  readonly short: ReadonlyMap<string, string>
}

/**
 * Checks the visibility of each tool, then compares the visible ones and assembles them. If that fails with the tools
 * of servers, the caller gets those of modules only.
 * @param nameOfOthers returns the names of tools that are not in `allTools`; default none
 */
export function mergeTools(
  allTools: readonly Tool[],
  scope: MergeScope,
  nameOfOthers: NameOf = () => undefined,
): MergedTools {
  try {
    return merge(allTools, scope, nameOfOthers)
  } catch (error) {
    scope.warn('', messageOf(error))
    const ofModules = allTools.filter(({ origin }) => origin === 'module')
    return merge(ofModules, scope, nameOfOthers)
  }
}

function merge(allTools: readonly Tool[], scope: MergeScope, nameOfOthers: NameOf): MergedTools {
  const { caller, rules, owners, offered, listingLimits, warn } = scope
  const { schema, listsOutput, maxNameLength, isTaken } = listingLimits
  const hidden = new Map<string, HiddenReason>()
  const hide = (id: string, why: HiddenReason): void => {
    hidden.set(id, why)
    if (why.failure !== undefined) warn(id, `${why.reason}: ${why.failure}`)
  }
  const allowed = new Map<string, Tool>()
  const ids = once(() => new Set(allTools.map(({ id }) => id)))
  for (const tool of allTools) {
    const visibility = checkVisibility(tool, caller, rules)
    if ('hidden' in visibility) hide(tool.id, visibility.hidden)
    else if (visibility.tool.id !== tool.id && !addNew(ids(), visibility.tool.id))
      hide(tool.id, createAliasTakenReason(visibility.tool))
    else allowed.set(tool.id, visibility.tool)
  }
  const shorter = createShortNames(allowed, maxNameLength, isTaken)
  const byId = new Map<string, ViewTool>()
  for (const [id, tool] of allowed) {
    const name = shorter.get(id)
    byId.set(id, unchangedEntry(name === undefined ? tool : withName(tool, name), listingLimits))
  }
  applyReplacements({ tools: [...byId.values()], byId, hidden }, owners, rules, (tool, why) =>
    warn(tool, why, 'a tool of a profile is left out'),
  )
  if (offered !== undefined)
    for (const [id, { tool }] of byId) {
      if (tool.intent === undefined || offered.includes(tool.intent)) continue
      byId.delete(id)
      hide(id, createNotRequestedReason(tool.intent))
    }

  const nameOf = (id: string): string | undefined => byId.get(id)?.tool.name ?? nameOfOthers(id)
  const tools: ViewTool[] = []
  for (const [id, entry] of byId) {
    const { tool } = entry
    const assembled = assemble(tool, caller, nameOf, rules.profile)
    if ('hidden' in assembled) {
      byId.delete(id)
      hide(id, assembled.hidden)
      continue
    }
    const finalEntry = assembled.draft === tool ? entry : { tool, schema, listsOutput, ...assembled.draft }
    if (finalEntry !== entry) byId.set(id, finalEntry)
    tools.push(finalEntry)
  }
  tools.sort((a, b) => (a.tool.module < b.tool.module ? -1 : a.tool.module > b.tool.module ? 1 : 0))
  expandDescriptions({ tools, byId, hidden }, owners)
  return { tools, byId, hidden, short: new Map([...shorter].map(([id, name]) => [name, id])) }
}

const addNew = (ids: Set<string>, id: string): boolean => !ids.has(id) && ids.add(id).size > 0

/** The only allowed alias of the tool is the name of another tool, which has priority. */
const createAliasTakenReason = ({ id }: Tool): HiddenReason => ({
  kind: 'denied',
  stage: 'policy',
  reason: `the rules allow it only as ${id}, which is the name of another tool`,
})

const createNotRequestedReason = (intent: string): HiddenReason => ({
  kind: 'unavailable',
  stage: 'deliberate',
  reason: `it is offered only when a message asks for it (${intent}), and this one does not`,
})

/** Descriptions of modules may contain macros for tools, which have other names for each caller. */
function expandDescriptions({ tools, byId }: ViewDraft, owners: readonly Owner[]): void {
  for (const [at, entry] of tools.entries()) {
    const { tool } = entry
    // The description of a server's tool is not read, because that would parse its definition.
    if (tool.origin !== 'module' || !hasMacros(entry.description)) continue
    const { input, schema, listsOutput } = entry
    const description = expandMacros(entry.description, { tools, owners })
    const expanded = { tool, description, input, ...omitUndefined({ schema, listsOutput }) }
    tools[at] = expanded
    byId.set(tool.id, expanded)
  }
}

export interface QuarantinedTools {
  /** Why each is hidden, by id. */
  readonly hidden: ReadonlyMap<string, HiddenReason>
  /** Ids by all of their names. */
  readonly names: ReadonlyMap<string, string>
}

/** Tools that wait for a review. A caller who may not use one does not learn about it. */
export function quarantinedTools({ owners }: Snapshot, caller: Caller, rules: ViewRules): QuarantinedTools {
  const hidden = new Map<string, HiddenReason>()
  const names = new Map<string, string>()
  for (const { quarantined } of owners.values())
    for (const { tool, ...why } of quarantined) {
      const visibility = checkVisibility(tool, caller, rules)
      const mayLearn = 'tool' in visibility || visibility.hidden.kind === 'unavailable'
      hidden.set(tool.id, mayLearn ? { kind: 'quarantined', stage: 'upstream', ...why } : visibility.hidden)
      for (const name of [tool.id, tool.name, tool.id.replace(/^mcp_/, '')]) names.set(name, tool.id)
    }
  return { hidden, names }
}

// Getters, because a definition may be bytes until it is first read.
const lazyMembers: Pick<ViewTool, 'description' | 'input'> & ThisType<ViewTool> = {
  get description() {
    return this.tool.description
  },
  get input() {
    return this.tool.input
  },
}

/** The entry of a tool that assembly did not change. */
export const unchangedEntry = (tool: Tool, { schema, listsOutput }: ListingLimits): ViewTool =>
  Object.assign(Object.create(lazyMembers), { tool, schema, listsOutput })

/**
 * Shorter names for tools whose names are too long for a client, by id: cut, with a hash of the id, so that they do not
 * depend on other tools.
 * @param isTaken whether something else has the name
 */
function createShortNames(
  tools: ReadonlyMap<string, Tool>,
  max: number,
  isTaken: (name: string) => boolean,
): ReadonlyMap<string, string> {
  const short = new Map<string, string>()
  // No name is longer than this.
  if (max >= WIRE_NAME_MAX) return short
  const used = new Set<string>()
  for (const [id, { name }] of tools) {
    if (name.length <= max) continue
    let shortName = distinctName(name, id, max)
    for (let n = 2; isTaken(shortName) || used.has(shortName); n++) shortName = distinctName(name, `${id} ${n}`, max)
    used.add(shortName)
    short.set(id, shortName)
  }
  return short
}

const withName = (tool: Tool, name: string): Tool => Object.create(tool, { name: { value: name, enumerable: true } })
