import { randomUUID } from 'node:crypto'
import { type Caller, localCaller } from '../core/context.ts'
import { PegboardError } from '../core/errors.ts'
import type { ToolLoop } from '../core/loop.ts'
import type { CallRequest } from '../exec/call.ts'
import type { Surface } from '../meta/surface.ts'
import type { Exposure } from '../view/exposure.ts'
import type { ListedTool } from '../view/listing.ts'
import type { View } from '../view/view.ts'
import { answerOf, failedAnswer, type ToolAnswer } from './answer.ts'
import { type TextTools, type ToolUseMode, toolUseMode } from './mode.ts'
import { type PromptSection, systemPrompt } from './prompt.ts'
import { serializeTools, type ToolDeclarations, type ToolFormat } from './serialize.ts'

/** What a toolset needs of the rest. */
export interface ToolsetHost {
  readonly surface: Surface
  view(caller: Caller): View
  exposure(caller: Caller): Exposure
}

export interface CallOptions {
  /** Ends the call when it fires. */
  readonly signal?: AbortSignal
  readonly onProgress?: NonNullable<CallRequest['onProgress']>
  /** The rounds of the conversation the call belongs to, for tools that want more of them. */
  readonly loop?: ToolLoop
}

export interface ToolsetPromptOptions {
  /** Default: by `provider`. */
  readonly mode?: ToolUseMode
  /** Of the model, such as `openai` or `ollama`; default: what the profile says. */
  readonly provider?: string
  readonly agentId?: string
  readonly role?: string
  readonly userPrompt?: string
  readonly sections?: readonly PromptSection[]
}

/** The tools of one caller, for whoever drives a model without MCP. */
export interface Toolset {
  /** What `tools/list` would answer: all tools, or the few that find the others. Ask again before each round: lists change. */
  list(): readonly ListedTool[]
  /** The same as a provider wants it declared. */
  serialize<Format extends ToolFormat>(format: Format): ToolDeclarations[Format]
  /**
   * Runs a tool by any name a model may give it, under the same policy and limits as any client. Failures are answers
   * the model can read; nothing is thrown for them.
   */
  call(name: string, args?: unknown, options?: CallOptions): Promise<ToolAnswer>
  /** What the model should be told of its tools. */
  systemPrompt(options?: ToolsetPromptOptions): string
  /** How a model of this provider (default: that of the profile) gets its tools, with what the operator says of it. */
  mode(provider?: string): ToolUseMode
  /** What the operator says: `textTools`. */
  readonly textTools: TextTools | undefined
  /** Gives up what the toolset holds. Afterwards it answers nothing. */
  close(): Promise<void>
}

export interface ToolsetSettings {
  /** Who calls; what is not said is as on stdio. */
  readonly caller?: Partial<Caller>
  readonly profile?: string
  readonly textTools?: TextTools | undefined
  readonly sections?: (caller: Caller) => readonly PromptSection[]
  onClose?(caller: Caller): void | Promise<void>
}

const noName = (): PegboardError =>
  new PegboardError('E_VALIDATION', 'The name of a tool is a text.', { hint: 'Call one that is listed.' })

/** A toolset over a running host. A conversation of its own: how tools are shown is decided once. */
export function toolsetOf(host: ToolsetHost, settings: ToolsetSettings = {}): Toolset {
  const { textTools, profile } = settings
  const caller: Caller = {
    ...localCaller,
    ...settings.caller,
    ...(profile === undefined ? {} : { profile }),
    session: settings.caller?.session ?? randomUUID(),
  }
  const list = (): readonly ListedTool[] => host.surface.list(caller, host.exposure(caller).mode)
  const mode = (provider?: string): ToolUseMode =>
    toolUseMode(provider ?? host.view(caller).profile.provider, textTools)
  return {
    list,
    serialize: (format) => serializeTools(list(), format),
    async call(name, args = {}, options = {}) {
      const { signal, onProgress, loop } = options
      const request: CallRequest = {
        name,
        input: args,
        caller,
        ...(signal && { signal }),
        ...(onProgress && { onProgress }),
        ...(loop && { loop }),
      }
      if (typeof name !== 'string') return failedAnswer(noName())
      try {
        return answerOf(await host.surface.call(request))
      } catch (error) {
        return failedAnswer(error)
      }
    },
    systemPrompt: (options = {}) =>
      systemPrompt({
        ...options,
        view: host.view(caller),
        exposure: host.exposure(caller),
        surface: host.surface,
        mode: options.mode ?? mode(options.provider),
        sections: [...(settings.sections?.(caller) ?? []), ...(options.sections ?? [])],
      }),
    mode,
    textTools,
    close: async () => settings.onClose?.(caller),
  }
}
