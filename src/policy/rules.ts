import type { Caller } from '../core/context.ts'
import { covering, matchesGlob, type Spellings, spellingsOf } from '../core/fold.ts'
import type { Tool } from '../core/tool.ts'
import type { RuleSetting } from './options.ts'

/** Whom a rule may be about. */
export type Actor = Pick<Caller, 'profile' | 'roles'>

/** One entry of a list of the policy. */
export interface Rule {
  readonly reason: string | undefined
  /** It may be about tools of this module or server. */
  concerns(owner: string): boolean
  /**
   * It is about all of this module or server, whatever a tool is called and does.
   * @param by who asks; absent: it is about that whoever asks
   */
  covers(owner: string, by?: Actor): boolean
  /** @param names what the tool may be called: `spellings`, or `ownNames` for a rule that permits */
  fits(tool: Tool, names: () => Spellings, by: Actor): boolean
}

/** What no tool is called: a pattern that fits it fits all. */
const ANY = '\u0000'

/**
 * @param permits it allows something: then it takes no server's word that a tool only reads, and means the tool with
 * exactly this name. Else it covers every spelling of what it names.
 */
export function createRule(given: RuleSetting, permits = false): Rule {
  const { tools, module, actions, effects, roles, profiles, reason } =
    typeof given === 'string' ? ({ tools: given } as Exclude<RuleSetting, string>) : given
  const named = tools === undefined ? undefined : naming(listOf(tools), permits, ownerInLowerCase)
  const acts = actions === undefined ? undefined : naming(listOf(actions), permits, (action) => action)
  const owned = module === undefined ? undefined : matcher([lower(module)])
  const inProfile = profiles && matcher(profiles)
  const concerns = (owner: string): boolean => !owned || owned(lower(owner)) || owned(lower(shortOf(owner)))
  const isAbout = ({ profile, roles: held }: Actor): boolean =>
    (!roles || roles.some((role) => held.includes(role))) && (!inProfile || inProfile(profile))
  return {
    reason,
    concerns,
    covers(owner, by) {
      if (effects || !concerns(owner) || !(by ? isAbout(by) : !roles && !inProfile)) return false
      const names = [owner, shortOf(owner)].flatMap((one) => [`${one}.${ANY}`, `${one}__${ANY}`]).map(lower)
      return (!named || names.some(named.written)) && (!acts || acts.written(ANY))
    },
    fits(tool, names, by) {
      if (!concerns(tool.module) || !isAbout(by)) return false
      if (effects && !effects.includes(permits && tool.hearsay ? 'write' : tool.effect)) return false
      if (named && !named.fits(names(), tool)) return false
      return !acts || acts.fits(permits ? spellingsOf([actionOf(tool)]) : names(), tool)
    },
  }
}

interface Naming {
  /** Whether a name as it is written fits. */
  written(name: string): boolean
  fits(spelled: Spellings, tool: Tool): boolean
}

function naming(patterns: readonly string[], permits: boolean, exactly: (name: string) => string): Naming {
  const written = matcher(patterns.map(lower))
  if (!permits) return { written, fits: coverer(patterns) }
  const exact = matcher(patterns.map(exactly))
  return {
    written,
    // Case tells a server's tools apart; modules are written with care.
    fits: ({ names }, { origin }) =>
      origin === 'module' ? names.map(lower).some(written) : names.map(exactly).some(exact),
  }
}

/** Whether one of these patterns is about a tool by any of its names, in any spelling. */
export function coverer(patterns: readonly string[]): (spelled: Spellings) => boolean {
  const written = matcher(patterns.map(lower))
  const covers = covering(patterns)
  return (spelled) => spelled.names.some(written) || covers(spelled)
}

/** Of `GitHub.getUser` only what comes before the tool's own name: two tools may differ in case. */
const ownerInLowerCase = (pattern: string): string =>
  pattern.replace(/^[^.]*?(?=\.|__)/, (owner) => owner.toLowerCase())

/** What a tool may be called, for what forbids or limits: its names in every spelling, its aliases as they are. */
export function spellings(tool: Tool): Spellings {
  const own = [...new Set([actionOf(tool), ...(tool.ownNames ?? [])])]
  const owners = [...new Set([tool.module, shortOf(tool.module)])]
  const whole = (actions: readonly string[]): string[] =>
    owners.flatMap((owner) => actions.flatMap((one) => [`${owner}.${one}`, `${owner}__${one}`]))
  const named = spellingsOf([tool.id, tool.name, ...own, ...whole(own)])
  return {
    names: [...named.names, ...tool.aliases, ...whole(tool.aliases)].map(lower),
    get folded() {
      return named.folded
    },
    get alike() {
      return named.alike
    },
    get words() {
      return named.words
    },
  }
}

/** What it is called by nobody else, for what permits: an alias is a word anybody may take. */
export const ownNames = (tool: Tool): Spellings =>
  spellingsOf([
    tool.id,
    tool.name,
    `${isSecond(tool.module) ? 'pegboard.' : ''}${shortOf(tool.module)}.${actionOf(tool)}`,
  ])

export const lower = (name: string): string => name.toLowerCase()
export const actionOf = (tool: Tool): string => tool.id.slice(tool.module.length + 1)
export const listOf = (patterns: string | readonly string[]): readonly string[] =>
  typeof patterns === 'string' ? [patterns] : patterns
/** `github` of `mcp_github`: what the operator calls it. */
export const shortOf = (owner: string): string => owner.replace(/^(?:mcp|api|pegboard)_/, '')

/** A bundled module whose own name belongs to a configured server: what permits by that name means the server. */
export const isSecond = (owner: string): boolean => owner.startsWith('pegboard_')

/**
 * Compiles `filesystem.*`, `*.delete_*`, `read` patterns: `*` matches any run of characters, everything else itself.
 * Linear time whatever the pattern.
 */
export function matcher(patterns: readonly string[]): (name: string) => boolean {
  const exact = new Set(patterns.filter((pattern) => !pattern.includes('*')))
  const globs = patterns.filter((pattern) => pattern.includes('*')).map((pattern) => pattern.split('*'))
  return (name) => exact.has(name) || globs.some((parts) => matchesGlob(parts, name))
}
