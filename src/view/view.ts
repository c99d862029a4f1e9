import type { Catalog, Outline, Owner, Snapshot } from '../catalog/catalog.ts'
import { replacedBy } from '../catalog/replaced.ts'
import type { Caller } from '../core/context.ts'
import { messageOf } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { once } from '../core/once.ts'
import type { Schema } from '../core/schema.ts'
import type { NameOf, Tool } from '../core/tool.ts'
import type { Policy } from '../policy/policy.ts'
import { tokensOf } from './listing.ts'
import type { SchemaStyle } from './portable.ts'
import { createResolver, type Resolution } from './resolve.ts'
import { type Hidden, see } from './visible.ts'

/** A tool as one caller sees it. */
export interface ViewTool {
  readonly tool: Tool
  readonly description: string
  readonly input: Schema
  /** How its schemas are listed; absent: portable. */
  readonly schema?: SchemaStyle
}

/** The catalogue as one caller may see it now. Visible is callable; what is not here does not run for this caller. */
export interface View {
  readonly version: number
  readonly caller: Caller
  /** By module id, then in the module's own order: stable, so that prompt caches hold. */
  readonly tools: readonly ViewTool[]
  /** By catalogue id, also where the caller knows the tool by an alias only. */
  readonly byId: ReadonlyMap<string, ViewTool>
  /** Owners with at least one visible tool, resource or prompt, and upstreams that are not ready. */
  readonly owners: readonly Owner[]
  readonly hidden: ReadonlyMap<string, Hidden>
  /** Accepts `weather.forecast`, `weather__forecast`, `weather:forecast`, aliases and near spellings. */
  resolve(name: string): Resolution
  count(owner: string): number
  /** How many tools there are. Known without making them. */
  readonly size: number
  /** Estimated tokens of listing them all. */
  tokens(): number
}

export interface Views {
  viewFor(caller: Caller): View
  /** Looks at every tool of the first view of now, which is that of the client on stdio, ahead of its first search. */
  warm(): void
}

/**
 * Builds views and remembers them while nothing changes: one per catalogue version and caller.
 * @param keyOf everything a view may depend on, as a string; callers with the same key share a view
 */
export function createViews(options: {
  readonly catalog: Catalog
  readonly policy: Policy
  readonly log: Log
  /** How schemas are listed now. */
  readonly schema?: () => SchemaStyle
}): Views {
  const { catalog, log } = options
  let version = -1
  const views = new Map<string, View>()
  // A session asks with the same caller object again and again.
  let byCaller = new WeakMap<Caller, View>()
  // A broken check would otherwise be logged for every request.
  const warned = new Set<string>()

  return {
    viewFor(caller) {
      const snapshot = catalog.snapshot()
      if (snapshot.version !== version) {
        views.clear()
        byCaller = new WeakMap()
        version = snapshot.version
      }
      const same = byCaller.get(caller)
      if (same) return same
      const key = keyOf(caller)
      const known = views.get(key)
      if (known) {
        byCaller.set(caller, known)
        return known
      }
      const view = build(snapshot, caller, options.policy, options.schema?.() ?? 'portable', (tool, message) => {
        if (warned.has(`${tool}\n${message}`)) return
        warned.add(`${tool}\n${message}`)
        log.warn('a tool was hidden because its check failed', { tool, error: message })
      })
      if (views.size >= 256) views.clear()
      views.set(key, view)
      byCaller.set(caller, view)
      return view
    },
    warm() {
      if (catalog.snapshot().version === version) void views.values().next().value?.byId
    },
  }
}

const keyOf = (caller: Caller): string =>
  JSON.stringify([
    caller.principal,
    caller.profile,
    caller.roles,
    caller.client?.name ?? '',
    caller.era,
    caller.supports,
  ])

type Warn = (tool: string, message: string) => void

/** Tools as a caller sees them, and those it does not see. */
interface Seen {
  readonly tools: readonly ViewTool[]
  readonly byId: ReadonlyMap<string, ViewTool>
  readonly hidden: ReadonlyMap<string, Hidden>
}

function build(snapshot: Snapshot, caller: Caller, policy: Policy, schema: SchemaStyle, warn: Warn): View {
  const whole = once(() => look(snapshot.tools, caller, policy, schema, warn))
  const outlined = (owner: Owner): Outline | undefined => (policy.allowsAll(owner.id) ? owner.outline : undefined)
  // Counting does not take what all tools of an owner have in common: of a server that was never looked into, none is made.
  const counted = once(() => {
    const owners = [...snapshot.owners.values()]
    const rest = owners.filter((owner) => !outlined(owner)).flatMap(({ tools }) => tools)
    const seen = owners.some(outlined)
      ? look(rest, caller, policy, schema, warn, (id) => whole().byId.get(id)?.tool.name)
      : whole()
    const counts = new Map<string, number>()
    for (const { tool } of seen.tools) counts.set(tool.module, (counts.get(tool.module) ?? 0) + 1)
    let tokens = 0
    for (const owner of owners) {
      const outline = outlined(owner)
      if (outline?.available(caller) !== true || outline.count === 0) continue
      counts.set(owner.id, outline.count)
      tokens += outline.tokens
    }
    const isDenied = ({ tools, withheld: out }: Owner): boolean =>
      tools.length + out.length > 0 &&
      tools.every(({ id }) => seen.hidden.get(id)?.kind === 'denied') &&
      out.every(({ tool }) => withheld().hidden.get(tool.id)?.kind === 'denied')
    return {
      counts,
      tokens: once(() => seen.tools.reduce((sum, entry) => sum + tokensOf(entry), tokens)),
      size: [...counts.values()].reduce((sum, count) => sum + count, 0),
      owners: owners.filter(
        (owner) => counts.has(owner.id) || (hasMore(owner) && (outlined(owner) !== undefined || !isDenied(owner))),
      ),
    }
  })
  const withheld = once(() => lookWithheld(snapshot, caller, policy))
  const hidden = once(() => new Map([...whole().hidden, ...withheld().hidden]))
  const resolver = once(() =>
    createResolver(whole().tools, whole().byId, hidden(), snapshot, counted().owners, withheld().names),
  )
  return {
    version: snapshot.version,
    caller,
    get tools() {
      return whole().tools
    },
    get byId() {
      return whole().byId
    },
    get hidden() {
      return hidden()
    },
    get owners() {
      return counted().owners
    },
    get size() {
      return counted().size
    },
    tokens: () => counted().tokens(),
    count: (owner) => counted().counts.get(owner) ?? 0,
    resolve: (name) => resolver()(name),
  }
}

/** Tools that are kept out: as hidden ones, and what they may be called. Who may not use one is told nothing of it. */
function lookWithheld(
  { owners }: Snapshot,
  caller: Caller,
  policy: Policy,
): { readonly hidden: ReadonlyMap<string, Hidden>; readonly names: ReadonlyMap<string, string> } {
  const hidden = new Map<string, Hidden>()
  const names = new Map<string, string>()
  for (const { withheld } of owners.values())
    for (const { tool, code, reason, hint } of withheld) {
      const seen = see(tool, caller, policy)
      const isTold = 'tool' in seen || seen.hidden.kind === 'unavailable'
      hidden.set(tool.id, isTold ? { kind: 'quarantined', reason, code, hint } : seen.hidden)
      for (const name of [tool.id, tool.name, tool.id.replace(/^mcp_/, '')]) names.set(name, tool.id)
    }
  return { hidden, names }
}

/** @param others names of tools that are not among these */
function look(
  all: readonly Tool[],
  caller: Caller,
  policy: Policy,
  schema: SchemaStyle,
  warn: Warn,
  others: NameOf = () => undefined,
): Seen {
  const hidden = new Map<string, Hidden>()
  const allowed = new Map<string, Tool>()
  for (const tool of all) {
    const seen = see(tool, caller, policy)
    if ('tool' in seen) allowed.set(tool.id, seen.tool)
    else {
      hidden.set(tool.id, seen.hidden)
      if (seen.hidden.reason.includes('check failed')) warn(tool.id, seen.hidden.reason)
    }
  }
  const nameOf = (id: string): string | undefined => allowed.get(id)?.name ?? others(id)

  const tools: ViewTool[] = []
  const byId = new Map<string, ViewTool>()
  for (const [id, tool] of allowed) {
    try {
      const draft = tool.assemble(caller, nameOf)
      if (draft) {
        const entry = draft === tool ? asItIs(tool, schema) : { tool, schema, ...draft }
        tools.push(entry)
        byId.set(id, entry)
      } else hidden.set(id, { kind: 'unavailable', reason: 'nothing it needs is configured for this caller' })
    } catch (error) {
      hidden.set(id, { kind: 'unavailable', reason: `its assembly check failed: ${messageOf(error)}` })
      warn(id, messageOf(error))
    }
  }
  standAside(tools, byId, hidden)
  tools.sort((a, b) => (a.tool.module < b.tool.module ? -1 : a.tool.module > b.tool.module ? 1 : 0))
  return { tools, byId, hidden }
}

/** Takes out what the operator wants another tool to stand in for, where this caller has that other one. */
function standAside(tools: ViewTool[], byId: Map<string, ViewTool>, hidden: Map<string, Hidden>): void {
  if (!tools.some(({ tool }) => tool.replaces !== undefined)) return
  const replaced = replacedBy(new Map(tools.map(({ tool }) => [tool.id, tool])))
  for (const [id, entry] of byId) {
    const by = replaced.get(entry.tool.id)
    if (by === undefined) continue
    byId.delete(id)
    tools.splice(tools.indexOf(entry), 1)
    hidden.set(id, { kind: 'unavailable', reason: `replaced by ${by}` })
  }
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
const asItIs = (tool: Tool, schema: SchemaStyle): ViewTool => Object.assign(Object.create(through), { tool, schema })

const hasMore = (owner: Owner): boolean =>
  owner.resources.length + owner.templates.length + owner.prompts.length + owner.withheld.length > 0 ||
  (owner.origin === 'upstream' && owner.state !== 'ready')
