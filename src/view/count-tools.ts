import type { Owner } from '../catalog/owner.ts'
import { once } from '../core/once.ts'
import type { Tool } from '../core/tool.ts'
import { tokensOf } from './listed-tools.ts'
import { type MergedTools, type MergeScope, mergeTools, type QuarantinedTools } from './merge-tools.ts'
import type { View, ViewTool } from './view.ts'
import { checkLazyTools } from './visibility.ts'

export interface ToolTotals extends Pick<View, 'size' | 'owners'> {
  /** Visible tools by owner; without owners that have none. */
  readonly counts: ReadonlyMap<string, number>
  /** See `View.tokens`. */
  tokens(enough: number, each: number): number
}

/**
 * Counts the tools of a view. If the lazy tools of an owner are all visible or all hidden, it does not create them.
 * @param merged all tools; calling it creates all lazy tools
 * @param mayListOutput whether an output schema may be listed with a tool of this owner
 */
export function countTools(
  scope: MergeScope,
  merged: () => MergedTools,
  quarantined: () => QuarantinedTools,
  mayListOutput: (owner: Owner) => boolean,
): ToolTotals {
  const { caller, rules, owners } = scope
  const decisions = new Map(owners.map((owner) => [owner, checkLazyTools(owner, caller, rules)]))
  const lazyOwners = owners.filter((owner) => decisions.get(owner) === 'all' && owner.lazyTools?.count)
  const lazyTokens = sum(lazyOwners.map(({ lazyTools }) => lazyTools?.tokens ?? 0))
  const listsLazyOutputs = lazyOwners.some(mayListOutput)

  const checkedOwners = owners.filter((owner) => decisions.get(owner) === 'each')
  const checkedTools = (): readonly Tool[] => checkedOwners.flatMap(({ tools }) => tools)
  const nameOf = (id: string): string | undefined => merged().byId.get(id)?.tool.name
  const checked = checkedOwners.length === owners.length ? merged() : mergeTools(checkedTools(), scope, nameOf)

  const counts = new Map(lazyOwners.map(({ id, lazyTools }) => [id, lazyTools?.count ?? 0]))
  for (const { tool } of checked.tools) counts.set(tool.module, (counts.get(tool.module) ?? 0) + 1)

  /** Whether the caller may know that an owner exists of which it sees no tool. */
  function mayKnow(owner: Owner): boolean {
    // The policy allows all tools of the owner.
    if (decisions.get(owner) !== 'each') return true
    if (owner.tools.length + owner.quarantined.length === 0)
      return !hasResourcesOrPrompts(owner) || rules.policy.allowsResources(owner.id, caller)
    return (
      owner.tools.some(({ id }) => checked.hidden.get(id)?.kind !== 'denied') ||
      owner.quarantined.some(({ tool }) => quarantined().hidden.get(tool.id)?.kind !== 'denied')
    )
  }

  const allTokens = once(() => (listsLazyOutputs ? sumTokens(merged().tools) : lazyTokens + sumTokens(checked.tools)))
  return {
    counts,
    size: sum([...counts.values()]),
    owners: owners.filter((owner) => counts.has(owner.id) || (hasOtherContents(owner) && mayKnow(owner))),
    tokens: (enough, each) => (lazyTokens > enough ? lazyTokens + checked.tools.length * each : allTokens()),
  }
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0)

const sumTokens = (tools: readonly ViewTool[]): number => sum(tools.map(tokensOf))

const hasResourcesOrPrompts = ({ resources, templates, prompts }: Owner): boolean =>
  resources.length + templates.length + prompts.length > 0

const hasOtherContents = (owner: Owner): boolean =>
  hasResourcesOrPrompts(owner) ||
  owner.quarantined.length > 0 ||
  (owner.origin === 'upstream' && owner.state !== 'ready')
