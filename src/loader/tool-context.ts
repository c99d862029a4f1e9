import type { CallContext, SentFile } from '../core/context.ts'

/** A file as tools of the simpler shapes send it. */
export interface SentEntry {
  readonly data: Uint8Array | string
  readonly filename: string
  readonly mimetype: string
  readonly file_url?: string
}

/**
 * The flat context that tools in single files receive. Every field has a default, so a test may write `new ToolContext()`.
 * A service that is not there is `null`. `sent_files` and `injected_tools` are only ever appended to.
 */
export class ToolContext {
  platform = ''
  channel_id = ''
  message_id = ''
  user_id = ''
  user_name = ''
  guild_id = ''
  adapter: unknown = null
  config: unknown = null
  redis: unknown = null
  message_cache: unknown = null
  kg_manager: unknown = null
  task_manager: unknown = null
  threadweave: unknown = null
  tool_registry: unknown = null
  conversation_manager: unknown = null
  openrouter: unknown = null
  all_adapters: unknown[] = []
  adapters_by_name: Map<string, unknown> = new Map()
  injected_tools: Set<string> | null = null
  sent_files: SentEntry[] = []
}

/** The flat view of a call. */
export function flatContext(ctx: CallContext): ToolContext {
  const { origin, caller } = ctx
  return Object.assign(new ToolContext(), {
    platform: origin.platform,
    channel_id: origin.channelId,
    message_id: origin.messageId,
    user_id: origin.userId || caller.principal,
    user_name: origin.userName || caller.principal,
    guild_id: origin.guildId,
    config: ctx.config ?? null,
  })
}

/** Hands what a tool appended to its flat context to the call. */
export function flush(flat: ToolContext, ctx: CallContext): void {
  for (const { file_url, ...file } of flat.sent_files) {
    const sent: SentFile = file_url === undefined ? file : { ...file, fileUrl: file_url }
    ctx.sendFile(sent)
  }
}

/** The second argument of `execute(args, env)` in script-style files. */
export interface ScriptEnv {
  readonly speaker: { readonly alias: string }
  readonly channel: string
  readonly channel_members: readonly string[]
  readonly seen_members: readonly string[]
  readonly mode: string
}

export function scriptEnv(ctx: CallContext): ScriptEnv {
  const { user_name, channel_id } = flatContext(ctx)
  return { speaker: { alias: user_name }, channel: channel_id, channel_members: [], seen_members: [], mode: '' }
}
