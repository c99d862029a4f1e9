import type { Snapshot } from '../catalog/catalog.ts'
import type { Owner } from '../catalog/owner.ts'
import type { Config } from '../config/load-config.ts'
import type { Tool } from '../core/tool.ts'
import { entriesOf, type RuleSetting } from '../policy/policy-options.ts'
import { compilePatterns, createRule, listOf, listPatterns, lower, shortOwnerName } from '../policy/policy-rules.ts'
import { withRenamedOwners } from '../policy/renamed-owners.ts'
import { moduleIds } from '../upstream/upstreams.ts'
import { renamedIn } from './profile-rules.ts'

/** A rule that matches no tool: probably a typo, or the tool was renamed. Or a rule about one tool that matches several. */
export interface UnmatchedRule {
  /** For the operator. */
  readonly sentence: string
  /** Owner parts of its patterns in lower case; undefined if a pattern may concern any owner. */
  readonly owners: readonly (string | undefined)[]
}

interface Entry {
  readonly setting: string
  /** The entry of the configuration; its keys have the order of the schema. */
  readonly configured: unknown
  /** The entry, and copies of it with the other names of its servers. */
  readonly variants: readonly RuleSetting[]
  readonly permits: boolean
}

/** Rules of the configuration and its profiles that match no tool, not even one that waits for a review. */
export function unmatchedRules(config: Config, snapshot: Snapshot): readonly UnmatchedRule[] {
  const entries = policyEntries(config)
  if (entries.length === 0) return []
  const owners = [...snapshot.owners.values()]
  // Tools that got another name than their owner gives them.
  const renamedTools = snapshot.clashes.flatMap(({ ids }) => ids.flatMap((id) => snapshot.byId.get(id) ?? []))
  return entries
    .filter((entry) => !owners.some((owner) => hasMatch(entry, owner)) && !renamedTools.some(createMatcher(entry)))
    .map(({ setting, configured, variants }) => ({
      sentence: `${setting} names ${JSON.stringify(configured)}, which matches no tool.`,
      owners: variants.flatMap(ownersIn),
    }))
}

/** Rules that name one tool and apply to several of a server, because their names differ in spelling only. */
export function ambiguousRules(config: Config, snapshot: Snapshot): readonly UnmatchedRule[] {
  const owners = [...snapshot.owners.values()]
  return policyEntries(config)
    .filter(({ permits }) => !permits)
    .flatMap(({ setting, variants }) =>
      [...new Set(variants.flatMap(listPatterns).filter(isSingle))].flatMap((name) => {
        const head = ownerIn(name)
        const rule = { owners: [head] }
        return owners.flatMap((owner) => {
          if (!mayConcern(rule, owner.id)) return []
          const matches = describeMatches(name, owner)
          return matches === undefined
            ? []
            : [{ ...rule, sentence: `${setting} names ${JSON.stringify(name)}, which matches ${matches}.` }]
        })
      }),
    )
}

/** The entries of the policy and of the policies of profiles. */
export function policyEntries(config: Config): readonly Entry[] {
  const ids = moduleIds(config.servers)
  const entriesIn = (
    { policy }: Pick<Config, 'policy'>,
    where: string,
    renamed: ReturnType<typeof renamedIn>,
  ): Entry[] =>
    entriesOf(policy).map(({ setting, configured, rules, permits }) => ({
      setting: `${where}${setting}`,
      configured,
      variants: withRenamedOwners({ deny: rules }, renamed).deny ?? [],
      permits,
    }))
  return [
    ...entriesIn(config, '', renamedIn(config, ids)),
    ...Object.entries(config.profiles).flatMap(([id, profile]) =>
      entriesIn(profile, `profiles.${id}.`, renamedIn(config, ids, profile)),
    ),
  ]
}

type RulePattern = Pick<Entry, 'variants' | 'permits'>

/** Ids of fitting tools by rule, cached by the list of tools: there may be ten thousand. */
const matchesByRule = new WeakMap<readonly Tool[], Map<string, readonly string[]>>()

/** The tools of an owner that a rule fits: ids, and the number of those that wait for a review. */
function matchingTools({ variants, permits }: RulePattern, { tools, quarantined }: Owner) {
  const key = JSON.stringify([variants, permits])
  const matches = createMatcher({ variants, permits })
  const idsByRule = matchesByRule.get(tools) ?? new Map<string, readonly string[]>()
  const ids = idsByRule.get(key) ?? tools.filter(matches).map(({ id }) => id)
  matchesByRule.set(tools, idsByRule.set(key, ids))
  return { ids, waiting: quarantined.filter(({ tool }) => matches(tool)).length }
}

const hasMatch = (entry: Entry, owner: Owner): boolean => {
  const { ids, waiting } = matchingTools(entry, owner)
  return ids.length + waiting > 0
}

/** `3 tools: a, b and 1 that waits for a review`; undefined if fewer than two fit. */
function describeMatches(name: string, owner: Owner): string | undefined {
  // Names that wait for a review are not shown.
  const { ids: found, waiting } = matchingTools({ variants: [name], permits: false }, owner)
  const total = found.length + waiting
  if (total < 2) return undefined
  const shown = found.slice(0, 5).join(', ')
  const rest = found.length > 5 ? ', …' : ''
  const waitingText = waiting === 0 ? '' : `${waiting} that ${waiting === 1 ? 'waits' : 'wait'} for a review`
  return `${total} tools: ${[`${shown}${rest}`, waitingText].filter(Boolean).join(' and ')}`
}

/** Creates a function that is true if one of the rules matches a tool, whoever the caller is. */
function createMatcher({ variants, permits }: RulePattern): (tool: Tool) => boolean {
  const rules = variants.map((rule) => createRule(rule, permits))
  return (tool) => rules.some((rule) => rule.matches(tool))
}

/** The owners that a rule names. Undefined stands for any owner. */
function ownersIn(rule: RuleSetting): readonly (string | undefined)[] {
  const { module, tools } = typeof rule === 'string' ? { tools: rule } : rule
  return module === undefined ? listOf(tools ?? '*').map(ownerIn) : [lower(module)]
}

/** True for a pattern that names one tool of one owner. */
const isSingle = (pattern: string): boolean => !pattern.includes('*') && ownerIn(pattern) !== undefined

/** The owner part of a pattern; undefined if it has none. */
const ownerIn = (pattern: string): string | undefined => /^([^.]*?)(?:\.|__)/.exec(lower(pattern))?.[1]

/** Ignores punctuation, because rules match other spellings, too. */
const removePunctuation = (name: string): string => lower(name).replaceAll(/[^\p{L}\p{N}*]/gu, '')

/** Whether the rule may concern tools of this owner. */
export function mayConcern({ owners }: Pick<UnmatchedRule, 'owners'>, owner: string): boolean {
  const names = [owner, shortOwnerName(owner)].map(removePunctuation)
  return owners.some((head) => head === undefined || names.some(compilePatterns([removePunctuation(head)])))
}

/** Ids of the owners that the rule names, also of those that are off. */
export const ownersNamedIn = ({ owners }: UnmatchedRule, { ownersNamed }: Pick<Snapshot, 'ownersNamed'>): string[] =>
  owners.flatMap((head) => (head === undefined ? [] : [...ownersNamed(head)]))

/**
 * Rules that certainly match no tool: the tools of all owners that they may concern are known, and some owner that they name is on.
 * @param unknownOwners ids of owners whose tools are not known yet
 */
export const certainlyUnmatched = (
  rules: readonly UnmatchedRule[],
  snapshot: Pick<Snapshot, 'owners' | 'ownersNamed'>,
  unknownOwners: readonly string[],
): readonly UnmatchedRule[] =>
  rules.filter((rule) => {
    const named = ownersNamedIn(rule, snapshot)
    const isOff = named.length > 0 && !named.some((id) => snapshot.owners.has(id))
    return !isOff && !unknownOwners.some((owner) => mayConcern(rule, owner))
  })
