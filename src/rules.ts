import type { Config } from './config/load.ts'
import { policySettings, switches, tripwiresOf } from './config/policy.ts'
import type { ProfileSettings } from './config/profiles.ts'
import { DEFAULT_PROFILE, defaultProfile, type Profile } from './core/profile.ts'
import { both, createPolicy, type PolicySettings } from './policy/policy.ts'
import { type Renamed, saidOfRenamed } from './policy/renamed.ts'
import { matcher, shortOf } from './policy/rules.ts'
import { moduleIds } from './upstream/upstreams.ts'
import type { Rules } from './view/rules.ts'

/** What the operator says of each profile, as the rest reads it. */
export interface ProfileRules {
  /** Rules that let nothing through for a name that nobody knows. */
  of(profile: string): Rules
  readonly ids: readonly string[]
}

type ModuleIds = ReturnType<typeof moduleIds>

/** Flags that were set at run time, by profile. */
export type FlagChanges = Readonly<Record<string, Profile['flags']>>

/** Made anew with each configuration. @param changes put over its flags */
export function createRules(config: Config, changes: FlagChanges = {}): ProfileRules {
  const ids = moduleIds(Object.keys(config.servers))
  const owners = ownersOf(config, ids)
  const common = createPolicy(policySettings(config))
  const known = new Map<string, Rules>()
  const flagged = (profile: Profile): Profile => ({ ...profile, flags: { ...profile.flags, ...changes[profile.id] } })
  const make = (id: string): Rules => {
    const settings = config.profiles[id]
    const sees = seesFor(id, settings, owners)
    const where = `profiles.${id}.`
    const policy = settings
      ? both(common, createPolicy({ ...saidOfRenamed(own(settings), renamedIn(settings, ids)), sees, where }))
      : createPolicy({ ...policySettings(config), sees })
    return {
      profile: flagged(settings ? profileOf(id, settings) : { ...defaultProfile, id }),
      policy,
      own: new Set([...owners].flatMap(([owner, having]) => (having.has(id) ? [owner] : []))),
      schema: settings?.exposure.schema ?? config.exposure.schema,
      exposure: { ...config.exposure, ...(settings && said(settings.exposure)) },
      ...(settings && { deliberate: settings.deliberate }),
    }
  }
  const nothing = (id: string): Rules => ({
    profile: { ...defaultProfile, id },
    policy: createPolicy({ sees: () => false }),
    schema: config.exposure.schema,
    exposure: config.exposure,
  })
  const profiles = [...new Set([DEFAULT_PROFILE, ...Object.keys(config.profiles)])]
  return {
    ids: profiles,
    of(id) {
      let rules = known.get(id)
      if (!rules) {
        rules = profiles.includes(id) ? make(id) : nothing(id)
        if (profiles.includes(id)) known.set(id, rules)
      }
      return rules
    },
  }
}

const said = <T extends object>(settings: T): { [Key in keyof T]: Exclude<T[Key], undefined> } =>
  Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined)) as never

/** Which profiles have a server of their own, by catalogue owner. */
function ownersOf({ profiles }: Config, modules: ModuleIds): ReadonlyMap<string, ReadonlySet<string>> {
  const owners = new Map<string, Set<string>>()
  for (const [profile, { servers: placed }] of Object.entries(profiles))
    for (const id of Object.values(placed)) {
      const module = modules.get(id)
      // One that cannot be used is not there.
      if (module === undefined) continue
      const having = owners.get(module) ?? new Set()
      owners.set(module, having.add(profile))
    }
  return owners
}

/** Servers of a profile that are called otherwise among all, by what the profile calls them. */
function renamedIn({ servers }: ProfileSettings, modules: ModuleIds): Renamed {
  const own = moduleIds(Object.keys(servers))
  return new Map(
    Object.entries(servers).flatMap(([name, id]) => {
      const module = modules.get(id)
      if (id === name || module === undefined) return []
      const short = shortOf(module)
      return [name.toLowerCase(), shortOf(own.get(name) as string)].map((called) => [called, short] as const)
    }),
  )
}

function seesFor(
  profile: string,
  settings: ProfileSettings | undefined,
  owners: ReadonlyMap<string, ReadonlySet<string>>,
): (owner: string) => boolean {
  const used = settings?.use && matcher(settings.use)
  const modules = settings?.modules ?? {}
  return (owner) => {
    const having = owners.get(owner)
    if (having) return having.has(profile)
    const short = shortOf(owner)
    if (used && !used(owner) && !used(short)) return false
    return (modules[owner] ?? modules[short])?.enabled !== false
  }
}

const own = ({ policy, modules, tools }: ProfileSettings): PolicySettings => ({
  ...policy,
  ...switches(tools),
  tripwires: tripwiresOf(modules),
  constraints: Object.fromEntries(
    // Those of servers and APIs under the names the operator gave them; what is said of an owner by its own id counts more.
    ['mcp_', 'api_', ''].flatMap((before) =>
      Object.entries(modules).flatMap(([id, { constraints }]) =>
        constraints ? [[`${before}${id}`, constraints]] : [],
      ),
    ),
  ),
})

const profileOf = (id: string, settings: ProfileSettings): Profile => {
  const { provider, model, flags, permissions, platform, modules } = settings
  const { capabilities } = model
  return {
    id,
    provider,
    model: { id: model.id, ...(capabilities === undefined ? {} : { capabilities }) },
    flags,
    permissions,
    platform,
    config: Object.fromEntries(Object.entries(modules).map(([name, { config }]) => [name, config])),
  }
}
