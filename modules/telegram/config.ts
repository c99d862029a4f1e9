import { hash } from 'node:crypto'
import { type Paths, z } from 'pegboard'
import { stringList, userAgent } from '../_access.ts'
import { denied, invalid } from '../_errors.ts'
import { cacheFolder, filledByPegboard, cachePaths as pathsOf } from '../_folders.ts'

/** Group ids are negative; `@name` is a public channel. */
const CHAT = /^(?:-?[1-9]\d{0,18}|@[A-Za-z]\w{3,31})$/
const chat = z.union([z.string().regex(CHAT, 'a chat is a number or @name'), z.int()]).transform(String)

/** Unknown keys are rejected, so that a misspelled limit does not leave something open. */
export const Config = z.strictObject({
  token: z.string().min(1).optional().describe('Token of the bot; use "${TELEGRAM_BOT_TOKEN}".'),
  token_env: z
    .string()
    .regex(/^[A-Za-z_]\w*$/)
    .optional()
    .describe('Variable that holds the token, instead of token.'),
  base_url: z
    .url({ protocol: /^https?$/ })
    .default('https://api.telegram.org')
    .describe('Address of the Bot API; can be a server on this machine.'),
  allowed_chat_ids: z.array(chat).default([]).describe('Chats that the bot can use.'),
  default_chat_id: chat.optional().describe('Chat for requests that come from no chat; it is also allowed.'),
  inbound: z.boolean().default(false).describe('Receive the messages of these chats.'),
  user_agent: userAgent,
  timeout: z.int().min(1).max(300).default(60).describe('Timeout of a request (seconds).'),
  file_cache_dir: cacheFolder.describe('The only folder that files are sent from.'),
  denied_paths: stringList('Paths in it that are never sent.'),
  config_file: filledByPegboard('config_file'),
  state_dir: filledByPegboard('state_dir'),
})

export type Settings = z.infer<typeof Config>

export const SETTING = 'modules.telegram.config'

/** Telegram's limit for bots without their own server; also fixed by the requirements. */
export const MAX_FILE_BYTES = 20 * 1024 * 1024

export const tokenOf = ({ token, token_env }: Settings): string | undefined =>
  token ?? (token_env === undefined ? undefined : process.env[token_env] || undefined)

/** The bot's id, the public first part of its token; for other token formats a digest. */
export function botOf(settings: Settings): string {
  const token = tokenOf(settings) ?? ''
  return /^\d+(?=:)/.exec(token)?.[0] ?? hash('sha256', token).slice(0, 16)
}

export const hasToken = ({ config }: { readonly config: Settings }): true | string =>
  tokenOf(config) !== undefined ||
  (config.token_env === undefined
    ? `set ${SETTING}.token`
    : `set the variable ${config.token_env} (${SETTING}.token_env)`)

/** The folder that files are sent from and received files are saved to. */
export const cachePaths = (settings: Settings): Paths => pathsOf(settings, SETTING)

/** @throws ToolError E_DENIED_BY_POLICY for a chat that the operator has not listed */
export function checkChat(chatId: string, { allowed_chat_ids, default_chat_id }: Settings): string {
  if (!CHAT.test(chatId))
    throw invalid(
      `invalid chat_id: ${chatId.slice(0, 80)}`,
      'A chat is a number, such as 123456 or -1001234567890, or the @name of a public channel.',
    )
  if (chatId !== default_chat_id && !allowed_chat_ids.includes(chatId))
    throw denied(`unauthorized chat_id: ${chatId}`, `See ${SETTING}.allowed_chat_ids.`)
  return chatId
}
