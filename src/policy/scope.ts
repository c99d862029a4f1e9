import type { Grant } from '../core/context.ts'
import type { Effect, Tool } from '../core/tool.ts'
import { both, type Policy } from './policy.ts'
import { createRule, lower, ownNames, shortOf } from './rules.ts'

const EFFECTS: readonly Effect[] = ['read', 'write', 'destructive']
const SOMEBODY = { profile: '', roles: [] }

/** The same policy for a token with these grants: a tool has to be allowed by both. */
export function scoped(policy: Policy, grants: readonly Grant[]): Policy {
  // What permits something takes no server's word for what its tools do, and knows tools by their own names alone.
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
  const sees = (owner: string): boolean => patterns.some((pattern) => mayName(pattern, lower(owner)))
  return both(policy, {
    decide(given) {
      const tool = given.itself ?? given
      return sees(tool.module) && rules.some((rule) => rule.fits(tool, () => ownNames(tool), SOMEBODY))
        ? { allow: true }
        : { allow: false, kind: 'denied', reason: 'its token is for other tools' }
    },
    sees,
    offers: (owner) => patterns.some((pattern) => namesAll(pattern, lower(owner))),
    allowsAll: () => false,
    guarded: false,
    rates: [],
    tripwire: () => 'off',
    unknownActions: () => [],
  })
}

/** Whether a token for this pattern would be for nothing. What a server has that was never seen, nobody knows. */
export function grantFitsNone(pattern: string, owners: Iterable<Known>): boolean {
  const rule = createRule({ tools: [pattern] }, true)
  for (const { id, tools, withheld } of owners) {
    const all = [...tools, ...withheld.map(({ tool }) => tool)]
    if (
      all.length === 0
        ? mayName(lower(pattern), lower(id))
        : all.some((tool) => rule.fits(tool, () => ownNames(tool), SOMEBODY))
    )
      return false
  }
  return true
}

interface Known {
  readonly id: string
  readonly tools: readonly Tool[]
  readonly withheld: readonly { readonly tool: Tool }[]
}

/** How names of tools of an owner begin. */
const startsOf = (owner: string): readonly string[] =>
  [owner, shortOf(owner)].flatMap((name) => [`${name}.`, `${name}__`])

/** Whether tools of an owner may be meant: without this, an owner of resources alone would be seen by everybody. */
function mayName(pattern: string, owner: string): boolean {
  const star = pattern.indexOf('*')
  const head = star === -1 ? pattern : pattern.slice(0, star)
  return startsOf(owner).some((start) => head.startsWith(start) || (star !== -1 && start.startsWith(head)))
}

/** Whether all tools of an owner are meant, whatever they are called. */
function namesAll(pattern: string, owner: string): boolean {
  const head = pattern.slice(0, -1)
  return pattern.endsWith('*') && !head.includes('*') && startsOf(owner).some((start) => start.startsWith(head))
}
