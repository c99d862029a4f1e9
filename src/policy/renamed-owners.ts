import type { PolicySettings } from './policy.ts'
import { type RateSetting, RULE_LISTS, type RuleSetting } from './policy-options.ts'
import { listOf, lower } from './policy-rules.ts'

/** Short owner names by the lower-case name in settings: a profile's `search` may be `search_guild` for others. */
export type OwnerRenames = ReadonlyMap<string, string>

/** Adds settings that name an owner by its other name under this name too. */
export function withRenamedOwners(settings: PolicySettings, renamed: OwnerRenames): PolicySettings {
  if (renamed.size === 0) return settings
  const other = (owner: string): readonly string[] => {
    const name = renamed.get(lower(owner).replace(/^mcp_/, ''))
    return name === undefined ? [] : [name]
  }
  const patterns = (given: string | readonly string[]): string[] =>
    listOf(given).flatMap((pattern) => [pattern, ...ofTools(pattern, renamed)])
  const rules = (list: readonly RuleSetting[] = []): RuleSetting[] =>
    list.flatMap((rule): RuleSetting[] => {
      if (typeof rule === 'string') return patterns(rule)
      const whole = rule.tools === undefined ? rule : { ...rule, tools: patterns(rule.tools) }
      return [whole, ...(rule.module === undefined ? [] : other(rule.module).map((module) => ({ ...whole, module })))]
    })
  const rates = (list: readonly RateSetting[] = []): RateSetting[] =>
    list.map((rate) => ({ ...rate, tools: patterns(rate.tools) }))
  const byTool = <Value>(table: Readonly<Record<string, Value>> = {}): Record<string, Value> => ({
    ...Object.fromEntries(
      Object.entries(table).flatMap(([name, one]) => ofTools(name, renamed).map((to) => [to, one])),
    ),
    ...table,
  })
  const byOwner = <Value>(table: Readonly<Record<string, Value>> = {}): Record<string, Value> => ({
    ...Object.fromEntries(
      Object.entries(table).flatMap(([name, one]) =>
        other(name).map((to) => [`${/^mcp_/i.exec(name)?.[0] ?? ''}${to}`, one]),
      ),
    ),
    ...table,
  })
  return {
    ...settings,
    ...Object.fromEntries(RULE_LISTS.map((list) => [list, rules(settings[list])])),
    rateLimits: rates(settings.rateLimits),
    perMinute: byTool(settings.perMinute),
    disabled: [...(settings.disabled ?? []), ...(settings.disabled ?? []).flatMap((name) => ofTools(name, renamed))],
    constraints: byOwner(settings.constraints),
    tripwires: byOwner(settings.tripwires),
  }
}

/** A tool pattern that begins with an owner's name, rewritten to the other name. */
function ofTools(pattern: string, renamed: OwnerRenames): string[] {
  const folded = lower(pattern)
  return [...renamed].flatMap(([called, name]) => {
    const head = [called, `mcp_${called}`].find((one) => folded.startsWith(one))
    const rest = head === undefined ? '' : pattern.slice(head.length)
    return rest.startsWith('.') || rest.startsWith('__') ? [`${name}${rest}`] : []
  })
}
