import type { Caller } from '../core/context.ts'
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
  /** @param names what the tool may be called here, in lower case */
  fits(tool: Tool, names: () => readonly string[], by: Actor): boolean
}

/** What no tool is called: a pattern that fits it fits all. */
const ANY = '\u0000'

/** @param believing takes a server's word that a tool only reads; what permits something does not */
export function createRule(given: RuleSetting, believing = true): Rule {
  const { tools, module, actions, effects, roles, profiles, reason } =
    typeof given === 'string' ? ({ tools: given } as Exclude<RuleSetting, string>) : given
  const named = tools === undefined ? undefined : matcher(listOf(tools).map(lower))
  const acts = actions === undefined ? undefined : matcher(listOf(actions).map(lower))
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
      return (!named || names.some(named)) && (!acts || acts(ANY))
    },
    fits(tool, names, by) {
      if (!concerns(tool.module) || !isAbout(by)) return false
      if (effects && !effects.includes(!believing && tool.hearsay ? 'write' : tool.effect)) return false
      if (named && !names().some(named)) return false
      return !acts || (believing ? names().some(acts) : acts(lower(actionOf(tool))))
    },
  }
}

/** Names of a tool, in lower case: all that it answers to, for what forbids. */
export function spellings(tool: Tool): string[] {
  const actions = [actionOf(tool), ...tool.aliases]
  const owners = new Set([tool.module, shortOf(tool.module)])
  const whole = [...owners].flatMap((owner) => actions.flatMap((one) => [`${owner}.${one}`, `${owner}__${one}`]))
  return [tool.id, tool.name, ...actions, ...whole].map(lower)
}

/** What it is called by nobody else, for what permits: an alias is a word anybody may take. */
export const ownNames = (tool: Tool): string[] =>
  [tool.id, tool.name, `${shortOf(tool.module)}.${actionOf(tool)}`].map(lower)

export const lower = (name: string): string => name.toLowerCase()
export const actionOf = (tool: Tool): string => tool.id.slice(tool.module.length + 1)
export const listOf = (patterns: string | readonly string[]): readonly string[] =>
  typeof patterns === 'string' ? [patterns] : patterns
/** `github` of `mcp_github`: what the operator calls it. */
export const shortOf = (owner: string): string => owner.replace(/^(?:mcp|api)_/, '')

/**
 * Compiles `filesystem.*`, `*.delete_*`, `read` patterns: `*` matches any run of characters, everything else itself.
 * Linear time whatever the pattern.
 */
export function matcher(patterns: readonly string[]): (name: string) => boolean {
  const exact = new Set(patterns.filter((pattern) => !pattern.includes('*')))
  const globs = patterns.filter((pattern) => pattern.includes('*')).map((pattern) => pattern.split('*'))
  return (name) => exact.has(name) || globs.some((parts) => matches(parts, name))
}

function matches(parts: readonly string[], name: string): boolean {
  const first = parts[0] ?? ''
  const last = parts[parts.length - 1] ?? ''
  if (!name.startsWith(first)) return false
  let at = first.length
  for (const part of parts.slice(1, -1)) {
    const found = name.indexOf(part, at)
    if (found < 0) return false
    at = found + part.length
  }
  return name.length - last.length >= at && name.endsWith(last)
}
