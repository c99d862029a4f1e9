import { defaultProfile } from '../src/core/profile.ts'
import type { Policy } from '../src/policy/policy.ts'
import { exposureOptions } from '../src/view/exposure-options.ts'
import type { SchemaStyle } from '../src/view/portable-schema.ts'
import type { RulesOf, ViewRules } from '../src/view/view-rules.ts'

/** Applies the same rules to all profiles. */
export function sameRules(policy: Policy, schema: SchemaStyle = 'portable'): RulesOf {
  const rules: ViewRules = { profile: defaultProfile, policy, schema, exposure: exposureOptions.parse({}) }
  return () => rules
}
