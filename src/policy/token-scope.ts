import type { Grant } from '../core/caller.ts'
import { EFFECTS, type Tool } from '../core/tool.ts'
import type { Policy } from './policy.ts'
import { createRule, lower, shortOwnerName } from './policy-rules.ts'

/** A policy limited by a token's grants: both must allow a tool. */
export function limitToGrants(policy: Policy, grants: readonly Grant[]): Policy {
  // Grants permit, so they ignore a server's claims about its tools and match exact names only.
  const rules = grants.map(({ tools, effect }) =>
    createRule(
      {
        ...(tools === undefined ? {} : { tools: [...tools] }),
        effects: EFFECTS.slice(0, EFFECTS.indexOf(effect ?? 'destructive') + 1),
      },
      true,
    ),
  )
  const patterns = grants.flatMap(({ tools }) => tools ?? ['*']).map(lower)
  const namesOwner = (owner: string): boolean => patterns.some((pattern) => mayName(pattern, lower(owner)))
  const isGranted = (tool: Tool): boolean => namesOwner(tool.module) && rules.some((rule) => rule.matches(tool))
  return {
    ...policy,
    decide(tool, by) {
      const decision = policy.decide(tool, by)
      if ((!decision.allow && decision.kind === 'denied') || isGranted(tool.itself ?? tool)) return decision
      return { allow: false, kind: 'denied', reason: 'its token is for other tools' }
    },
    allowsOwner: (owner, by) => policy.allowsOwner(owner, by) && namesOwner(owner),
    allowsResources: (owner, by) =>
      policy.allowsResources(owner, by) && patterns.some((pattern) => namesAll(pattern, lower(owner))),
    allowsAllTools: () => false,
  }
}

/** True if a token with this pattern allows no tool. A server whose tools are unknown may have any tool. */
export function grantFitsNone(pattern: string, owners: Iterable<OwnerTools>): boolean {
  const rule = createRule({ tools: [pattern] }, true)
  for (const { id, tools, quarantined } of owners) {
    const all = [...tools, ...quarantined.map(({ tool }) => tool)]
    if (all.length === 0 ? mayName(lower(pattern), lower(id)) : all.some((tool) => rule.matches(tool))) return false
  }
  return true
}

interface OwnerTools {
  readonly id: string
  readonly tools: readonly Tool[]
  readonly quarantined: readonly { readonly tool: Tool }[]
}

/** Prefixes of the names of an owner's tools. */
const startsOf = (owner: string): readonly string[] =>
  [owner, shortOwnerName(owner)].flatMap((name) => [`${name}.`, `${name}__`])

/** True if the pattern may match tools of an owner. If none does, the caller does not learn about the owner. */
function mayName(pattern: string, owner: string): boolean {
  const star = pattern.indexOf('*')
  const head = star === -1 ? pattern : pattern.slice(0, star)
  return startsOf(owner).some((start) => head.startsWith(start) || (star !== -1 && start.startsWith(head)))
}

/** True if the pattern matches all tools of an owner. */
function namesAll(pattern: string, owner: string): boolean {
  const head = pattern.slice(0, -1)
  return pattern.endsWith('*') && !head.includes('*') && startsOf(owner).some((start) => start.startsWith(head))
}
