import { getOrInsert } from '../core/get-or-insert.ts'
import type { Spellings } from '../core/name-folding.ts'
import type { Tool } from '../core/tool.ts'
import { actionOf, isToolName } from '../core/tool-names.ts'
import type { Constraints } from './policy-options.ts'
import {
  compilePatterns,
  createSpellingMatcher,
  listSpellings,
  lower,
  type RuleNames,
  shortOwnerName,
} from './policy-rules.ts'

/** The actions that the operator allows or blocks for modules and servers. */
export interface ConstraintRules {
  /** @returns why the tool is denied, or the only alias under which it is allowed, or neither */
  check(tool: Tool, names: RuleNames): { readonly denial?: string; readonly as?: string }
  /** True if an entry names this module or server. */
  constrains(owner: string): boolean
  /** Actions that match no tool of their module: probably typos. */
  listUnmatched(tools: Iterable<Tool>): Array<{ readonly owner: string; readonly action: string }>
}

/** @param settingPrefix prefix of setting names in reasons */
export function createConstraintRules(
  settings: Readonly<Record<string, Constraints>>,
  settingPrefix: string,
): ConstraintRules {
  const entries = Object.entries(settings).map(([name, { allowed_actions, blocked_actions = [] }]) => ({
    name,
    setting: `${settingPrefix}modules.${name}.constraints`,
    actions: [...(allowed_actions ?? []), ...blocked_actions],
    allows: allowed_actions && compilePatterns(allowed_actions),
    blocks: createSpellingMatcher(blocked_actions),
  }))

  /** The entries that name an owner, the one with its full id first. */
  function entriesFor(owner: string): typeof entries {
    if (entries.length === 0) return entries
    const ownerNames = new Set([lower(owner), lower(shortOwnerName(owner))])
    return [...ownerNames].flatMap((ownerName) => entries.filter(({ name }) => lower(name) === ownerName))
  }

  return {
    check(tool, names) {
      const ownEntries = entriesFor(tool.module)
      const blocking = ownEntries.find(({ blocks }) => blocks(names.all()))
      if (blocking) return { denial: `blocked by ${blocking.setting}.blocked_actions` }
      const { allows, setting } = ownEntries.find(({ allows }) => allows) ?? {}
      if (!allows || allows(actionOf(tool))) return {}
      const as = (tool.chosenAliases ?? tool.aliases).filter(isToolName).find(allows)
      return as === undefined ? { denial: `not in ${setting}.allowed_actions` } : { as }
    },
    constrains: (owner) => entriesFor(owner).length > 0,
    listUnmatched(tools) {
      if (entries.length === 0) return []
      const spellingsByName = new Map<string, Spellings[]>()
      for (const tool of tools)
        for (const { name } of entriesFor(tool.module))
          getOrInsert(spellingsByName, name, () => []).push(listSpellings(tool))
      return entries.flatMap(({ name, actions }) =>
        actions
          .filter((action) => spellingsByName.get(name)?.some(createSpellingMatcher([action])) === false)
          .map((action) => ({ owner: name, action })),
      )
    },
  }
}
