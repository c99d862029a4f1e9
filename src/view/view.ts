import type { Snapshot } from '../catalog/catalog.ts'
import type { Owner } from '../catalog/owner.ts'
import type { Caller } from '../core/caller.ts'
import { formatCount } from '../core/format-count.ts'
import { once } from '../core/once.ts'
import type { Profile } from '../core/profile.ts'
import type { Schema } from '../core/schema.ts'
import type { Tool } from '../core/tool.ts'
import type { Policy } from '../policy/policy.ts'
import { type ClientLimits, styleFor } from './client-limits.ts'
import { countTools } from './count-tools.ts'
import {
  type ListingLimits,
  type MergeScope,
  mergeTools,
  type QuarantinedTools,
  quarantinedTools,
  unchangedEntry,
} from './merge-tools.ts'
import type { SchemaStyle } from './portable-schema.ts'
import { createResolver, type Resolution } from './resolve-name.ts'
import { checkVisibility, type HiddenReason } from './visibility.ts'

/** A tool as one caller sees it. */
export interface ViewTool {
  readonly tool: Tool
  readonly description: string
  readonly input: Schema
  /** How its schemas are listed; default portable. */
  readonly schema?: SchemaStyle
  /** Whether it is listed with its output schema; default no. */
  readonly listsOutput?: View['listsOutput']
}

/** A tool or server that may have its own limit for results. */
export type ResultSource = Pick<Tool, 'id' | 'maxResultTokens'>

/**
 * The catalog as one caller may see it now. A call of any other tool fails as if the tool did not exist. A call of a visible
 * tool can still be refused, for example by an approval or a rate limit.
 */
export interface View {
  /** The caller without its client, because the name of the client must not decide what a caller sees. */
  readonly caller: Caller
  readonly profile: Profile
  /** Names and schemas are adapted to these limits of the client. */
  readonly limits: ClientLimits
  readonly policy: Policy
  /** Sorted by module id, then in the module's own order, so that prompt caches stay valid. */
  readonly tools: readonly ViewTool[]
  /** By catalog id, also if the caller knows the tool only by an alias. */
  readonly byId: ReadonlyMap<string, ViewTool>
  /** Owners with a visible tool, resource or prompt, and servers that are not ready. */
  readonly owners: readonly Owner[]
  /** Owners with `notices` of whose tools the caller sees at least one. */
  readonly noticing: readonly Owner[]
  /** Why each other tool is hidden, by catalog id. */
  readonly hidden: ReadonlyMap<string, HiddenReason>
  /** Accepts ids, wire names, other separators, aliases and similar spellings. See `createResolver`. */
  resolve(name: string): Resolution
  /**
   * An internal tool, which a module may call for this caller.
   * @param id of the tool; `mcp_` and `api_` may be omitted
   */
  findInternal(id: string): ViewTool | undefined
  /** Maximum tokens of a result. A limit of the tool or server counts before that of the client. Infinity for no limit. */
  maxResultTokens(source?: ResultSource): number
  /**
   * Whether a list of all tools has the output schema of this one. Not if its results have a limit: Pegboard replaces a
   * result above the limit by a text, which does not match the schema.
   */
  listsOutput(source: ResultSource): boolean
  /** Number of visible tools of an owner. */
  count(owner: string): number
  /**
   * How many tools of an owner wait for a review, for the model to tell the user. Counts only tools that the caller may see
   * after the review, except for the operator, who also gets the command. Undefined if there are none.
   */
  reviewNotice(owner: Pick<Owner, 'id' | 'notice' | 'quarantined'>): string | undefined
  /** Number of visible tools. Does not create lazy tools. */
  readonly size: number
  /**
   * Estimated tokens of listing all visible tools. Creates lazy tools only if their output schemas are listed.
   * @param enough if lazy tools alone take more, each other tool counts as `each` tokens, and its schema is not converted
   */
  tokens(enough?: number, each?: number): number
}

export interface ViewInput extends Pick<MergeScope, 'caller' | 'rules' | 'offered' | 'warn'> {
  readonly snapshot: Snapshot
  readonly limits: ClientLimits
  readonly maxResultTokens: MaxResultTokens
  /** True if a setting of a single tool removes its limit. */
  readonly hasUnlimitedTool: () => boolean
}

/**
 * The configured maximum tokens of results of a tool or server; undefined if it has no limit of its own. Without `source`,
 * the common limit. 0: no limit.
 */
export type MaxResultTokens = (source?: ResultSource) => number | undefined

/** Builds a view. Each part is computed on first access. */
export function buildView(input: ViewInput): View {
  const { snapshot, caller, rules, limits, offered, warn } = input
  const { maxResultTokens, listsOutput } = createResultLimits(input)
  const listingLimits: ListingLimits = {
    schema: styleFor(limits, rules.schema),
    listsOutput,
    maxNameLength: limits.maxNameLength,
    isTaken: (name) => snapshot.byName.has(name),
  }
  const owners = once(() => findOwners(input))
  const scope = once((): MergeScope => ({ caller, rules, owners: owners(), offered, listingLimits, warn }))
  const merged = once(() => mergeTools(snapshot.tools, scope()))
  const quarantined = once(() => quarantinedTools(snapshot, caller, rules))
  const hidden = once(() => new Map([...merged().hidden, ...quarantined().hidden]))
  // Without creating the lazy tools of an owner, it is unknown whether it has the tool that the setting names.
  const mayListOutput = (owner: Owner): boolean =>
    listsOutput(owner) || (input.hasUnlimitedTool() && listsOutput({ id: owner.id, maxResultTokens: 0 }))
  const totals = once(() => countTools(scope(), merged, quarantined, mayListOutput))
  const resolver = once(() =>
    createResolver({ ...merged(), hidden: hidden() }, quarantined().names, totals().owners, snapshot),
  )
  const isVisible = (tool: Tool): boolean => 'tool' in checkVisibility(tool, caller, rules)
  // In this order, because reading `tools` creates lazy tools.
  const noticing = once(() => owners().filter((owner) => owner.notices && owner.tools.some(isVisible)))
  return {
    caller,
    profile: rules.profile,
    limits,
    policy: rules.policy,
    get tools() {
      return merged().tools
    },
    get byId() {
      return merged().byId
    },
    get hidden() {
      return hidden()
    },
    get owners() {
      return totals().owners
    },
    get noticing() {
      return noticing()
    },
    get size() {
      return totals().size
    },
    maxResultTokens,
    listsOutput,
    tokens: (enough = Number.POSITIVE_INFINITY, each = 0) => totals().tokens(enough, each),
    count: (owner) => totals().counts.get(owner) ?? 0,
    reviewNotice: (owner) => createReviewNotice(owner, caller, quarantined),
    resolve: (name) => resolver()(name),
    findInternal(id) {
      const tool = findInternalTool(input, id)
      return tool && unchangedEntry(tool, listingLimits)
    },
  }
}

function createResultLimits({
  limits,
  maxResultTokens: configured,
}: ViewInput): Pick<View, 'maxResultTokens' | 'listsOutput'> {
  const maxResultTokens = (source?: ResultSource): number => {
    const own = source && configured(source)
    return (own ?? limits.maxResultTokens ?? configured()) || Number.POSITIVE_INFINITY
  }
  const hasLimit = (source: ResultSource): boolean =>
    limits.maxResultBytes !== undefined || maxResultTokens(source) !== Number.POSITIVE_INFINITY
  return { maxResultTokens, listsOutput: (source) => limits.outputSchemas ?? !hasLimit(source) }
}

/** Leaves out owners that the policy hides. The caller does not learn about them, not even that one is down. */
const findOwners = ({ snapshot, caller, rules }: ViewInput): readonly Owner[] =>
  [...snapshot.owners.values()]
    .filter(({ id, internal }) => internal !== true && rules.policy.allowsOwner(id, caller))
    .map((owner) => withReasonFor(caller, owner))

/** An owner with the reason that this caller reads. Not a copy, because reading `tools` creates lazy tools. */
const withReasonFor = (caller: Caller, owner: Owner): Owner =>
  owner.reasonFor ? Object.create(owner, { reason: { value: owner.reasonFor(caller), enumerable: true } }) : owner

function createReviewNotice(
  { id, notice, quarantined: ownTools }: Pick<Owner, 'id' | 'notice' | 'quarantined'>,
  caller: Caller,
  quarantined: () => QuarantinedTools,
): string | undefined {
  if (notice === undefined) return undefined
  const waiting = ownTools.filter(
    ({ tool, rejected }) => !rejected && quarantined().hidden.get(tool.id)?.kind === 'quarantined',
  ).length
  if (waiting === 0) return undefined
  // Only the operator can run the command.
  if (caller.principal === 'local' && caller.grants === undefined) return notice
  return `${formatCount(waiting, 'tool')} of ${id} ${waiting === 1 ? 'waits' : 'wait'} for a review by the operator`
}

/** The internal tool with this id, if all other checks of its visibility pass. */
function findInternalTool({ snapshot: { byId }, caller, rules }: ViewInput, id: string): Tool | undefined {
  const tool = byId.get(id) ?? byId.get(`mcp_${id}`) ?? byId.get(`api_${id}`)
  if (!tool?.internal) return undefined
  const visibility = checkVisibility(Object.create(tool, { internal: { value: undefined } }), caller, rules)
  return 'tool' in visibility ? visibility.tool : undefined
}
