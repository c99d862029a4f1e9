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
  const { maxTools, trustsListChanged, exposure } = view.limits
  const settings = { ...defaults, ...exposure }
  const budgetTokens = Math.floor(settings.contextWindow * settings.share)
  const unseen = countUnseen ? ownersWithoutTools(view).filter(({ state }) => state !== 'failing').length : 0
  const tools = view.size + unseen * UNSEEN_TOOLS
  const tokens =
    (settings.estimator === 'flat'
      ? view.size * settings.tokensPerTool
      : view.tokens(budgetTokens, settings.tokensPerTool)) +
    unseen * UNSEEN_TOOLS * settings.tokensPerTool
  const fits = tokens <= budgetTokens
  const preferredMode: ExposureMode = settings.mode === 'auto' ? (fits ? 'direct' : 'discovery') : settings.mode
  const listed = tools + alwaysListed + (preferredMode === 'compact' ? META_TOOLS : 0)
  const limitReason = isSearched(preferredMode)
    ? undefined
    : listed > maxTools
      ? `${listed} are more than the ${maxTools} that this client accepts (clients.<name>.maxTools)`
      : settings.mode === 'auto' && unseen > 0 && !trustsListChanged
        ? 'this client does not apply changed lists (clients.<name>.trustsListChanged), so it would not see tools that are added later'
        : undefined
  const mode: ExposureMode = limitReason === undefined ? preferredMode : 'discovery'
  const unseenText =
    unseen > 0 ? ` and ${formatCount(unseen, 'server')} never seen, counted as ${UNSEEN_TOOLS} tools each` : ''
  const summary = `${formatCount(view.size, 'tool')}${unseenText}, about ${tokens} tokens (estimated ${settings.estimator === 'flat' ? 'by number' : 'by length'}), ${fits ? 'within' : 'above'} the budget of ${budgetTokens} (${Math.round(settings.share * 100)} % of ${settings.contextWindow})`
  const modeReason = settings.mode === 'auto' ? summary : `exposure.mode is "${settings.mode}"; ${summary}`
  const why = limitReason === undefined ? modeReason : `${modeReason}; ${limitReason}`
  return { mode, why, tools, tokens, budgetTokens, estimator: settings.estimator }
}

/** Servers and APIs whose tools are unknown. A failing one may never connect, so its tools are not estimated. */
export const ownersWithoutTools = ({ owners }: View): View['owners'] =>
  owners.filter(
    // `tools` is not destructured, because reading it creates lazy tools.
    (owner) =>
      owner.origin === 'upstream' && UNREAD.has(owner.state) && (owner.lazyTools?.count ?? owner.tools.length) === 0,
  )

const UNREAD: ReadonlySet<string> = new Set(['configured', 'connecting', 'failing'])
