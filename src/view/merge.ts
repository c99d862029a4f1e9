import type { Owner, Snapshot } from '../catalog/catalog.ts'
import type { Caller } from '../core/context.ts'
import { messageOf } from '../core/errors.ts'
import { once } from '../core/once.ts'
import type { NameOf, Tool } from '../core/tool.ts'
import { assemble } from './assemble.ts'
import { expandMacros, hasMacros } from './macros.ts'
import type { SchemaStyle } from './portable.ts'
import { type Making, standAside } from './replacement.ts'
import type { Rules } from './rules.ts'
import { renamed, shortNames } from './shorten.ts'
import type { ViewTool } from './view.ts'
import { type Hidden, see } from './visible.ts'

/** Says why a tool is hidden that its owner meant to be there. @param tool '' for all tools of servers */
export type Warn = (tool: string, why: string, message?: string) => void

/** Who looks, and with what eyes. */
export interface Looks {
  readonly caller: Caller
  readonly rules: Rules
  /** Those that are there for the caller. */
  readonly owners: readonly Owner[]
  /** Intents whose tools are offered now; undefined: all are. */
  readonly offered: readonly string[] | undefined
  readonly fitting: Fitting
  readonly warn: Warn
}

/** How tools are fitted to a client. */
export interface Fitting {
  readonly schema: SchemaStyle
  readonly maxNameLength: number
  isTaken(name: string): boolean
}

/** Tools as a caller sees them, and those it does not see. */
export interface Seen {
  readonly tools: readonly ViewTool[]
  readonly byId: ReadonlyMap<string, ViewTool>
  readonly hidden: ReadonlyMap<string, Hidden>
  /** Ids by names that were made short. */
  readonly short: ReadonlyMap<string, string>
}

/**
 * Passes tools through the stages of availability and assembly. Where those of servers cannot be put beside those of modules,
 * modules alone are offered.
 * @param others names of tools that are not among these
 */
export function look(all: readonly Tool[], looks: Looks, others: NameOf = () => undefined): Seen {
  try {
    return merge(all, looks, others)
  } catch (error) {
    looks.warn('', messageOf(error))
    const own = all.filter(({ origin }) => origin === 'module')
    return merge(own, looks, others)
  }
}

function merge(all: readonly Tool[], looks: Looks, others: NameOf): Seen {
  const { caller, rules, owners, offered, fitting, warn } = looks
  const { schema, maxNameLength, isTaken } = fitting
  const hidden = new Map<string, Hidden>()
  const hide = (id: string, why: Hidden): void => {
    hidden.set(id, why)
    if (why.failure !== undefined) warn(id, `${why.reason}: ${why.failure}`)
  }
  const allowed = new Map<string, Tool>()
  const taken = once(() => new Set(all.map(({ id }) => id)))
  for (const tool of all) {
    const seen = see(tool, caller, rules)
    if ('hidden' in seen) hide(tool.id, seen.hidden)
    else if (seen.tool.id !== tool.id && !isFirst(taken(), seen.tool.id)) hide(tool.id, calledLike(seen.tool))
    else allowed.set(tool.id, seen.tool)
  }
  const shorter = shortNames(allowed, maxNameLength, isTaken)
  const candidates: ViewTool[] = []
  const byId = new Map<string, ViewTool>()
  for (const [id, tool] of allowed) {
    const name = shorter.get(id)
    const entry = asItIs(name === undefined ? tool : renamed(tool, name), schema)
    candidates.push(entry)
    byId.set(id, entry)
  }
  standAside({ tools: candidates, byId, hidden }, owners, rules, (tool, why) =>
    warn(tool, why, 'a tool of a profile is left out'),
  )
  if (offered !== undefined)
    for (const [id, { tool }] of byId) {
      if (tool.intent === undefined || offered.includes(tool.intent)) continue
      byId.delete(id)
      hide(id, notAskedFor(tool.intent))
    }

  const nameOf = (id: string): string | undefined => byId.get(id)?.tool.name ?? others(id)
  const tools: ViewTool[] = []
  for (const [id, entry] of byId) {
    const { tool } = entry
    const made = assemble(tool, caller, nameOf, rules.profile)
    if ('hidden' in made) {
      byId.delete(id)
      hide(id, made.hidden)
      continue
    }
    const shown = made.draft === tool ? entry : { tool, schema, ...made.draft }
    if (shown !== entry) byId.set(id, shown)
    tools.push(shown)
  }
  tools.sort((a, b) => (a.tool.module < b.tool.module ? -1 : a.tool.module > b.tool.module ? 1 : 0))
  expandDescriptions({ tools, byId, hidden }, owners)
  return { tools, byId, hidden, short: new Map([...shorter].map(([id, name]) => [name, id])) }
}

const isFirst = (taken: Set<string>, id: string): boolean => !taken.has(id) && taken.add(id).size > 0

/** An alias that alone is allowed is a word that another tool has: that one is meant. */
const calledLike = ({ id }: Tool): Hidden => ({
  kind: 'denied',
  stage: 'policy',
  reason: `it is only allowed as ${id}, which another tool is called`,
})

const notAskedFor = (intent: string): Hidden => ({
  kind: 'unavailable',
  stage: 'deliberate',
  reason: `it is offered only when a message asks for it (${intent}), and this one does not`,
})

/** Texts of modules may name tools by what they do: who does it is another for each caller. */
function expandDescriptions({ tools, byId }: Making, owners: readonly Owner[]): void {
  for (const [at, entry] of tools.entries()) {
    const { tool } = entry
    // A server's is not even looked at: to be read, its definition is parsed.
    if (tool.origin !== 'module' || !hasMacros(entry.description)) continue
    const { description, input, schema } = entry
    const said = { tool, description: expandMacros(description, { tools, owners }), input, ...(schema && { schema }) }
    tools[at] = said
    byId.set(tool.id, said)
  }
}

/** Tools that are kept out: as hidden ones, and what they may be called. Who may not use one is told nothing of it. */
export function lookWithheld(
  { owners }: Snapshot,
  caller: Caller,
  rules: Rules,
): { readonly hidden: ReadonlyMap<string, Hidden>; readonly names: ReadonlyMap<string, string> } {
  const hidden = new Map<string, Hidden>()
  const names = new Map<string, string>()
  for (const { withheld } of owners.values())
    for (const { tool, code, reason, hint } of withheld) {
      const seen = see(tool, caller, rules)
      const isTold = 'tool' in seen || seen.hidden.kind === 'unavailable'
      hidden.set(tool.id, isTold ? { kind: 'quarantined', stage: 'upstream', reason, code, hint } : seen.hidden)
      for (const name of [tool.id, tool.name, tool.id.replace(/^mcp_/, '')]) names.set(name, tool.id)
    }
  return { hidden, names }
}

// Read through, not copied: a definition may be bytes until someone asks for it.
const through: Omit<ViewTool, 'tool' | 'schema'> & ThisType<ViewTool> = {
  get description() {
    return this.tool.description
  },
  get input() {
    return this.tool.input
  },
}

/** A tool that every caller sees alike. */
export const asItIs = (tool: Tool, schema: SchemaStyle): ViewTool =>
  Object.assign(Object.create(through), { tool, schema })
