import { type Toolset, toolsetOf } from './agent/toolset.ts'
import { type App, type AppOptions, createApp } from './app/app.ts'
import type { RecordingOptions } from './app/record-and-replay.ts'
import { loadConfig, readConfig, readSecrets } from './config/load-config.ts'
import { defaultDirs, type Machine, thisMachine, UNSET } from './config/machine.ts'
import type { Caller } from './core/caller.ts'
import { PegboardError } from './core/errors.ts'
import { keepProcessAlive } from './core/keep-alive.ts'
import { DEFAULT_PROFILE } from './core/profile.ts'
import { instructionTexts } from './server/instructions.ts'
import { recordCall, recordList } from './server/record-usage.ts'

export { type Citations, createCitations, urlsIn } from './agent/citations.ts'
export {
  type ConversationEvent,
  type ConversationOptions,
  type ConversationResult,
  type Endpoint,
  runConversation,
} from './agent/conversation.ts'
export { createIntentRouter, type Intent, type IntentRouter } from './agent/intent-router.ts'
export { type ParsedText, type ParseOptions, parseToolCalls } from './agent/parse-tool-calls.ts'
export { serializeTools, TOOL_FORMATS, type ToolDeclarations, type ToolFormat } from './agent/serialize.ts'
export { stripToolNames } from './agent/strip-tool-names.ts'
export type { ToolAnswer } from './agent/tool-answer.ts'
export { type TextTools, type ToolUseMode, toolUseMode } from './agent/tool-use-mode.ts'
export { type PromptOptions, systemPrompt } from './agent/tools-prompt.ts'
export type { CallOptions, Toolset, ToolsetPromptOptions } from './agent/toolset.ts'
export type { ToolCall } from './agent/written-calls.ts'
export type { App } from './app/app.ts'
export type { Caller } from './core/caller.ts'
export type { PromptSection } from './core/module.ts'
export { createToolLoop, type OwnedLoop, type RoundLimits, type ToolLoop } from './core/tool-loop.ts'
export type { ListedTool } from './view/listed-tools.ts'

export interface StartOptions extends RecordingOptions {
  /** A configuration file, or its content. Without either, only bundled modules are available. */
  readonly config?: string | Readonly<Record<string, unknown>>
  /** Maximum time to wait for servers that Pegboard has never connected to, in milliseconds; default 10,000. */
  readonly waitMs?: number
  /** Receives the entries of the log, without secrets; default none. */
  readonly log?: AppOptions['log']
  /** Values for `${NAME}` in the configuration; default the environment of the process. */
  readonly env?: Readonly<Record<string, string | undefined>>
}

export interface ToolsetOptions extends StartOptions {
  /** A running app, instead of `config`. `close` does not stop it. */
  readonly app?: App
  readonly profile?: string
  /** The caller; missing fields are as for this process. */
  readonly caller?: Partial<Caller>
}

const WAIT_MS = 10_000

/**
 * All tools of a configuration, for an agent in this process. Close it when done, because servers are child processes.
 * @throws PegboardError E_CONFIG_* for an invalid configuration
 */
export async function createToolset(options: ToolsetOptions = {}): Promise<Toolset> {
  const { app: running, profile, caller } = options
  const app = running ?? (await appOf(options))
  const toolset = toolsetOf(app, {
    ...(profile === undefined ? {} : { profile }),
    ...(caller === undefined ? {} : { caller }),
    textTools: app.server.textTools,
    sections: (who) => instructionTexts(app.server, who).sections,
    onList: (who, tools) => recordList(app.server, who, tools),
    onCall: (...call) => recordCall(app.server, ...call),
    async onClose({ session }) {
      if (session !== undefined) app.forget(session)
      if (!running) await app.stop()
    },
  })
  return {
    ...toolset,
    call: (...request) => keepProcessAlive(() => toolset.call(...request)),
  }
}

/**
 * An app for several toolsets, such as one per user. Stop it when done, because servers are child processes.
 * @throws PegboardError E_CONFIG_* for an invalid configuration
 */
export const startApp = (options: StartOptions = {}): Promise<App> => appOf(options)

async function appOf(options: ToolsetOptions): Promise<App> {
  const { config = {}, env, log, profile, waitMs = WAIT_MS, record, replay } = options
  const base: Machine = { ...thisMachine(), ...(env && { env }) }
  const machine: Machine = {
    ...base,
    ...(replay !== undefined && { unset: UNSET }),
    async readSecrets(names) {
      const { readNamedSecrets } = await import('./state/secret-store.ts')
      return readNamedSecrets(defaultDirs(base, base.cwd).state, base.env, names, (message) => log?.warn(message))
    },
  }
  const { config: read, warnings } =
    typeof config === 'string'
      ? await loadConfig(machine, config)
      : readConfig(JSON.stringify(config), undefined, machine, await readSecrets(JSON.stringify(config), machine))
  if (profile !== undefined && profile !== DEFAULT_PROFILE && !Object.hasOwn(read.profiles, profile))
    throw new PegboardError('E_CONFIG_INVALID', `There is no profile "${profile}".`, {
      hint: `The configuration has ${Object.keys(read.profiles).join(', ') || 'none'}.`,
    })
  const app = createApp(read, { env: machine.env, connectDelayMs: { cold: 0 }, record, replay, ...(log && { log }) })
  for (const warning of warnings) app.log.warn(warning)
  await app.start()
  app.countUsage()
  // Tools that are known from an earlier run are listed before their server starts.
  await app.settled(waitMs, ({ tools }) => tools === 0)
  return app
}
