import { z } from 'zod'
import type { View } from './view.ts'

export const exposureOptions = z.strictObject({
  mode: z
    .enum(['auto', 'direct', 'compact', 'discovery'])
    .default('auto')
    .describe(
      'direct lists every tool, compact their names and one-liners, discovery the five meta-tools; auto measures.',
    ),
  contextWindow: z.int().min(1).default(131_072).describe('Context window of the model behind the client, in tokens.'),
  share: z.number().gt(0).max(1).default(0.2).describe('Share of the context window that tool definitions may fill.'),
  estimator: z
    .enum(['measured', 'flat'])
    .default('measured')
    .describe('measured counts the serialised definitions; flat takes tokensPerTool for each.'),
  tokensPerTool: z.int().min(1).default(200).describe('What one tool costs for the flat estimator.'),
  schema: z
    .enum(['portable', 'strict', 'as-is'])
    .default('portable')
    .describe(
      'portable writes references out and drops rare formats; strict also makes one object of alternatives at the top, which some providers refuse; as-is changes nothing.',
    ),
  primitives: z
    .boolean()
    .default(true)
    .describe('Reserved for the parallel and background tools; without effect until they exist.'),
  pinned: z.array(z.string()).default([]).describe('Tool ids that are listed in discovery mode too.'),
})

export type ExposureSettings = z.infer<typeof exposureOptions>
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
export const UNSEEN_TOOLS = 20

/** Decides once how tools are shown to a caller. Equality counts as fitting. */
export function decideExposure(view: View, settings: ExposureSettings): Exposure {
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
  const mode: Mode = settings.mode === 'auto' ? (fits ? 'direct' : 'discovery') : settings.mode
  const cold =
    unseen > 0 ? ` and ${unseen} server${unseen > 1 ? 's' : ''} never seen, counted as ${UNSEEN_TOOLS} tools each` : ''
  const sum = `${view.size} tools${cold}, about ${tokens} tokens (${settings.estimator}), ${fits ? 'within' : 'above'} the budget of ${budgetTokens} (${Math.round(settings.share * 100)} % of ${settings.contextWindow})`
  const why = settings.mode === 'auto' ? sum : `exposure.mode is "${settings.mode}"; ${sum}`
  return { mode, why, tools, tokens, budgetTokens, estimator: settings.estimator }
}

/** One that fails may never come. */
const isUnseen = (state: string): boolean => state === 'configured' || state === 'connecting'
