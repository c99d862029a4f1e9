import { type Toolset, toolsetOf } from './agent/toolset.ts'
import { type App, type AppOptions, createApp } from './app.ts'
import { loadConfig, readConfig } from './config/load.ts'
import { thisMachine } from './config/places.ts'
import { awake } from './core/awake.ts'
import type { Caller } from './core/context.ts'
import { PegboardError } from './core/errors.ts'
import { DEFAULT_PROFILE } from './core/profile.ts'
import { toldBy } from './server/instructions.ts'

export type { ToolAnswer } from './agent/answer.ts'
export type { ToolCall } from './agent/calls.ts'
export { type Citations, createCitations, urlsIn } from './agent/citations.ts'
export {
  type ConversationEvent,
  type ConversationOptions,
  type ConversationResult,
  type Endpoint,
  runConversation,
} from './agent/conversation.ts'
export { createIntentRouter, type Intent, type IntentRouter } from './agent/intents.ts'
export { type TextTools, type ToolUseMode, toolUseMode } from './agent/mode.ts'
export { type ParsedText, type ParseOptions, parseToolCalls } from './agent/parse.ts'
export { type PromptOptions, type PromptSection, systemPrompt } from './agent/prompt.ts'
export { serializeTools, TOOL_FORMATS, type ToolDeclarations, type ToolFormat } from './agent/serialize.ts'
export { stripToolNames } from './agent/strip.ts'
export type { CallOptions, Toolset, ToolsetPromptOptions } from './agent/toolset.ts'
export type { App } from './app.ts'
export type { Caller } from './core/context.ts'
export { createToolLoop, type OwnedLoop, type RoundLimits, type ToolLoop } from './core/loop.ts'
export type { ListedTool } from './view/listing.ts'

export interface StartOptions {
  /** A configuration file, or what would be in one; without either, only the bundled modules. */
  readonly config?: string | Readonly<Record<string, unknown>>
  /** How long servers that were never seen may take to tell their tools; default 10,000. */
  readonly waitMs?: number
  readonly log?: AppOptions['log']
  /** Fills `${NAME}` in the configuration; default the environment of the process. */
  readonly env?: Readonly<Record<string, string | undefined>>
}

export interface ToolsetOptions extends StartOptions {
  /** Instead of `config`: an app that runs already. It is left running by `close`. */
  readonly app?: App
  readonly profile?: string
  /** Who calls; what is not said is as for this process. */
  readonly caller?: Partial<Caller>
}

const WAIT_MS = 10_000

/**
 * All tools of a configuration, for an agent in this process. Close it: servers are children of the process.
 * @throws PegboardError E_CONFIG_* for a configuration that cannot be used
 */
export async function createToolset(options: ToolsetOptions = {}): Promise<Toolset> {
  const { app: running, profile, caller } = options
  const app = running ?? (await appOf(options))
  const toolset = toolsetOf(app, {
    ...(profile === undefined ? {} : { profile }),
    ...(caller === undefined ? {} : { caller }),
    textTools: app.server.textTools,
    sections: (who) => toldBy(app.server, who).sections,
    async onClose({ session }) {
      if (session !== undefined) app.forget(session)
      if (!running) await app.stop()
    },
  })
  return {
    ...toolset,
    call: (...request) => awake(() => toolset.call(...request)),
  }
}

/**
 * An app for several toolsets, such as one for each user. Stop it: servers are children of the process.
 * @throws PegboardError E_CONFIG_* for a configuration that cannot be used
 */
export const startApp = (options: StartOptions = {}): Promise<App> => appOf(options)

async function appOf({ config = {}, env, log, profile, waitMs = WAIT_MS }: ToolsetOptions): Promise<App> {
  const machine = { ...thisMachine(), ...(env && { env }) }
  const { config: read, warnings } =
    typeof config === 'string'
      ? await loadConfig(machine, config)
      : readConfig(JSON.stringify(config), undefined, machine)
  for (const warning of warnings) log?.warn(warning)
  if (profile !== undefined && profile !== DEFAULT_PROFILE && !Object.hasOwn(read.profiles, profile))
    throw new PegboardError('E_CONFIG_INVALID', `There is no profile "${profile}".`, {
      hint: `The configuration has ${Object.keys(read.profiles).join(', ') || 'none'}.`,
    })
  const app = createApp(read, { env: machine.env, connectDelayMs: { cold: 0 }, ...(log && { log }) })
  await app.start()
  // What is known from an earlier run is listed already, wherever its server is.
  await app.settled(waitMs, ({ tools }) => tools === 0)
  return app
}
