import type { PolicySettings } from './policy.ts'
import { type RateSetting, RULE_LISTS, type RuleSetting } from './policy-options.ts'
import { listOf, lower } from './policy-rules.ts'

/**
 * Servers whose id differs from their key in the configuration: ids by keys in lower case, both without `mcp_`. For example,
 * two profiles each have a server `search`, and the second server's id is `search_guild`.
 */
export type OwnerRenames = ReadonlyMap<string, string>

/** Copies each setting that names an owner, so that it also applies to the owner's other name. */
export function withRenamedOwners(settings: PolicySettings, renamed: OwnerRenames): PolicySettings {
  if (renamed.size === 0) return settings
  const otherNames = (owner: string): readonly string[] => {
    const name = renamed.get(lower(owner).replace(/^mcp_/, ''))
    return name === undefined ? [] : [name]
  }
  const patterns = (given: string | readonly string[]): string[] =>
    listOf(given).flatMap((pattern) => [pattern, ...renamePattern(pattern, renamed)])
  const rules = (list: readonly RuleSetting[] = []): RuleSetting[] =>
    list.flatMap((rule): RuleSetting[] => {
      if (typeof rule === 'string') return patterns(rule)
      const whole = rule.tools === undefined ? rule : { ...rule, tools: patterns(rule.tools) }
      return [
        whole,
        ...(rule.module === undefined ? [] : otherNames(rule.module).map((module) => ({ ...whole, module }))),
      ]
    })
  const rates = (list: readonly RateSetting[] = []): RateSetting[] =>
    list.map((rate) => ({ ...rate, tools: patterns(rate.tools) }))
  const byTool = <Value>(table: Readonly<Record<string, Value>> = {}): Record<string, Value> => ({
    ...Object.fromEntries(
      Object.entries(table).flatMap(([name, one]) => renamePattern(name, renamed).map((to) => [to, one])),
    ),
    ...table,
  })
  const byOwner = <Value>(table: Readonly<Record<string, Value>> = {}): Record<string, Value> => ({
    ...Object.fromEntries(
      Object.entries(table).flatMap(([name, value]) =>
        otherNames(name).map((to) => [`${/^mcp_/i.exec(name)?.[0] ?? ''}${to}`, value]),
      ),
    ),
    ...table,
  })
  return {
    ...settings,
    ...Object.fromEntries(RULE_LISTS.map((list) => [list, rules(settings[list])])),
    rateLimits: rates(settings.rateLimits),
    perMinute: byTool(settings.perMinute),
    disabled: patterns(settings.disabled ?? []),
    enabled: patterns(settings.enabled ?? []),
    constraints: byOwner(settings.constraints),
    tripwires: byOwner(settings.tripwires),
  }
}

/** A tool pattern that begins with an owner's name, rewritten to the other name. */
function renamePattern(pattern: string, renamed: OwnerRenames): string[] {
  const folded = lower(pattern)
  return [...renamed].flatMap(([oldName, name]) => {
    const head = [oldName, `mcp_${oldName}`].find((one) => folded.startsWith(one))
    const rest = head === undefined ? '' : pattern.slice(head.length)
    return rest.startsWith('.') || rest.startsWith('__') ? [`${name}${rest}`] : []
  })
}
