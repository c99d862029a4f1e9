import type { Catalog, Outline, Owner, Snapshot } from '../catalog/catalog.ts'
import type { Caller } from '../core/context.ts'
import type { Log } from '../core/log.ts'
import { once } from '../core/once.ts'
import type { Profile } from '../core/profile.ts'
import type { Schema } from '../core/schema.ts'
import type { Tool } from '../core/tool.ts'
import type { Policy } from '../policy/policy.ts'
import { scoped } from '../policy/scope.ts'
import { assemble } from './assemble.ts'
import { createDeliberate, intentsOf } from './deliberate.ts'
import { type ClientLimits, createLimits, type LimitsOf, styleFor } from './limits.ts'
import { tokensOf } from './listing.ts'
import { asItIs, type Fitting, type Looks, look, lookWithheld, type Warn } from './merge.ts'
import type { SchemaStyle } from './portable.ts'
import { createResolver, type Resolution } from './resolve.ts'
import type { Rules, RulesOf } from './rules.ts'
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
  /** Without its client: what callers see does not depend on how their client calls itself. */
  readonly caller: Caller
  readonly profile: Profile
  /** What the client can take: names and schemas are fitted to it. */
  readonly limits: ClientLimits
  /** What decides about it, for whoever has to decide again. */
  readonly policy: Policy
  /** By module id, then in the module's own order: stable, so that prompt caches hold. */
  readonly tools: readonly ViewTool[]
  /** By catalogue id, also where the caller knows the tool by an alias only. */
  readonly byId: ReadonlyMap<string, ViewTool>
  /** Owners with at least one visible tool, resource or prompt, and upstreams that are not ready. */
  readonly owners: readonly Owner[]
  /** Those with something to tell beside results, where the caller sees one of their tools. Known without looking at all the others. */
  readonly noticing: readonly Owner[]
  readonly hidden: ReadonlyMap<string, Hidden>
  /** Accepts `weather.forecast`, `weather__forecast`, `weather:forecast`, aliases and near spellings. */
  resolve(name: string): Resolution
  /** A tool that clients do not have and modules may call for this one, by its id; `mcp_` and `api_` may be left out. */
  inner(id: string): ViewTool | undefined
  count(owner: string): number
  /** How many tools there are. Known without making them. */
  readonly size: number
  /** Estimated tokens of listing them all. */
  tokens(): number
}

export interface Views {
  viewFor(caller: Caller): View
  /** A tool with this intent ran for the caller. */
  used(caller: Caller, intent: string): void
  /** Looks at every tool of the first view of now, which is that of the client on stdio, ahead of its first search. */
  warm(): void
}

/**
 * Builds views and remembers them while nothing changes: one per catalogue version and caller.
 * @param keyOf everything a view may depend on, as a string; callers with the same key share a view
 */
export function createViews(options: {
  readonly catalog: Catalog
  /** Asked for every view; may change only together with the catalogue's version. */
  readonly rulesOf: RulesOf
  /** Likewise. Default: what is known of clients. */
  readonly limitsOf?: LimitsOf
  readonly log: Log
}): Views {
  const { catalog, log, rulesOf, limitsOf = createLimits() } = options
  let version = -1
  let intents: readonly string[] | undefined
  const views = new Map<string, View>()
  // A session asks with the same caller object again and again.
  let byCaller = new WeakMap<Caller, View>()
  const deliberate = createDeliberate()
  // Otherwise logged for every request.
  const warned = new Set<string>()
  const warnFor =
    (profile: string): Warn =>
    (tool, why, message) => {
      // A broken check fails for everybody.
      const key = `${tool}\n${why}\n${message === undefined ? '' : profile}`
      if (warned.has(key)) return
      if (warned.size >= 1_000) warned.clear()
      warned.add(key)
      const said = message ?? (tool === '' ? MERGE_FAILED : 'a tool was hidden because its check failed')
      log.warn(said, { ...(tool === '' ? {} : { tool }), error: why, profile })
    }

  /** What the caller's message asks for, of what tools are offered for on purpose only; undefined: all are offered. */
  function offeredTo(caller: Caller, snapshot: Snapshot): readonly string[] | undefined {
    if (!caller.turn) return undefined
    intents ??= intentsOf(snapshot)
    return deliberate.offered(caller, rulesOf(caller.profile).deliberate, intents)
  }

  return {
    viewFor(caller) {
      const snapshot = catalog.snapshot()
      if (snapshot.version !== version) {
        views.clear()
        byCaller = new WeakMap()
        intents = undefined
        version = snapshot.version
      }
      const offered = offeredTo(caller, snapshot)
      const same = offered === undefined ? byCaller.get(caller) : undefined
      if (same) return same
      const limits = limitsOf(caller.client?.name)
      const key = keyOf(caller, limits, offered)
      let view = views.get(key)
      if (!view) {
        if (views.size >= 256) views.clear()
        view = build(snapshot, sharedBy(caller), rulesFor(caller, rulesOf), limits, offered, warnFor(caller.profile))
        views.set(key, view)
        // Whoever has a view and asks for its caller means this view, turn and all.
        byCaller.set(view.caller, view)
      }
      if (offered === undefined) byCaller.set(caller, view)
      return view
    },
    used: (caller, intent) => deliberate.used(caller, intent),
    warm() {
      if (catalog.snapshot().version === version) void views.values().next().value?.byId
    },
  }
}

/** For the log. */
export const MERGE_FAILED = 'the tools of servers could not be put beside those of modules; modules alone are offered'

const keyOf = (caller: Caller, limits: ClientLimits, offered: readonly string[] | undefined): string =>
  JSON.stringify([
    caller.principal,
    caller.profile,
    caller.roles,
    caller.grants ?? '',
    caller.provider ?? '',
    limits.key,
    caller.era,
    caller.supports,
    offered ?? '',
  ])

/**
 * What all callers with one key have in common: no check sees more, as its answer holds for all of them. Not even which
 * client it is: those that are treated alike share a view.
 */
const sharedBy = ({ principal, profile, roles, grants, provider, era, supports }: Caller): Caller => ({
  principal,
  profile,
  roles,
  ...(grants === undefined ? {} : { grants }),
  ...(provider === undefined ? {} : { provider }),
  era,
  supports,
})

/** What is said of the profile, as far as the caller's token goes, with the model's provider that this very request comes with. */
function rulesFor({ profile, provider, grants }: Caller, rulesOf: RulesOf): Rules {
  const of = rulesOf(profile)
  const rules = grants ? { ...of, policy: scoped(of.policy, grants) } : of
  return provider === undefined ? rules : { ...rules, profile: { ...rules.profile, provider } }
}

function build(
  snapshot: Snapshot,
  caller: Caller,
  rules: Rules,
  limits: ClientLimits,
  offered: readonly string[] | undefined,
  warn: Warn,
): View {
  const { policy, profile } = rules
  const fitting: Fitting = {
    schema: styleFor(limits, rules.schema),
    maxNameLength: limits.maxNameLength,
    isTaken: (name) => snapshot.byName.has(name),
  }
  // Nothing is said of an owner that is not there, not even that it is down.
  const owners = once(() =>
    [...snapshot.owners.values()].filter(({ id, internal }) => internal !== true && policy.sees(id, caller)),
  )
  const looks = once((): Looks => ({ caller, rules, owners: owners(), offered, fitting, warn }))
  let isWhole = false
  const whole = once(() => {
    isWhole = true
    return look(snapshot.tools, looks())
  })
  // What may replace or clash with others has to be looked at.
  const outlined = (owner: Owner): Outline | undefined =>
    policy.allowsAll(owner.id) && owner.provides === undefined && !rules.own?.has(owner.id) ? owner.outline : undefined
  // Counting does not take what all tools of an owner have in common: of a server that was never looked into, none is made.
  const counted = once(() => {
    const rest = owners()
      .filter((owner) => !outlined(owner))
      .flatMap(({ tools }) => tools)
    const seen = owners().some(outlined) ? look(rest, looks(), (id) => whole().byId.get(id)?.tool.name) : whole()
    const counts = new Map<string, number>()
    for (const { tool } of seen.tools) counts.set(tool.module, (counts.get(tool.module) ?? 0) + 1)
    let tokens = 0
    for (const owner of owners()) {
      const outline = outlined(owner)
      if (outline?.available(caller) !== true || outline.count === 0) continue
      counts.set(owner.id, outline.count)
      tokens += outline.tokens
    }
    const isDenied = ({ id: owner, tools, withheld: out, resources, templates, prompts }: Owner): boolean =>
      tools.length + out.length > 0
        ? tools.every(({ id }) => seen.hidden.get(id)?.kind === 'denied') &&
          out.every(({ tool }) => withheld().hidden.get(tool.id)?.kind === 'denied')
        : resources.length + templates.length + prompts.length > 0 && !policy.offers(owner, caller)
    return {
      counts,
      tokens: once(() => seen.tools.reduce((sum, entry) => sum + tokensOf(entry), tokens)),
      size: [...counts.values()].reduce((sum, count) => sum + count, 0),
      owners: owners().filter(
        (owner) => counts.has(owner.id) || (hasMore(owner) && (outlined(owner) !== undefined || !isDenied(owner))),
      ),
    }
  })
  const noticing = once(() =>
    // Tools are made when they are asked for: of an owner without notices they are not.
    owners().filter((owner) => owner.notices && owner.tools.some((tool) => 'tool' in see(tool, caller, rules))),
  )
  const withheld = once(() => lookWithheld(snapshot, caller, rules))
  const hidden = once(() => new Map([...whole().hidden, ...withheld().hidden]))
  const resolver = once(() =>
    createResolver(whole().tools, whole().byId, hidden(), snapshot, counted().owners, withheld().names, whole().short),
  )
  // Each server that arrives makes a new view, and a call that waited for it need not look at the tools of all others.
  const found = new Map<string, Resolution>()
  const quickly = (name: string): Tool | undefined => {
    try {
      return snapshot.quick(name)
    } catch {
      // The whole look tells what is wrong.
      return undefined
    }
  }
  const quick = (name: string): Resolution | undefined => {
    const known = found.get(name)
    if (known) return known
    const tool = quickly(name)
    // Of a profile's own servers some tools give way to others.
    if (tool?.origin !== 'upstream' || tool.intent !== undefined || rules.own?.has(tool.module)) return undefined
    const seen = see(tool, caller, rules)
    if (!('tool' in seen) || seen.tool !== tool) return undefined
    const made = assemble(tool, caller, () => undefined, profile)
    if (!('draft' in made) || made.draft !== tool) return undefined
    const resolution: Resolution = { kind: 'found', tool: asItIs(tool, fitting.schema) }
    found.set(name, resolution)
    return resolution
  }
  return {
    version: snapshot.version,
    caller,
    profile,
    limits,
    policy,
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
    get noticing() {
      return noticing()
    },
    get size() {
      return counted().size
    },
    tokens: () => counted().tokens(),
    count: (owner) => counted().counts.get(owner) ?? 0,
    resolve: (name) => (isWhole ? undefined : quick(name)) ?? resolver()(name),
    inner(id) {
      const tool = [id, `mcp_${id}`, `api_${id}`].map((one) => snapshot.byId.get(one)).find((one) => one !== undefined)
      if (!tool?.internal) return undefined
      const seen = see(Object.create(tool, { internal: { value: undefined } }) as Tool, caller, rules)
      return 'tool' in seen ? asItIs(seen.tool, fitting.schema) : undefined
    },
  }
}

const hasMore = (owner: Owner): boolean =>
  owner.resources.length + owner.templates.length + owner.prompts.length + owner.withheld.length > 0 ||
  (owner.origin === 'upstream' && owner.state !== 'ready')
