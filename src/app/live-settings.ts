import type { Config } from '../config/load-config.ts'
import { planReload, type ReloadPlan, restartSections } from '../config/reload-config.ts'
import { type ClientLimits, createLimits } from '../view/client-limits.ts'
import type { MaxResultTokens } from '../view/view.ts'
import type { ViewRules } from '../view/view-rules.ts'
import { createRules, type FlagChanges } from './profile-rules.ts'

/** The settings in force. Some of them change while Pegboard runs. */
export type LiveSettings = ReturnType<typeof createLiveSettings>

/** The settings of a tool by its id, or by its name without its module. */
function settingOf<T>(tools: Readonly<Record<string, T>>, id: string): T | undefined {
  const key = [id, id.slice(id.indexOf('.') + 1)].find((name) => Object.hasOwn(tools, name))
  return key === undefined ? undefined : tools[key]
}

export function createLiveSettings(initial: Config) {
  let config = initial
  let flags: FlagChanges = {}
  let rules = createRules(config)
  let limits = createLimits(config.clients)
  const maxResultTokens: MaxResultTokens = (source) =>
    source === undefined
      ? config.execution.maxResultTokens
      : (settingOf(config.tools, source.id)?.maxResultTokens ?? source.maxResultTokens)
  return {
    get config(): Config {
      return config
    },
    rulesOf: (profile: string): ViewRules => rules.of(profile),
    /** @param client the name that it gave itself; undefined if it gave none */
    limitsOf: (client: string | undefined): ClientLimits => limits(client),
    maxResultTokens,
    /** True if the section `tools` removes the limit of a tool. */
    hasUnlimitedTool: (): boolean => Object.values(config.tools).some(({ maxResultTokens }) => maxResultTokens === 0),
    hasProfile: (name: string): boolean => rules.ids.includes(name),
    /** Sets a flag until the next reload. */
    setFlag(profile: string, flag: string, value: boolean): void {
      flags = { ...flags, [profile]: { ...flags[profile], [flag]: value } }
      rules = createRules(config, flags)
    },
    /** Applies those sections that need no restart. Resets the flags. */
    reload(next: Config): ReloadPlan {
      const plan = planReload(config, next)
      const kept = restartSections(config).map((section) => [section, config[section]])
      config = { ...next, ...Object.fromEntries(kept) }
      flags = {}
      rules = createRules(config)
      limits = createLimits(config.clients)
      return plan
    },
  }
}
