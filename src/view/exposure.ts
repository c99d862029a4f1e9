import type { ExposureSettings } from './options.ts'
import type { View } from './view.ts'

export type Mode = 'direct' | 'compact' | 'discovery'

/** How much of a view is listed, and why. */
export interface Exposure {
  readonly mode: Mode
  /** For people: the sentence behind the choice. */
  readonly why: string
  readonly tools: number
  /** Estimated tokens of all visible definitions by the chosen estimator, unseen upstreams included. */
  readonly tokens: number
  readonly budgetTokens: number
  readonly estimator: 'measured' | 'flat'
}

/** An upstream that was never seen counts as this many tools of `tokensPerTool`. */
const UNSEEN_TOOLS = 20

/** What compact mode lists beside the tools. */
const DOORS = 5

/**
 * Decides once how tools are shown to a caller. Equality counts as fitting.
 * @param beside tools that are listed in every mode
 */
export function decideExposure(view: View, common: ExposureSettings, beside = 0): Exposure {
  const { maxTools, trustsListChanged, exposure } = view.limits
  const settings = { ...common, ...exposure }
  const budgetTokens = Math.floor(settings.contextWindow * settings.share)
  const unseen = view.owners.filter(
    (owner) =>
      owner.origin === 'upstream' && isUnseen(owner.state) && (owner.outline?.count ?? owner.tools.length) === 0,
  ).length
  const tools = view.size + unseen * UNSEEN_TOOLS
  const tokens =
    (settings.estimator === 'flat' ? view.size * settings.tokensPerTool : view.tokens()) +
    unseen * UNSEEN_TOOLS * settings.tokensPerTool
  const fits = tokens <= budgetTokens
  const wanted: Mode = settings.mode === 'auto' ? (fits ? 'direct' : 'discovery') : settings.mode
  const listed = tools + beside + (wanted === 'compact' ? DOORS : 0)
  const unfit =
    wanted === 'discovery'
      ? undefined
      : listed > maxTools
        ? `${listed} are more than the ${maxTools} this client takes (clients.<name>.maxTools)`
        : settings.mode === 'auto' && unseen > 0 && !trustsListChanged
          ? 'this client takes over no changed list (clients.<name>.trustsListChanged), and what comes later would stay unseen'
          : undefined
  const mode: Mode = unfit === undefined ? wanted : 'discovery'
  const cold =
    unseen > 0 ? ` and ${unseen} server${unseen > 1 ? 's' : ''} never seen, counted as ${UNSEEN_TOOLS} tools each` : ''
  const sum = `${view.size} tools${cold}, about ${tokens} tokens (${settings.estimator}), ${fits ? 'within' : 'above'} the budget of ${budgetTokens} (${Math.round(settings.share * 100)} % of ${settings.contextWindow})`
  const asked = settings.mode === 'auto' ? sum : `exposure.mode is "${settings.mode}"; ${sum}`
  const why = unfit === undefined ? asked : `${asked}; ${unfit}`
  return { mode, why, tools, tokens, budgetTokens, estimator: settings.estimator }
}

/** One that fails may never come. */
const isUnseen = (state: string): boolean => state === 'configured' || state === 'connecting'
