import { hash } from 'node:crypto'
import { type Paths, ToolError, z } from 'pegboard'
import { own, cachePaths as pathsOf } from '../_folders.ts'

/** A group's number is below 0; `@name` is a public channel. */
const CHAT = /^(?:-?[1-9]\d{0,18}|@[A-Za-z]\w{3,31})$/
const chat = z.union([z.string().regex(CHAT, 'a chat is a number or @name'), z.int()]).transform(String)

/** Unknown keys are refused: a misspelt limit must not leave something open. */
export const Config = z.strictObject({
  token: z.string().min(1).optional().describe('The token of the bot, best as "${TELEGRAM_BOT_TOKEN}".'),
  token_env: z
    .string()
    .regex(/^[A-Za-z_]\w*$/)
    .optional()
    .describe('The variable that holds the token, in place of token.'),
  base_url: z
    .url({ protocol: /^https?$/ })
    .default('https://api.telegram.org')
    .describe('Where the Bot API is; a server of your own may be on this machine.'),
  allowed_chat_ids: z.array(chat).default([]).describe('The chats that may be written to and are heard.'),
  default_chat_id: chat.optional().describe('The chat that is meant where a request comes from none; allowed by this.'),
  inbound: z.boolean().default(false).describe('Takes in the messages of these chats.'),
  user_agent: z
    .string()
    .min(1)
    .default('{{user_agent}}')
    .describe('What requests say they come from; default services.fetch.userAgent.'),
  timeout: z.int().min(1).max(300).default(60).describe('Seconds a request may take.'),
  file_cache_dir: z
    .string()
    .min(1)
    .default('{{cache_dir}}/files')
    .describe('The only folder that files are sent from.'),
  denied_paths: z.array(z.string().min(1)).default([]).describe('What in it is never sent.'),
  config_file: own('config_file'),
  state_dir: own('state_dir'),
})

export type Settings = z.infer<typeof Config>

export const SETTING = 'modules.telegram.config'

/** Telegram takes no larger file from a bot without a server of its own; the agreed limit of these tools. */
export const MAX_FILE_BYTES = 20 * 1024 * 1024

export const tokenOf = ({ token, token_env }: Settings): string | undefined =>
  token ?? (token_env === undefined ? undefined : process.env[token_env] || undefined)

/** The number of the bot, which its token begins with and which is no secret; of another form of token a digest. */
export function botOf(settings: Settings): string {
  const token = tokenOf(settings) ?? ''
  return /^\d+(?=:)/.exec(token)?.[0] ?? hash('sha256', token).slice(0, 16)
}

export const configured = ({ config }: { readonly config: Settings }): true | string =>
  tokenOf(config) !== undefined ||
  (config.token_env === undefined
    ? `set ${SETTING}.token`
    : `set the variable ${config.token_env} (${SETTING}.token_env)`)

/** The folder that files are sent from, and where those that come in are put. */
export const cachePaths = (settings: Settings): Paths => pathsOf(settings, SETTING)

/** @throws ToolError E_DENIED_BY_POLICY for a chat that the operator has not named */
export function checkChat(chatId: string, { allowed_chat_ids, default_chat_id }: Settings): string {
  if (!CHAT.test(chatId))
    throw new ToolError(`invalid chat_id: ${chatId.slice(0, 80)}`, {
      code: 'E_VALIDATION',
      hint: 'A chat is a number, such as 123456 or -1001234567890, or the @name of a public channel.',
    })
  if (chatId !== default_chat_id && !allowed_chat_ids.includes(chatId))
    throw new ToolError(`unauthorized chat_id: ${chatId}`, {
      code: 'E_DENIED_BY_POLICY',
      hint: `${SETTING}.allowed_chat_ids has the chats that may be used.`,
    })
  return chatId
}
