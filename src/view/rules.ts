import type { Profile } from '../core/profile.ts'
import type { Policy } from '../policy/policy.ts'
import type { DeliberateSettings } from './deliberate-options.ts'
import type { ExposureSettings } from './options.ts'
import type { SchemaStyle } from './portable.ts'

/** Everything a view depends on beside the catalogue and the caller: what the operator says of the caller's profile. */
export interface Rules {
  readonly profile: Profile
  readonly policy: Policy
  /** How schemas are listed. */
  readonly schema: SchemaStyle
  /** Servers that the profile has of its own, by catalogue owner. */
  readonly own?: ReadonlySet<string>
  /** How much is listed. */
  readonly exposure: ExposureSettings
  /** Whether tools with an intent wait for a message that asks for them; absent: only for who wants it so. */
  readonly deliberate?: DeliberateSettings
}

/** The rules of a profile by its name. A name that nobody knows has rules that let nothing through. */
export type RulesOf = (profile: string) => Rules
