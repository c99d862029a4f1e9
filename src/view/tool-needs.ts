import type { Caller } from '../core/caller.ts'
import type { Profile } from '../core/profile.ts'
import type { Tool } from '../core/tool.ts'

/** A condition of a tool. */
export type NeedStage = 'provider' | 'capabilities' | 'flags' | 'permissions'

export interface UnmetNeed {
  readonly stage: NeedStage
  readonly reason: string
}

/** The first unmet condition of a tool: provider, capabilities, flags, then permissions. */
export function findUnmetNeed({ needs }: Tool, caller: Caller, profile: Profile): UnmetNeed | undefined {
  if (!needs) return undefined
  const { provider, model, flags } = profile
  const { providers, notProviders } = needs
  if (providers && !providers.includes(provider))
    return { stage: 'provider', reason: `it is for ${providers.join(', ')} only` }
  if (notProviders?.includes(provider)) return { stage: 'provider', reason: `it is not for ${provider}` }
  const { capabilities } = model
  const lacking = capabilities && needs.capabilities?.find((one) => !capabilities.includes(one))
  if (lacking) return { stage: 'capabilities', reason: `the model lacks ${lacking}` }
  const off = needs.flags?.find((flag) => !(Object.hasOwn(flags, flag) && flags[flag]))
  if (off) return { stage: 'flags', reason: `the flag ${off} is off (profiles.${profile.id}.flags.${off})` }
  const denied = needs.permissions?.find(
    (permission) => !caller.roles.includes(permission) && !profile.permissions.includes(permission),
  )
  if (denied) return { stage: 'permissions', reason: `it needs the permission ${denied}` }
  return undefined
}
