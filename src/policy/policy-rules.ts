import type { Caller } from '../core/caller.ts'
import { createFoldedMatcher, matchesGlob, type Spellings, spellingsOf } from '../core/name-folding.ts'
import type { Tool } from '../core/tool.ts'
import type { RuleSetting } from './policy-options.ts'

/** The properties of a caller that rules check. */
export type Actor = Pick<Caller, 'profile' | 'roles'>

/** One entry of a policy list. */
export interface Rule {
  readonly reason: string | undefined
  /** True if it may match a tool of this module or server. False means that it matches none. */
  mayMatch(owner: string): boolean
  /**
   * True if it certainly matches every tool of this module or server. A condition that depends on the tool, such as
   * `effects`, makes it false.
   * @param by the caller; absent: true only if it applies to every caller
   */
  matchesAll(owner: string, by?: Actor): boolean
  /** @param names of the tool: `listSpellings`, or `ownNames` for a rule that permits */
  matches(tool: Tool, names: () => Spellings, by: Actor): boolean
}

/** A character that no tool name contains; a pattern that matches it matches everything. */
const ANY = '\u0000'

/**
 * @param permits true for a rule that allows something. Such a rule ignores a server's own claim that a tool only
 * reads, and matches only the exact name. Other rules match every spelling.
 */
export function createRule(setting: RuleSetting, permits = false): Rule {
  const { tools, module, actions, effects, roles, profiles, reason } =
    typeof setting === 'string' ? ({ tools: setting } as Exclude<RuleSetting, string>) : setting
  const nameMatcher = tools === undefined ? undefined : createNameMatcher(listOf(tools), permits, ownerInLowerCase)
  const actionMatcher =
    actions === undefined ? undefined : createNameMatcher(listOf(actions), permits, (action) => action)
  const matchesModule = module === undefined ? undefined : compilePatterns([lower(module)])
  const matchesProfile = profiles && compilePatterns(profiles)
  const mayMatch = (owner: string): boolean =>
    !matchesModule ||
    matchesModule(lower(owner)) ||
    (!(permits && isRenamedModule(owner)) && matchesModule(lower(shortOf(owner))))
  const isForCaller = ({ profile, roles: callerRoles }: Actor): boolean =>
    (!roles || roles.some((role) => callerRoles.includes(role))) && (!matchesProfile || matchesProfile(profile))
  return {
    reason,
    mayMatch,
    matchesAll(owner, by) {
      if (effects || !mayMatch(owner) || !(by ? isForCaller(by) : !roles && !matchesProfile)) return false
      const names = [owner, shortOf(owner)].flatMap((one) => [`${one}.${ANY}`, `${one}__${ANY}`]).map(lower)
      return (
        (!nameMatcher || names.some(nameMatcher.matchesExactly)) &&
        (!actionMatcher || actionMatcher.matchesExactly(ANY))
      )
    },
    matches(tool, names, by) {
      if (!mayMatch(tool.module) || !isForCaller(by)) return false
      if (effects && !effects.includes(permits && tool.unverifiedRead ? 'write' : tool.effect)) return false
      if (nameMatcher && !nameMatcher.matches(names(), tool)) return false
      return !actionMatcher || actionMatcher.matches(permits ? spellingsOf([actionOf(tool)]) : names(), tool)
    },
  }
}

interface NameMatcher {
  /** True if the name matches exactly as written. */
  matchesExactly(name: string): boolean
  matches(spelled: Spellings, tool: Tool): boolean
}

function createNameMatcher(
  patterns: readonly string[],
  permits: boolean,
  foldExact: (name: string) => string,
): NameMatcher {
  const written = compilePatterns(patterns.map(lower))
  if (!permits) return { matchesExactly: written, matches: createSpellingMatcher(patterns) }
  const exact = compilePatterns(patterns.map(foldExact))
  return {
    matchesExactly: written,
    // Names of a server's tools can differ in case only, so case matters; module names do not.
    matches: ({ names }, { origin }) =>
      origin === 'module' ? names.map(lower).some(written) : names.map(foldExact).some(exact),
  }
}

/** True if one of these patterns matches a tool by any of its names, in any spelling. */
export function createSpellingMatcher(patterns: readonly string[]): (spelled: Spellings) => boolean {
  const written = compilePatterns(patterns.map(lower))
  const folded = createFoldedMatcher(patterns)
  return (spelled) => spelled.names.some(written) || folded(spelled)
}

/** Lowercases only the part before the tool's own name: two tools of a server may differ in case. */
const ownerInLowerCase = (pattern: string): string =>
  pattern.replace(/^[^.]*?(?=\.|__)/, (owner) => owner.toLowerCase())

/** A tool's names for rules that deny or limit: its names in every spelling, and its aliases and search phrases as written. */
export function listSpellings(tool: Tool): Spellings {
  const actions = [...new Set([actionOf(tool), ...(tool.ownNames ?? [])])]
  const owners = [...new Set([tool.module, shortOf(tool.module)])]
  const withOwner = (actions: readonly string[]): string[] =>
    owners.flatMap((owner) => actions.flatMap((one) => [`${owner}.${one}`, `${owner}__${one}`]))
  const named = spellingsOf([tool.id, tool.name, ...actions, ...withOwner(actions)])
  const phrases = [...tool.aliases, ...(tool.searchPhrases ?? [])]
  return { ...named, names: [...named.names, ...phrases, ...withOwner(phrases)].map(lower) }
}

/** A tool's names for rules that permit. No aliases, because anybody may claim an alias. */
export const listExactNames = (tool: Tool): Spellings =>
  spellingsOf([
    tool.id,
    tool.name,
    `${isRenamedModule(tool.module) ? 'pegboard.' : ''}${shortOf(tool.module)}.${actionOf(tool)}`,
  ])

export const lower = (name: string): string => name.toLowerCase()
export const actionOf = (tool: Tool): string => tool.id.slice(tool.module.length + 1)
export const listOf = (patterns: string | readonly string[]): readonly string[] =>
  typeof patterns === 'string' ? [patterns] : patterns
/** The patterns of a rule. Actions of a module have its name as a prefix. */
export function listPatterns(rule: RuleSetting): readonly string[] {
  if (typeof rule === 'string') return [rule]
  const { tools = [], module, actions = [] } = rule
  return [...listOf(tools), ...listOf(actions).map((action) => (module === undefined ? action : `${module}.${action}`))]
}
/** `github` for `mcp_github`: the name the operator uses. */
export const shortOf = (owner: string): string => owner.replace(/^(?:mcp|api|pegboard)_/, '')

/**
 * True for a bundled module whose id begins with `pegboard_`, because a configured server has the same name. A rule that
 * permits this name means the server.
 */
const isRenamedModule = (owner: string): boolean => owner.startsWith('pegboard_')

/**
 * Compiles patterns such as `filesystem.*`, `*.delete_*` and `read`: `*` matches any run of characters. Linear time
 * for any pattern.
 */
export function compilePatterns(patterns: readonly string[]): (name: string) => boolean {
  const exact = new Set(patterns.filter((pattern) => !pattern.includes('*')))
  const globs = patterns.filter((pattern) => pattern.includes('*')).map((pattern) => pattern.split('*'))
  return (name) => exact.has(name) || globs.some((parts) => matchesGlob(parts, name))
}
