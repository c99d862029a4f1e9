import { formatCount } from '../core/format-count.ts'
import type { ExposureSettings } from './exposure-options.ts'
import type { View } from './view.ts'

/** `discovery` lists the five meta-tools, `code` lists `search_tools` and `run_code`. */
export type ExposureMode = 'direct' | 'compact' | 'discovery' | 'code'

/** True if tools are found by search, and not listed. */
export const isSearched = (mode: ExposureMode): boolean => mode === 'discovery' || mode === 'code'

/** How many of the visible tools are listed, and why. */
export interface Exposure {
  readonly mode: ExposureMode
  /** The reason, as a sentence for people. */
  readonly why: string
  readonly tools: number
  /** Estimated tokens of listing all visible tools, including unknown servers. */
  readonly tokens: number
  readonly budgetTokens: number
  readonly estimator: 'measured' | 'flat'
}

/** Assumed number of tools of a server whose tools are unknown. Each counts as `tokensPerTool` tokens. */
const UNSEEN_TOOLS = 20

/** Number of meta-tools that compact mode adds. */
const META_TOOLS = 5

/**
 * Decides how tools are listed for a caller. Tools fit if their tokens equal the budget.
 * @param alwaysListed number of tools that every mode lists
 * @param countUnseen whether servers and APIs whose tools are unknown count with an estimate
 */
export function decideExposure(view: View, defaults: ExposureSettings, alwaysListed = 0, countUnseen = true): Exposure {
  const settings = { ...defaults, ...view.limits.exposure }
  const { mode: configuredMode, contextWindow, share, estimator, tokensPerTool } = settings
  const budgetTokens = Math.floor(contextWindow * share)
  const unseen = countUnseen ? ownersWithoutTools(view).filter(({ state }) => state !== 'failing').length : 0
  const tools = view.size + unseen * UNSEEN_TOOLS
  const seenTokens = estimator === 'flat' ? view.size * tokensPerTool : view.tokens(budgetTokens, tokensPerTool)
  const tokens = seenTokens + unseen * UNSEEN_TOOLS * tokensPerTool
  const fits = tokens <= budgetTokens

  const isAuto = configuredMode === 'auto'
  const modeThatFits = fits ? 'direct' : 'discovery'
  const preferredMode = isAuto ? modeThatFits : configuredMode
  const listed = tools + alwaysListed + (preferredMode === 'compact' ? META_TOOLS : 0)
  const mayGrow = isAuto && unseen > 0
  const limitReason = isSearched(preferredMode) ? undefined : findLimitReason(view.limits, listed, mayGrow)
  const mode = limitReason === undefined ? preferredMode : 'discovery'

  const unseenText =
    unseen > 0 ? ` and ${formatCount(unseen, 'server')} never seen, counted as ${UNSEEN_TOOLS} tools each` : ''
  const method = estimator === 'flat' ? 'by number' : 'by length'
  const budget = `the budget of ${budgetTokens} (${Math.round(share * 100)} % of ${contextWindow})`
  const summary = `${formatCount(view.size, 'tool')}${unseenText}, about ${tokens} tokens (estimated ${method}), ${fits ? 'within' : 'above'} ${budget}`
  const reasons = [isAuto ? undefined : `exposure.mode is "${configuredMode}"`, summary, limitReason]
  const why = reasons.filter((reason) => reason !== undefined).join('; ')
  return { mode, why, tools, tokens, budgetTokens, estimator }
}

/** Why this client cannot have a list of all tools; undefined if it can. @param mayGrow whether tools are added later */
function findLimitReason(
  { maxTools, trustsListChanged }: View['limits'],
  listed: number,
  mayGrow: boolean,
): string | undefined {
  if (listed > maxTools)
    return `${listed} are more than the ${maxTools} that this client accepts (clients.<name>.maxTools)`
  if (mayGrow && !trustsListChanged)
    return 'this client does not apply changed lists (clients.<name>.trustsListChanged), so it would not see tools that are added later'
  return undefined
}

/** Servers and APIs whose tools are unknown. A failing one may never connect, so its tools are not estimated. */
export const ownersWithoutTools = ({ owners }: View): View['owners'] =>
  owners.filter(
    // `tools` is not destructured, because reading it creates lazy tools.
    (owner) =>
      owner.origin === 'upstream' && UNREAD.has(owner.state) && (owner.lazyTools?.count ?? owner.tools.length) === 0,
  )

const UNREAD: ReadonlySet<string> = new Set(['configured', 'connecting', 'failing'])
