import { clashSentence } from '../catalog/name-clashes.ts'
import type { Config } from '../config/load-config.ts'
import { type Caller, localCaller } from '../core/caller.ts'
import type { Log } from '../core/log.ts'
import { DEFAULT_PROFILE } from '../core/profile.ts'
import { OWN_PREFIX } from '../core/tool-names.ts'
import type { Apis } from '../openapi/apis.ts'
import type { Upstreams } from '../upstream/upstreams.ts'
import type { AppBase } from './app-base.ts'
import type { AppModules } from './app-modules.ts'
import { sameRulesSentence, sharedNameSentence } from './claimed-names.ts'
import {
  ambiguousRules,
  certainlyUnmatched,
  mayConcern,
  ownersNamedIn,
  type UnmatchedRule,
  unmatchedRules,
} from './unmatched-rules.ts'

export interface IneffectiveSettingsOptions extends AppBase {
  readonly upstreams: Upstreams
  readonly apis: Apis
  readonly modules: AppModules
}

export type IneffectiveSettings = ReturnType<typeof createIneffectiveSettings>

/** Settings without effect, for the operator. */
export function createIneffectiveSettings(options: IneffectiveSettingsOptions) {
  const { settings, catalog, upstreams, apis, modules, view } = options

  /** Owners whose tools are not known yet. */
  const listUnknownOwners = (): readonly string[] => [
    ...upstreams
      .status()
      .filter(
        ({ id, state, tools }) =>
          settings.config.servers[id]?.enabled === true && tools === 0 && state !== 'ready' && state !== 'known',
      )
      .map(({ module }) => module),
    ...apis
      .status()
      .filter(({ state, tools }) => tools === 0 && state !== 'ready')
      .map(({ module }) => module),
  ]

  const sharedNames = (): readonly string[] => {
    const { owners } = catalog.snapshot()
    return modules.loader.status().loaded.flatMap(({ id }) => {
      if (owners.has(`${OWN_PREFIX}${id}`)) return [sharedNameSentence(settings.config, id)]
      const other = [`mcp_${id}`, `api_${id}`].find((one) => owners.has(one))
      return other === undefined ? [] : [sameRulesSentence(id, other)]
    })
  }

  function unmatched(also?: 'off'): readonly UnmatchedRule[] {
    const snapshot = catalog.snapshot()
    const found = [...unmatchedRules(settings.config, snapshot), ...ambiguousRules(settings.config, snapshot)]
    const unknownOwners = listUnknownOwners()
    return also === undefined
      ? certainlyUnmatched(found, snapshot, unknownOwners)
      : found.filter((rule) => !unknownOwners.some((owner) => mayConcern(rule, owner)))
  }

  const unmatchedIfCalm = (): readonly UnmatchedRule[] | undefined =>
    upstreams.arriving || !modules.isLoaded ? undefined : unmatched()

  // A generator, because without constraints no tool is read.
  function* allTools() {
    yield* catalog.snapshot().tools
  }

  return {
    /** Modules that have the name of a server or API, as sentences. */
    sharedNames,
    /** All clashes of names, and settings of modules and of servers' tools without effect, as sentences. */
    names: (): readonly string[] => [
      ...sharedNames(),
      ...modules.loader.status().warnings,
      ...catalog.snapshot().clashes.map(clashSentence),
      ...upstreams.problems(),
      ...apis.problems(),
    ],
    /** Entries of constraints that name no tool of their module. */
    unmatchedConstraints: (): readonly { readonly owner: string; readonly action: string }[] =>
      settings.rulesOf(DEFAULT_PROFILE).policy.unmatchedConstraints(allTools()),
    unmatchedRules: unmatched,
    /** As `unmatchedRules`; undefined while servers and modules start, because reading all tools would delay calls. */
    unmatchedRulesIfCalm: unmatchedIfCalm,
    /** The unmatched rules that a caller may learn about. Empty while tools are still arriving. */
    unmatchedRulesFor(caller: Caller): readonly UnmatchedRule[] {
      const snapshot = catalog.snapshot()
      const { policy } = view(caller)
      return (unmatchedIfCalm() ?? []).filter((rule) =>
        ownersNamedIn(rule, snapshot).every((owner) => policy.allowsOwner(owner, caller)),
      )
    },
    idleModules(caller: Caller): readonly string[] {
      const callerView = view(caller)
      const { owners } = catalog.snapshot()
      return Object.entries(options.config.modules).flatMap(([id, { enabled }]) => {
        const owner = owners.get(id) ?? owners.get(`${OWN_PREFIX}${id}`)
        if (!enabled || owner?.origin !== 'module' || owner.tools.length === 0 || callerView.count(owner.id) > 0)
          return []
        const reason = owner.tools.map((tool) => callerView.hidden.get(tool.id)?.reason).find(Boolean)
        return [`modules.${id} is configured but has no tools${reason === undefined ? '' : `: ${reason}`}.`]
      })
    },
  }
}

/** Logs settings without effect, and settings of the environment that weaken security. */
export function warnOfSettings(
  { execution }: Pick<Config, 'execution'>,
  env: Readonly<Record<string, string | undefined>>,
  problems: IneffectiveSettings,
  log: Log,
): void {
  if (execution.scheduler && !execution.watchers)
    log.warn('execution.scheduler needs execution.watchers, so both are off')
  if (env['NODE_TLS_REJECT_UNAUTHORIZED'] === '0')
    log.warn(
      'NODE_TLS_REJECT_UNAUTHORIZED is 0: module requests still check certificates, but other connections may not; unset it',
    )
  for (const sentence of problems.sharedNames()) log.warn(sentence, { code: 'E_NAME_TAKEN' })
  for (const { owner, action } of problems.unmatchedConstraints())
    log.warn('a constraint names a tool that does not exist', { module: owner, action })
  for (const sentence of problems.idleModules(localCaller)) log.warn(sentence)
}
