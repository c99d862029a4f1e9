import type { Profile } from '../core/profile.ts'
import type { Policy } from '../policy/policy.ts'
import type { DeliberateSettings } from './deliberate-options.ts'
import type { ExposureSettings } from './exposure-options.ts'
import type { SchemaStyle } from './portable-schema.ts'

/** The settings of a profile that views need. */
export interface ViewRules {
  readonly profile: Profile
  readonly policy: Policy
  readonly schema: SchemaStyle
  /** Owner ids of the servers that belong to this profile. */
  readonly ownServers?: ReadonlySet<string>
  readonly exposure: ExposureSettings
  /** Deliberate mode; default only for users who want it. */
  readonly deliberate?: DeliberateSettings
}

/** The rules of a profile. For an unknown name: rules that allow nothing. */
export type RulesOf = (profile: string) => ViewRules
