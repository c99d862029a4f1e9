import { defaultProfile } from '../src/core/profile.ts'
import type { Policy } from '../src/policy/policy.ts'
import { exposureOptions } from '../src/view/options.ts'
import type { SchemaStyle } from '../src/view/portable.ts'
import type { Rules, RulesOf } from '../src/view/rules.ts'

/** Where there is one profile, all are alike. */
export function sameRules(policy: Policy, schema: SchemaStyle = 'portable'): RulesOf {
  const rules: Rules = { profile: defaultProfile, policy, schema, exposure: exposureOptions.parse({}) }
  return () => rules
}
