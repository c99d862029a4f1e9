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
import { tokensOf } from './listed-tools.ts'
import { type ListingLimits, type MergeScope, mergeTools, quarantinedTools, unchangedEntry } from './merge-tools.ts'
import type { SchemaStyle } from './portable-schema.ts'
import { createResolver, type Resolution } from './resolve-name.ts'
import { checkLazyTools, checkVisibility, type HiddenReason } from './visibility.ts'

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
  /** Version of the catalog. */
  readonly version: number
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
  const { policy, profile } = rules
  const maxResultTokens = (source?: ResultSource): number =>
    ((source && input.maxResultTokens(source)) ?? limits.maxResultTokens ?? input.maxResultTokens()) ||
    Number.POSITIVE_INFINITY
  const listsOutput = (source: ResultSource): boolean =>
    limits.outputSchemas ??
    (limits.maxResultBytes === undefined && maxResultTokens(source) === Number.POSITIVE_INFINITY)
  const listingLimits: ListingLimits = {
    schema: styleFor(limits, rules.schema),
    listsOutput,
    maxNameLength: limits.maxNameLength,
    isTaken: (name) => snapshot.byName.has(name),
  }
  // A caller does not learn about an owner that the policy hides, not even that it is down.
  const owners = once(() =>
    [...snapshot.owners.values()]
      .filter(({ id, internal }) => internal !== true && policy.allowsOwner(id, caller))
      .map((owner) => withReasonFor(caller, owner)),
  )
  const scope = once((): MergeScope => ({ caller, rules, owners: owners(), offered, listingLimits, warn }))
  const merged = once(() => mergeTools(snapshot.tools, scope()))
  const quarantined = once(() => quarantinedTools(snapshot, caller, rules))
  const hidden = once(() => new Map([...merged().hidden, ...quarantined().hidden]))
  // Without creating the lazy tools of an owner, it is unknown whether it has the tool that the setting names.
  const mayListOutput = (owner: Owner): boolean =>
    listsOutput(owner) || (input.hasUnlimitedTool() && listsOutput({ id: owner.id, maxResultTokens: 0 }))
  const totals = once(() => countTools(scope(), merged, (id) => quarantined().hidden.get(id), mayListOutput))
  const resolver = once(() =>
    createResolver({ ...merged(), hidden: hidden() }, quarantined().names, totals().owners, snapshot),
  )
  const noticing = once(() =>
    owners().filter(
      // In this order, because reading `tools` creates lazy tools.
      (owner) => owner.notices && owner.tools.some((tool) => 'tool' in checkVisibility(tool, caller, rules)),
    ),
  )
  return {
    version: snapshot.version,
    caller,
    profile,
    limits,
    policy,
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
    tokens: (enough = Number.POSITIVE_INFINITY, each = 0) => {
      const { lazyTokens, size, lazySize, allTokens } = totals()
      return lazyTokens > enough ? lazyTokens + (size - lazySize) * each : allTokens()
    },
    count: (owner) => totals().counts.get(owner) ?? 0,
    reviewNotice({ id, notice, quarantined: hiddenTools }) {
      if (notice === undefined) return undefined
      const waiting = hiddenTools.filter(
        ({ tool, rejected }) => !rejected && quarantined().hidden.get(tool.id)?.kind === 'quarantined',
      ).length
      if (waiting === 0) return undefined
      // Only the operator can run the command.
      if (caller.principal === 'local' && caller.grants === undefined) return notice
      return `${formatCount(waiting, 'tool')} of ${id} ${waiting === 1 ? 'waits' : 'wait'} for a review by the operator`
    },
    resolve: (name) => resolver()(name),
    findInternal(id) {
      const tool = [id, `mcp_${id}`, `api_${id}`].map((one) => snapshot.byId.get(one)).find((one) => one !== undefined)
      if (!tool?.internal) return undefined
      const visibility = checkVisibility(Object.create(tool, { internal: { value: undefined } }) as Tool, caller, rules)
      return 'tool' in visibility ? unchangedEntry(visibility.tool, listingLimits) : undefined
    },
  }
}

/** An owner with the reason that this caller reads. Not a copy, because reading `tools` creates lazy tools. */
const withReasonFor = (caller: Caller, owner: Owner): Owner =>
  owner.reasonFor ? Object.create(owner, { reason: { value: owner.reasonFor(caller), enumerable: true } }) : owner

interface ToolTotals {
  /** Visible tools by owner; without owners that have none. */
  readonly counts: ReadonlyMap<string, number>
  readonly size: number
  /** See `View.owners`. */
  readonly owners: readonly Owner[]
  readonly lazySize: number
  /** Without output schemas. */
  readonly lazyTokens: number
  allTokens(): number
}

/** Counts lazy tools by owner if they are all visible or all hidden, so that a first list does not create them. */
function countTools(
  scope: MergeScope,
  merged: () => ReturnType<typeof mergeTools>,
  quarantineReason: (id: string) => HiddenReason | undefined,
  mayListOutput: (owner: Owner) => boolean,
): ToolTotals {
  const { caller, rules, owners } = scope
  const lazyDecisions = new Map(owners.map((owner) => [owner, checkLazyTools(owner, caller, rules)]))
  const otherOwners = owners.filter((owner) => lazyDecisions.get(owner) === 'each')
  const toolsOfOthers = (): readonly Tool[] => otherOwners.flatMap(({ tools }) => tools)
  const nameOf = (id: string): string | undefined => merged().byId.get(id)?.tool.name
  const visible = otherOwners.length === owners.length ? merged() : mergeTools(toolsOfOthers(), scope, nameOf)
  const counts = new Map<string, number>()
  for (const { tool } of visible.tools) counts.set(tool.module, (counts.get(tool.module) ?? 0) + 1)
  let lazyTokens = 0
  let lazySize = 0
  let listsLazyOutputs = false
  for (const [owner, decision] of lazyDecisions) {
    const { id, lazyTools } = owner
    if (decision !== 'all' || !lazyTools || lazyTools.count === 0) continue
    counts.set(id, lazyTools.count)
    lazyTokens += lazyTools.tokens
    lazySize += lazyTools.count
    listsLazyOutputs ||= mayListOutput(owner)
  }
  const isDenied = ({ id: owner, tools, quarantined, resources, templates, prompts }: Owner): boolean =>
    tools.length + quarantined.length > 0
      ? tools.every(({ id }) => visible.hidden.get(id)?.kind === 'denied') &&
        quarantined.every(({ tool }) => quarantineReason(tool.id)?.kind === 'denied')
      : resources.length + templates.length + prompts.length > 0 && !rules.policy.allowsResources(owner, caller)
  return {
    counts,
    size: [...counts.values()].reduce((sum, count) => sum + count, 0),
    owners: owners.filter(
      (owner) =>
        counts.has(owner.id) || (hasOtherContents(owner) && (lazyDecisions.get(owner) !== 'each' || !isDenied(owner))),
    ),
    lazySize,
    lazyTokens,
    allTokens: once(() => (listsLazyOutputs ? sumTokens(merged().tools) : lazyTokens + sumTokens(visible.tools))),
  }
}

const sumTokens = (tools: readonly ViewTool[]): number => tools.reduce((sum, entry) => sum + tokensOf(entry), 0)

const hasOtherContents = (owner: Owner): boolean =>
  owner.resources.length + owner.templates.length + owner.prompts.length + owner.quarantined.length > 0 ||
  (owner.origin === 'upstream' && owner.state !== 'ready')
