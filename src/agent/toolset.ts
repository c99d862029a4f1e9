import { randomUUID } from 'node:crypto'
import { type Caller, localCaller } from '../core/caller.ts'
import { PegboardError } from '../core/errors.ts'
import type { PromptSection } from '../core/module.ts'
import type { ToolLoop } from '../core/tool-loop.ts'
import type { McpResult } from '../core/tool-result.ts'
import type { CallRequest } from '../exec/tool-calls.ts'
import type { Surface } from '../meta/surface.ts'
import type { Exposure } from '../view/exposure.ts'
import type { ListedTool } from '../view/listed-tools.ts'
import type { View } from '../view/view.ts'
import { serializeTools, type ToolDeclarations, type ToolFormat } from './serialize.ts'
import { answerOf, failedAnswer, type ToolAnswer } from './tool-answer.ts'
import { type TextTools, type ToolUseMode, toolUseMode } from './tool-use-mode.ts'
import { type PromptOptions, systemPrompt } from './tools-prompt.ts'

/** What a toolset needs from the application. */
export interface ToolsetHost {
  readonly surface: Surface
  view(caller: Caller): View
  exposure(caller: Caller): Exposure
}

export interface CallOptions {
  /** Aborts the call. */
  readonly signal?: AbortSignal
  readonly onProgress?: NonNullable<CallRequest['onProgress']>
  /** The tool loop of the conversation, for tools that may extend it. */
  readonly loop?: ToolLoop
}

export interface ToolsetPromptOptions extends Pick<PromptOptions, 'agentId' | 'role' | 'userPrompt' | 'sections'> {
  /** Default: chosen by `provider`. */
  readonly mode?: ToolUseMode
  /** The model's provider, such as `openai` or `ollama`; default: from the profile. */
  readonly provider?: string
}

/** The tools of one caller, for programs that run a model without MCP. */
export interface Toolset {
  /**
   * The same tools as `tools/list`: all of them, or the few meta-tools that find the others. Call it before each
   * round, because lists change.
   */
  list(): readonly ListedTool[]
  /** The same in a provider's format. */
  serialize<Format extends ToolFormat>(format: Format): ToolDeclarations[Format]
  /**
   * Runs a tool by any name a model may use, under the same policy and limits as for any client. Failures are
   * returned as answers for the model, not thrown.
   */
  call(name: string, args?: unknown, options?: CallOptions): Promise<ToolAnswer>
  /** The description of the tools for the model. */
  systemPrompt(options?: ToolsetPromptOptions): string
  /** How a model of this provider (default: the profile's) gets its tools, including the operator's setting. */
  mode(provider?: string): ToolUseMode
  /** The operator's `textTools` setting. */
  readonly textTools: TextTools | undefined
  /** Releases the toolset. Later calls fail with E_SHUTTING_DOWN. */
  close(): Promise<void>
}

export interface ToolsetSettings {
  /** The caller; missing fields are those of `localCaller`. */
  readonly caller?: Partial<Caller>
  readonly profile?: string
  readonly textTools?: TextTools | undefined
  readonly sections?: (caller: Caller) => readonly PromptSection[]
  onClose?(caller: Caller): void | Promise<void>
  /** Counts the tokens of a list. */
  onList?(caller: Caller, tools: readonly ListedTool[]): void
  /** Counts the tokens of a call. @param whole the result before it was made to fit */
  onCall?(request: CallRequest, shown: McpResult, whole: McpResult): void
}

const noName = (): PegboardError =>
  new PegboardError('E_VALIDATION', 'The name of a tool must be a string.', { hint: 'Call a listed tool.' })

const toolsetClosed = (): PegboardError =>
  new PegboardError('E_SHUTTING_DOWN', 'The toolset is closed.', { hint: 'Create another one with createToolset.' })

/** Creates a toolset on a running host. It counts as one conversation: the exposure mode is chosen once. */
export function toolsetOf(host: ToolsetHost, settings: ToolsetSettings = {}): Toolset {
  const { textTools, profile } = settings
  const caller: Caller = {
    ...localCaller,
    ...settings.caller,
    ...(profile === undefined ? {} : { profile }),
    session: settings.caller?.session ?? randomUUID(),
  }
  const list = (): readonly ListedTool[] => {
    const tools = host.surface.list(caller, host.exposure(caller).mode)
    settings.onList?.(caller, tools)
    return tools
  }
  /** The text of a long answer is kept, as for any client. Its data stays whole, because a program reads it. */
  async function shorten(request: CallRequest, answer: ToolAnswer): Promise<ToolAnswer> {
    const whole: McpResult = { content: [{ type: 'text', text: answer.text }], isError: answer.isError }
    const shown = await host.surface.fit(request, whole, () => false)
    settings.onCall?.(request, shown, whole)
    return shown === whole ? answer : { ...answer, text: answerOf({ kind: 'mcp', result: shown }).text }
  }
  let isClosed = false
  const mode = (provider?: string): ToolUseMode =>
    toolUseMode(provider ?? host.view(caller).profile.provider, textTools)
  return {
    list,
    serialize: (format) => serializeTools(list(), format),
    async call(name, args = {}, options = {}) {
      if (isClosed) return failedAnswer(toolsetClosed())
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
        return await shorten(request, answerOf(await host.surface.call(request)))
      } catch (error) {
        return await shorten(request, failedAnswer(error))
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
    async close() {
      isClosed = true
      await settings.onClose?.(caller)
    },
  }
}
