import type { Caller } from '../core/caller.ts'
import { createFoldedMatcher, matchesGlob, type Spellings, spellingsOf } from '../core/name-folding.ts'
import { once } from '../core/once.ts'
import type { Tool } from '../core/tool.ts'
import { actionOf, OWN_PREFIX, removeOwnerPrefix } from '../core/tool-names.ts'
import type { RuleSetting } from './policy-options.ts'

/**
 * The properties of a caller that rules check. A token, a login, the profile or the operator decides them. The client's
 * name is none of them, because a client chooses its own name. A new property also belongs in `sharedCaller` in
 * `src/view/views.ts`: callers for whom these properties are equal share a view, and rules see no others. If a
 * property differs for nearly every caller, `sharedCaller` must drop it unless a rule uses it: otherwise no callers
 * would share a view.
 *
 * `callerOf` (`src/server/identity.ts`) creates the callers of clients. Those of the command line, the page and agents
 * begin with `localCaller`. `src/exec/stored-caller.ts` stores the callers of planned calls. The
 * random test of the policy has its own callers, in `test/security/tool-routes-app.ts`.
 */
export type Actor = Pick<Caller, 'profile' | 'roles'>

/** One entry of a policy list. */
export interface Rule {
  readonly reason: string | undefined
  isFor(by: Actor): boolean
  /** False if it matches no tool of this module or server. */
  mayMatch(owner: string): boolean
  /** True if it certainly matches every tool of this module or server. */
  matchesAll(owner: string): boolean
  /** True if it matches this tool, whoever the caller is. */
  matches(tool: Tool, names?: RuleNames): boolean
}

/** The names of a tool that rules compare. Computed on first use, because most rules need only one form. */
export interface RuleNames {
  /** For rules that deny or limit; see `listSpellings`. */
  all(): Spellings
  /** For rules that permit; see `listExactNames`. */
  exact(): Spellings
}

/** @returns the names, each computed once: pass them to all rules that compare this tool */
export const namesOf = (tool: Tool): RuleNames => ({
  all: once(() => listSpellings(tool)),
  exact: once(() => listExactNames(tool)),
})

interface CallerCondition {
  isFor(by: Actor): boolean
}

/** A condition on a tool. `mayMatch` and `matchesAll` are for conditions that the id of an owner can decide. */
interface ToolCondition {
  /** `tool.unverifiedRead`: only the server says that the tool just reads. A rule that permits does not trust this. */
  matches(tool: Tool, names: RuleNames): boolean
  /**
   * False if no tool of this owner matches (default: true). If it can be false, add the condition to `ownersIn` in
   * `src/app/unmatched-rules.ts`. There, undefined stands for any owner.
   */
  mayMatch?(owner: string): boolean
  /**
   * True if all tools of this owner certainly match (default: false). Such a rule also hides the owner's resources and
   * prompts.
   */
  matchesAll?(owner: string): boolean
}

type ConditionKey = Exclude<keyof Exclude<RuleSetting, string>, 'reason'>

/** A character that no tool name contains; a pattern that matches it matches everything. */
const ANY = '\u0000'

/**
 * @param permits true for a rule that allows something. Such a rule ignores a server's own claim that a tool only
 * reads, and matches only the exact name. Other rules match every spelling.
 */
export function createRule(setting: RuleSetting, permits = false): Rule {
  const { tools, module, actions, effects, roles, profiles, reason } =
    typeof setting === 'string' ? ({ tools: setting } as Exclude<RuleSetting, string>) : setting
  const matchesProfile = profiles && compilePatterns(profiles)
  const matchesName = module === undefined ? undefined : compilePatterns([lower(module)])
  const matchesOwner =
    matchesName &&
    ((owner: string): boolean =>
      matchesName(lower(owner)) || (!(permits && isRenamedModule(owner)) && matchesName(lower(shortOwnerName(owner)))))
  const nameMatcher = tools === undefined ? undefined : createNameMatcher(listOf(tools), permits, ownerInLowerCase)
  const actionMatcher =
    actions === undefined ? undefined : createNameMatcher(listOf(actions), permits, (action) => action)
  // Cheap conditions come first, because the first that fails decides.
  const byKey: Readonly<Record<ConditionKey, CallerCondition | ToolCondition | undefined>> = {
    roles: roles && { isFor: (by) => roles.some((role) => by.roles.includes(role)) },
    profiles: matchesProfile && { isFor: ({ profile }) => matchesProfile(profile) },
    module: matchesOwner && {
      matches: (tool) => matchesOwner(tool.module),
      mayMatch: matchesOwner,
      matchesAll: matchesOwner,
    },
    effects: effects && {
      matches: (tool) => effects.includes(permits && tool.unverifiedRead ? 'write' : tool.effect),
    },
    tools: nameMatcher && {
      matches: (tool, names) => nameMatcher.matches(permits ? names.exact() : names.all(), tool),
      matchesAll: (owner) =>
        [owner, shortOwnerName(owner)]
          .flatMap((one) => [`${one}.${ANY}`, `${one}__${ANY}`])
          .map(lower)
          .some(nameMatcher.matchesExactly),
    },
    actions: actionMatcher && {
      matches: (tool, names) => actionMatcher.matches(permits ? spellingsOf([actionOf(tool)]) : names.all(), tool),
      matchesAll: () => actionMatcher.matchesExactly(ANY),
    },
  }
  const conditions = Object.values(byKey).filter((one) => one !== undefined)
  const ofCaller = conditions.filter((one) => 'isFor' in one)
  const ofTool = conditions.filter((one) => 'matches' in one)
  return {
    reason,
    isFor: (by) => ofCaller.every((one) => one.isFor(by)),
    mayMatch: (owner) => ofTool.every((one) => one.mayMatch?.(owner) ?? true),
    matchesAll: (owner) => ofTool.every((one) => one.matchesAll?.(owner) ?? false),
    matches: (tool, names = namesOf(tool)) => ofTool.every((one) => one.matches(tool, names)),
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
  const owners = [...new Set([tool.module, shortOwnerName(tool.module)])]
  const withOwner = (actions: readonly string[]): string[] =>
    owners.flatMap((owner) => actions.flatMap((one) => [`${owner}.${one}`, `${owner}__${one}`]))
  const named = spellingsOf([tool.id, tool.name, ...actions, ...withOwner(actions)])
  const phrases = [...tool.aliases, ...(tool.searchPhrases ?? [])]
  return { ...named, names: [...named.names, ...phrases, ...withOwner(phrases)].map(lower) }
}

/** A tool's names for rules that permit. No aliases, because anybody may claim an alias. */
const listExactNames = (tool: Tool): Spellings =>
  spellingsOf([
    tool.id,
    tool.name,
    `${isRenamedModule(tool.module) ? 'pegboard.' : ''}${shortOwnerName(tool.module)}.${actionOf(tool)}`,
  ])

export const lower = (name: string): string => name.toLowerCase()
export const listOf = (patterns: string | readonly string[]): readonly string[] =>
  typeof patterns === 'string' ? [patterns] : patterns
/** The patterns of a rule. Actions of a module have its name as a prefix. */
export function listPatterns(rule: RuleSetting): readonly string[] {
  if (typeof rule === 'string') return [rule]
  const { tools = [], module, actions = [] } = rule
  return [...listOf(tools), ...listOf(actions).map((action) => (module === undefined ? action : `${module}.${action}`))]
}
/** The name that the operator uses: `github` for `mcp_github`, `filesystem` for `pegboard_filesystem`. */
export const shortOwnerName = (owner: string): string =>
  isRenamedModule(owner) ? owner.slice(OWN_PREFIX.length) : removeOwnerPrefix(owner)

/**
 * True for a bundled module whose id begins with `pegboard_`, because a configured server has the same name. A rule that
 * permits this name means the server.
 */
const isRenamedModule = (owner: string): boolean => owner.startsWith(OWN_PREFIX)

/**
 * Compiles patterns such as `filesystem.*`, `*.delete_*` and `read`: `*` matches any run of characters. Linear time
 * for any pattern.
 */
export function compilePatterns(patterns: readonly string[]): (name: string) => boolean {
  const exact = new Set(patterns.filter((pattern) => !pattern.includes('*')))
  const globs = patterns.filter((pattern) => pattern.includes('*')).map((pattern) => pattern.split('*'))
  return (name) => exact.has(name) || globs.some((parts) => matchesGlob(parts, name))
}
