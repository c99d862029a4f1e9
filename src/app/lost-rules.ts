import type { Config } from '../config/load-config.ts'
import { spellingsOf } from '../core/name-folding.ts'
import { createRule, createSpellingMatcher, listPatterns, shortOwnerName } from '../policy/policy-rules.ts'
import type { LostRules } from '../upstream/catalog-publisher.ts'
import { policyEntries } from './unmatched-rules.ts'

/** Returns the forbidding or limiting rules that matched removed tools of a server or API and match none of its current tools. */
export function createLostRules(config: () => Config): LostRules {
  return ({ module, settings: { prefix, deny } }, gone, now) => {
    const short = shortOwnerName(module)
    const spelled = (name: string) =>
      spellingsOf([name, `${module}.${name}`, `${short}.${name}`, `${short}__${name}`, `${prefix}__${name}`])
    const before = gone.map(spelled)
    const after = now.map(spelled)
    const deniedHere = deny.map((pattern) => `${short}.${pattern}`)
    return [...new Set([...collectForbidding(config(), module), ...deniedHere])].filter((pattern) => {
      const matches = createSpellingMatcher([pattern])
      return before.some(matches) && !after.some(matches)
    })
  }
}

/** Patterns of rules that forbid, ask or limit tools of this owner. Actions of a module's constraints get the module as a prefix. */
function collectForbidding(config: Config, owner: string): string[] {
  const collectSwitches = ({ tools, modules }: Pick<Config, 'tools'> & { modules: Modules }): string[] => [
    ...Object.entries(tools).flatMap(([name, { enabled, rate_limit }]) => (enabled && !rate_limit ? [] : [name])),
    ...Object.entries(modules).flatMap(([id, { constraints }]) =>
      (constraints?.blocked_actions ?? []).map((action) => `${id}.${action}`),
    ),
  ]
  return [
    ...policyEntries(config)
      .flatMap(({ variants, permits }) => (permits ? [] : variants))
      .filter((rule) => createRule(rule).mayMatch(owner))
      .flatMap(listPatterns),
    ...[config, ...Object.values(config.profiles)].flatMap(collectSwitches),
  ]
}

type Modules = Readonly<
  Record<string, { readonly constraints?: { readonly blocked_actions?: readonly string[] | undefined } | undefined }>
>
