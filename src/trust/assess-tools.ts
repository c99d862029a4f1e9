import { checkDefinition } from './definition-checks.ts'
import { type Finding, findingWords } from './finding.ts'
import { fingerprint } from './fingerprint.ts'
import type { Pins } from './lock-file.ts'
import type { PendingMention } from './pending-mentions.ts'
import type { NameSet } from './steering.ts'

export type TrustMode = 'review' | 'first-use' | 'always'

/** A tool as its server sent it: name, fingerprint, and the whole definition as JSON. */
export interface ListedDefinition {
  readonly name: string
  readonly hash: string
  readonly text: string
  /** Its server lists it twice with different definitions. The text is the first; the fingerprint depends on both. */
  readonly isAmbiguous?: boolean
}

/** Queries about the tools of other owners. There may be ten thousand, so they are not listed. */
export interface OtherTools {
  /** Names that look like this one, by skeleton; at most one per owner. */
  lookalikes(skeleton: string): readonly string[]
  /** True if a text may mean one of these tools by this lower-case spelling. */
  isSpelling(spelling: string): boolean
  /** Descriptions of the tools with this name, in any spelling. */
  descriptionsOf(name: string): readonly string[]
}

/** All tools that a server offers, to be assessed together. */
export interface ServerTools {
  /** The server's key in the lock file. */
  readonly server: string
  readonly mode: TrustMode
  readonly tools: readonly ListedDefinition[]
  /** Definitions read just now, by name; texts and fingerprints are computed from these. */
  readonly definitions?: Pick<ReadonlyMap<string, Readonly<Record<string, unknown>>>, 'get'> | undefined
  readonly otherTools: OtherTools
  /** The server's own tools, as texts of other servers may mention them. */
  readonly ownTools?: (() => OtherTools) | undefined
  readonly reserved: ReadonlySet<string>
  /** True if removing these approved tools leaves a rule of the operator without any tool of the server. */
  losesRule?(removed: readonly string[]): boolean
}

export interface QuarantineReason {
  /** `changed`: another definition is approved; `rejected`: a person rejected this definition. */
  readonly why: 'changed' | 'new' | 'flagged' | 'rejected' | 'ambiguous' | 'unreadable'
  readonly code: 'E_TOOL_CHANGED' | 'E_TOOL_QUARANTINED'
  /** Completes the sentence "it …". Quotes nothing of the definition, so that a model may read it. */
  readonly reason: string
  /** For people only: findings quote the definition. */
  readonly findings: readonly Finding[]
}

export interface Assessment {
  /** Quarantined tools by name. */
  readonly quarantined: ReadonlyMap<string, QuarantineReason>
  /** Tools approved automatically; they are added to the lock file. */
  readonly newlyApproved: readonly ListedDefinition[]
  /** Those of them that would be quarantined if the tools they mention existed. */
  readonly pendingMentions: ReadonlyMap<string, PendingMention>
}

export interface AssessmentRules {
  readonly pins: Pins | undefined
  /** The lock file exists but cannot be read. */
  readonly broken: boolean
  /** The first look has not ended: tools that appear now count as initial tools. */
  readonly inFirstLook?: boolean
  /** Approve only what is in the lock file. */
  readonly frozen: boolean
  /** Tools that lost an approval, with the reason; they are quarantined even during the first look. */
  readonly withdrawn?: ReadonlyMap<string, string>
}

const emptyAssessment: Assessment = { quarantined: new Map(), newlyApproved: [], pendingMentions: new Map() }

/** Decides about every tool of a server, without side effects. A tool already in the lock file costs one comparison. */
export function assess(listing: ServerTools, rules: AssessmentRules): Assessment {
  const { pins } = rules
  const unapproved = listing.tools.filter(({ name, hash }) => pins?.get(name) !== hash)
  if (unapproved.length === 0) return emptyAssessment
  const hasLostRule = removedRuleMatches(listing, pins)
  let unknownNames: string[] = []
  const context = createCheckContext(listing, (spelling) => unknownNames.push(spelling))
  const quarantined = new Map<string, QuarantineReason>()
  const newlyApproved: ListedDefinition[] = []
  const pendingMentions = new Map<string, PendingMention>()
  for (const tool of unapproved) {
    const definition = listing.definitions?.get(tool.name) ?? definitionOf(tool)
    unknownNames = []
    const findings = definition ? checkDefinition(definition, context, tool.text) : []
    const verdict = definition
      ? judge(tool, listing.mode, { ...rules, hasLostRule }, findings)
      : createQuarantine('unreadable', UNREADABLE)
    if (verdict) {
      quarantined.set(tool.name, { ...verdict, findings })
      continue
    }
    newlyApproved.push(tool)
    if (unknownNames.length === 0 || definition === undefined || listing.mode === 'always') continue
    const names = findDoubtfulNames(unknownNames, pendingMentions.size < MAX_CHECKED_TOOLS, (isOther) =>
      checkDefinition(definition, { ...context, isOther, onUnknownTool: undefined }, tool.text),
    )
    if (names.length > 0) pendingMentions.set(tool.name, { hash: tool.hash, names })
  }
  return { quarantined, newlyApproved, pendingMentions }
}

// A hostile server may have written thousands.
const MAX_NAMES = 20
const MAX_CHECKED_TOOLS = 200

/**
 * The names that would cause a doubt if a tool had them.
 * @param checkEach false if the result may contain other names too
 */
function findDoubtfulNames(
  names: readonly string[],
  checkEach: boolean,
  check: (isOther: NameSet['has']) => readonly Finding[],
): string[] {
  const causesDoubt = (isOther: NameSet['has']): boolean => check(isOther).some(({ level }) => level === 'doubt')
  if (!causesDoubt(() => true)) return []
  const candidates = [...new Set(names)].slice(0, MAX_NAMES)
  return checkEach ? candidates.filter((name) => causesDoubt((spelling) => spelling === name)) : candidates
}

const UNREADABLE = 'cannot be read from the cache; Pegboard checks it again when its server starts'

/** Undefined if the text does not match the fingerprint. */
function definitionOf({ hash, text, isAmbiguous }: ListedDefinition): Readonly<Record<string, unknown>> | undefined {
  try {
    const definition = JSON.parse(text) as Record<string, unknown>
    return isAmbiguous || fingerprint(definition) === hash ? definition : undefined
  } catch {
    return undefined
  }
}

type Verdict = Omit<QuarantineReason, 'findings'>

/** A server lists at most 500 tools. Without this limit, one that keeps inventing names would fill the disk. */
const MAX_PINS = 2_000

/** A tool that a rule matched may be back under another name. */
function removedRuleMatches({ tools, losesRule }: ServerTools, pins: Pins | undefined): boolean {
  if (!losesRule || !pins) return false
  const presentNames = new Set(tools.map(({ name }) => name))
  const removed = [...pins].flatMap(([name, pin]) =>
    presentNames.has(name) || pin.startsWith('rejected ') ? [] : [name],
  )
  return removed.length > 0 && losesRule(removed)
}

function judge(
  tool: ListedDefinition,
  mode: TrustMode,
  rules: AssessmentRules & { readonly hasLostRule: boolean },
  findings: readonly Finding[],
): Verdict | undefined {
  const pin = rules.pins?.get(tool.name)
  if (pin === `rejected ${tool.hash}`) return createQuarantine('rejected', 'was rejected in a review')
  const approved = pin !== undefined && !pin.startsWith('rejected ')
  const blocking = findings.filter(({ level }) => level === 'block' || (level === 'doubt' && mode !== 'always'))
  const words = [...new Set(blocking.map(({ code }) => findingWords[code]))].join(', ')
  const suffix = words === '' ? '' : ` and has ${words}`
  if (tool.isAmbiguous && mode !== 'always')
    return {
      why: 'ambiguous',
      code: approved ? 'E_TOOL_CHANGED' : 'E_TOOL_QUARANTINED',
      reason: `is listed twice by its server with different definitions${suffix}`,
    }
  if (approved && (rules.frozen || mode !== 'always' || blocking.length > 0))
    return { why: 'changed', code: 'E_TOOL_CHANGED', reason: `has changed since it was approved${suffix}` }
  if (blocking.length > 0) return createQuarantine('flagged', `has ${words}`)
  if (rules.frozen) return createQuarantine('new', 'is not in the lock file, and --frozen allows no other tools')
  if (rules.hasLostRule && pin === undefined)
    return createQuarantine('new', 'is new, and a rule of the operator names a tool that its server no longer has')
  if (pin === undefined && (rules.pins?.size ?? 0) >= MAX_PINS)
    return createQuarantine('new', `is new, and ${MAX_PINS} tools of its server are in the lock file already`)
  if (mode === 'always') return undefined
  const withdrawn = rules.withdrawn?.get(tool.name)
  if (withdrawn !== undefined) return createQuarantine('new', `${withdrawn}, so it needs a new approval`)
  if (rules.broken)
    return createQuarantine('unreadable', 'cannot be compared with the approved definition: the lock file is damaged')
  if (mode === 'first-use' && (rules.pins === undefined || (rules.inFirstLook === true && pin === undefined)))
    return undefined
  return createQuarantine('new', 'is new and not approved yet')
}

const createQuarantine = (why: QuarantineReason['why'], reason: string): Verdict => ({
  why,
  code: 'E_TOOL_QUARANTINED',
  reason,
})

const createCheckContext = (
  { tools, otherTools, reserved }: ServerTools,
  onUnknownTool: (spelling: string) => void,
): Parameters<typeof checkDefinition>[1] => ({
  ownNames: new Set(tools.map(({ name }) => name)),
  reserved,
  isOther: otherTools.isSpelling,
  onUnknownTool,
  lookalikes: otherTools.lookalikes,
  descriptionsOf: otherTools.descriptionsOf,
})
