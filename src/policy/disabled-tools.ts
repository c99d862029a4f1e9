import { createFoldedMatcher } from '../core/name-folding.ts'
import type { Tool } from '../core/tool.ts'
import { actionOf } from '../core/tool-names.ts'
import { type RuleNames, shortOwnerName } from './policy-rules.ts'

/**
 * Finds the entry of `disabled` that disables a tool.
 * @param as the alias under which the tool is listed
 */
type FindDisabledName = (tool: Tool, names: RuleNames, as: string | undefined) => string | undefined

/**
 * @param disabled tool names, ids or patterns, which match any spelling. A name as written has priority
 * @param enabled names or ids of tools to which patterns of `disabled` do not apply
 */
export function createDisabledNameFinder(disabled: readonly string[], enabled: readonly string[]): FindDisabledName {
  if (disabled.length === 0) return () => undefined
  const exactNames = new Set(disabled)
  const enabledNames = new Set(enabled)
  const entries = [...exactNames].map((name) => ({ name, matches: createFoldedMatcher([name]) }))
  return (tool, names, as) => {
    const ownNames = listRuleNames(tool, actionOf(tool))
    const aliasNames = as === undefined ? [] : listRuleNames(tool, as)
    const exact = [tool.name, ...ownNames, ...aliasNames].find((name) => exactNames.has(name))
    if (exact !== undefined) return exact
    const isEnabled = ownNames.some((name) => enabledNames.has(name))
    const candidates = isEnabled ? entries.filter(({ name }) => !name.includes('*')) : entries
    return candidates.find(({ matches }) => matches(names.all()))?.name
  }
}

/** The forms in which the operator may write an action of a tool. */
const listRuleNames = ({ module }: Tool, action: string): string[] => [
  `${module}.${action}`,
  action,
  `${shortOwnerName(module)}.${action}`,
]
