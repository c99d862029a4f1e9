import type { Config } from '../config/load-config.ts'
import { spellingsOf } from '../core/name-folding.ts'
import { entriesOf } from '../policy/policy-options.ts'
import { createSpellingMatcher, listPatterns, shortOf } from '../policy/policy-rules.ts'
import type { LostRules } from '../upstream/catalog-publisher.ts'

/** Returns the forbidding or limiting rules that matched removed tools of a server or API and match none of its current tools. */
export function createLostRules(config: () => Config): LostRules {
  return ({ module, settings: { prefix, deny } }, gone, now) => {
    const short = shortOf(module)
    const spelled = (name: string) =>
      spellingsOf([name, `${module}.${name}`, `${short}.${name}`, `${short}__${name}`, `${prefix}__${name}`])
    const before = gone.map(spelled)
    const after = now.map(spelled)
    const deniedHere = deny.map((pattern) => `${short}.${pattern}`)
    return [...new Set([...collectForbidding(config()), ...deniedHere])].filter((pattern) => {
      const matches = createSpellingMatcher([pattern])
      return before.some(matches) && !after.some(matches)
    })
  }
}

/** Patterns of rules that forbid, ask or limit. Actions of a module's constraints get the module as a prefix. */
function collectForbidding(config: Config): string[] {
  const collect = ({ policy, tools, modules }: Pick<Config, 'policy' | 'tools'> & { modules: Modules }): string[] => [
    ...entriesOf(policy).flatMap(({ rules, permits }) => (permits ? [] : rules.flatMap(listPatterns))),
    ...Object.entries(tools).flatMap(([name, { enabled, rate_limit }]) => (enabled && !rate_limit ? [] : [name])),
    ...Object.entries(modules).flatMap(([id, { constraints }]) =>
      (constraints?.blocked_actions ?? []).map((action) => `${id}.${action}`),
    ),
  ]
  return [config, ...Object.values(config.profiles)].flatMap(collect)
}

type Modules = Readonly<
  Record<string, { readonly constraints?: { readonly blocked_actions?: readonly string[] | undefined } | undefined }>
>
