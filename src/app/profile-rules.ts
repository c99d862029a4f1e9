import type { Config } from '../config/load-config.ts'
import { constraintsOf, policySettings, toPolicySwitches, tripwiresOf } from '../config/policy-settings.ts'
import type { ProfileSettings } from '../config/profile-settings.ts'
import { getOrInsert } from '../core/get-or-insert.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import { DEFAULT_PROFILE, defaultProfile, type Profile } from '../core/profile.ts'
import { combinePolicies, createPolicy, type PolicySettings } from '../policy/policy.ts'
import { compilePatterns, lower, shortOwnerName } from '../policy/policy-rules.ts'
import { type OwnerRenames, withRenamedOwners } from '../policy/renamed-owners.ts'
import { moduleIds } from '../upstream/upstreams.ts'
import type { ViewRules } from '../view/view-rules.ts'

type ModuleIds = ReturnType<typeof moduleIds>

/** Flags set while Pegboard runs, by profile. */
export type FlagChanges = Readonly<Record<string, Profile['flags']>>

/** @param changes override the flags of the configuration */
export function createRules(config: Config, changes: FlagChanges = {}) {
  const ids = moduleIds(config.servers)
  const owners = ownersOf(config, ids)
  const shared = withRenamedOwners(policySettings(config), renamedIn(config, ids))
  const common = createPolicy(shared)
  const rulesByProfile = new Map<string, ViewRules>()
  const withFlags = (profile: Profile): Profile => ({ ...profile, flags: { ...profile.flags, ...changes[profile.id] } })
  const createProfileRules = (id: string): ViewRules => {
    const settings = config.profiles[id]
    const renamed = renamedIn(config, ids, settings)
    const hasOwner = createOwnerFilter(id, settings, owners, renamed)
    const where = `profiles.${id}.`
    const policy = settings
      ? combinePolicies(
          common,
          createPolicy({ ...withRenamedOwners(toPolicySettings(settings), renamed), hasOwner, settingPrefix: where }),
        )
      : createPolicy({ ...shared, hasOwner })
    return {
      profile: withFlags(settings ? profileOf(id, settings) : { ...defaultProfile, id }),
      policy,
      ownServers: new Set([...owners].flatMap(([owner, profileIds]) => (profileIds.has(id) ? [owner] : []))),
      schema: settings?.exposure.schema ?? config.exposure.schema,
      exposure: { ...config.exposure, ...(settings && omitUndefined(settings.exposure)) },
      ...(settings && { deliberate: settings.deliberate }),
    }
  }
  const createEmptyRules = (id: string): ViewRules => ({
    profile: { ...defaultProfile, id },
    policy: createPolicy({ hasOwner: () => false }),
    schema: config.exposure.schema,
    exposure: config.exposure,
  })
  const profiles = [...new Set([DEFAULT_PROFILE, ...Object.keys(config.profiles)])]
  return {
    ids: profiles,
    /** For an unknown name: rules that allow nothing. */
    of(id: string): ViewRules {
      if (!profiles.includes(id)) return createEmptyRules(id)
      return getOrInsert(rulesByProfile, id, () => createProfileRules(id))
    },
  }
}

/** Profiles by the owner ids of their own servers. */
function ownersOf({ profiles }: Config, modules: ModuleIds): ReadonlyMap<string, ReadonlySet<string>> {
  const owners = new Map<string, Set<string>>()
  for (const [profile, { servers: placed }] of Object.entries(profiles))
    for (const id of Object.values(placed)) {
      const module = modules.get(id)
      // A server with invalid settings does not exist.
      if (module !== undefined) getOrInsert(owners, module, () => new Set()).add(profile)
    }
  return owners
}

/** Short owner ids of servers, by their other names: keys in the file, in lower case, and names that a profile uses. */
export function renamedIn({ servers }: Config, modules: ModuleIds, profile?: ProfileSettings): OwnerRenames {
  const named = Object.entries(profile?.servers ?? {})
  const ownerIds = moduleIds(profile?.servers ?? {})
  const names = [
    ...Object.keys(servers).map((id) => [id.toLowerCase(), id] as const),
    ...named.flatMap(([name, id]) =>
      [name.toLowerCase(), shortOwnerName(ownerIds.get(name) as string)].map((one) => [one, id] as const),
    ),
  ]
  return new Map(
    names.flatMap(([name, id]) => {
      const short = shortOwnerName(modules.get(id) ?? '')
      return short === '' || short === name ? [] : [[name, short] as const]
    }),
  )
}

function createOwnerFilter(
  profile: string,
  settings: ProfileSettings | undefined,
  owners: ReadonlyMap<string, ReadonlySet<string>>,
  renamed: OwnerRenames,
): (owner: string) => boolean {
  const isUsed = settings?.use && compilePatterns(settings.use.map(lower))
  const disabledModules = new Set(
    Object.entries(settings?.modules ?? {}).flatMap(([name, { enabled }]) => (enabled ? [] : [lower(name)])),
  )
  return (owner) => {
    const profileIds = owners.get(owner)
    if (profileIds) return profileIds.has(profile)
    const short = lower(shortOwnerName(owner))
    const names = [lower(owner), short, ...[...renamed].flatMap(([name, to]) => (to === short ? [name] : []))]
    return (!isUsed || names.some(isUsed)) && !names.some((name) => disabledModules.has(name))
  }
}

const toPolicySettings = ({ policy, modules, tools }: ProfileSettings): PolicySettings => ({
  ...policy,
  ...toPolicySwitches(tools),
  tripwires: tripwiresOf(modules),
  constraints: constraintsOf(modules),
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
