import type { Catalog, Snapshot } from '../catalog/catalog.ts'
import type { Caller } from '../core/caller.ts'
import type { Log } from '../core/log.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import { limitToGrants } from '../policy/token-scope.ts'
import { createLimits, type LimitsOf } from './client-limits.ts'
import { createDeliberateMode, intentsOf } from './deliberate.ts'
import type { Warn } from './merge-tools.ts'
import { buildView, type MaxResultTokens, type View } from './view.ts'
import type { RulesOf, ViewRules } from './view-rules.ts'

export interface Views {
  viewFor(caller: Caller): View
  /** Records that a tool with this intent ran for the caller. */
  recordIntent(caller: Caller, intent: string): void
  /** Computes the tools of the first current view before its first search. On stdio that is the client's view. */
  warm(): void
}

export interface ViewsOptions {
  readonly catalog: Catalog
  /** May change only together with the version of the catalog: views remember what `Policy.decide` answers. */
  readonly rulesOf: RulesOf
  /** May also change only with the catalog's version. Default: the known limits of common clients. */
  readonly limitsOf?: LimitsOf
  /** Default: results have no limit. */
  readonly maxResultTokens?: MaxResultTokens
  /** True if a setting of a single tool removes its limit; default false. */
  readonly hasUnlimitedTool?: () => boolean
  readonly log: Log
}

const MAX_VIEWS = 256
const MAX_WARNED = 1_000

/** Builds views, and keeps them until the catalog changes. */
export function createViews({
  catalog,
  log,
  rulesOf,
  limitsOf = createLimits(),
  maxResultTokens = () => undefined,
  hasUnlimitedTool = () => false,
}: ViewsOptions): Views {
  let version = -1
  let intents: readonly string[] | undefined
  const views = new Map<string, View>()
  // A session passes the same caller object again and again.
  let byCaller = new WeakMap<Caller, View>()
  const deliberate = createDeliberateMode()
  // Without this, the same warning would be logged for every request.
  const warned = new Set<string>()
  const warnFor =
    (profile: string): Warn =>
    (tool, why, message) => {
      // A broken check fails in every profile.
      const key = `${tool}\n${why}\n${message === undefined ? '' : profile}`
      if (warned.has(key)) return
      if (warned.size >= MAX_WARNED) warned.clear()
      warned.add(key)
      const text = message ?? (tool === '' ? MERGE_FAILED : 'a tool was hidden because its check failed')
      log.warn(text, { ...(tool === '' ? {} : { tool }), error: why, profile })
    }

  /** Intents that the message of the caller asks for; undefined: all tools are offered. */
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
      const cachedView = offered === undefined ? byCaller.get(caller) : undefined
      if (cachedView) return cachedView
      const limits = limitsOf(caller.client?.name)
      const shared = sharedCaller(caller)
      const key = JSON.stringify([shared, limits.key, offered])
      let view = views.get(key)
      if (!view) {
        if (views.size >= MAX_VIEWS) views.clear()
        view = buildView({
          snapshot,
          caller: shared,
          rules: rulesFor(shared, rulesOf),
          limits,
          maxResultTokens,
          hasUnlimitedTool,
          offered,
          warn: warnFor(shared.profile),
        })
        views.set(key, view)
        // The caller of a view must get this view again, although it has no turn.
        byCaller.set(shared, view)
      }
      if (offered === undefined) byCaller.set(caller, view)
      return view
    },
    recordIntent: (caller, intent) => deliberate.recordUse(caller, intent),
    warm() {
      if (catalog.snapshot().version === version) void views.values().next().value?.byId
    },
  }
}

export const MERGE_FAILED = 'cannot merge the tools of servers with those of modules; clients see the modules only'

/**
 * Everything of a caller that a view may depend on. Callers for whom these properties are equal share a view, so checks
 * see no others.
 */
const sharedCaller = ({ principal, profile, roles, grants, provider, era, supports }: Caller): Caller => ({
  principal,
  profile,
  roles,
  ...omitUndefined({ grants, provider }),
  era,
  supports,
})

/** The rules of the profile, narrowed by the grants of the token, with the model provider of this request. */
function rulesFor({ profile, provider, grants }: Caller, rulesOf: RulesOf): ViewRules {
  const ofProfile = rulesOf(profile)
  const rules = grants ? { ...ofProfile, policy: limitToGrants(ofProfile.policy, grants) } : ofProfile
  return provider === undefined ? rules : { ...rules, profile: { ...rules.profile, provider } }
}
