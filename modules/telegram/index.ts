import { type CallContext, defineModule, type ToolDef, ToolError, z } from 'pegboard'
import { invalid } from '../_errors.ts'
import { requiredText } from '../_required-text.ts'
import { speak } from '../_speech.ts'
import { createAdapter, messageIdOf } from './adapter.ts'
import { type BotApi, createBotApi } from './api.ts'
import { Config, checkChat, hasToken, type Settings } from './config.ts'
import { readCachedFile, safeFileName } from './files.ts'
import { listen } from './inbound.ts'
import { findReaction, reactionList } from './reactions.ts'

/** One per configuration, because profiles may have their own; they share rate limits of the same bot. */
const apis = new Map<string, BotApi>()

function apiFor(settings: Settings, log: CallContext['log']): BotApi {
  const key = JSON.stringify(settings)
  const api = apis.get(key) ?? createBotApi(settings, log)
  apis.set(key, api)
  return api
}

type Context = CallContext<Settings>

const createMissingError = (name: string): ToolError => invalid(`missing required param: ${name}`, `Give ${name}.`)

/** The chat: the requested one, otherwise that of the request, otherwise the operator's default. */
function chatOf(requestedChat: string | undefined, { origin, config }: Context): string {
  const originChat = origin.platform === 'telegram' ? origin.channelId : ''
  const chat = requestedChat || originChat || config.default_chat_id
  if (chat === undefined) throw createMissingError('chat_id')
  return checkChat(chat, config)
}

const chat_id = z
  .union([z.string().max(64), z.int()])
  .transform(String)
  .optional()
  .describe('Chat; default the chat of the request.')
const caption = z.string().max(1024).optional().describe('Caption.')
const filename = z.string().max(255).optional().describe('File name to show; default its own name.')

const SendFile = z.object({
  path: requiredText('path').max(4096).describe('File in file_cache_dir.'),
  filename,
  caption,
})

const telegram_send_file: ToolDef<Settings, typeof SendFile> = {
  title: 'Send a file to the Telegram chat',
  description:
    'Send a file from file_cache_dir to the Telegram chat of the request, as a document up to 20 MiB. Write the file there first.',
  aliases: ['telegram document', 'send to telegram', 'envoyer sur telegram', 'telegram senden'],
  tags: ['telegram', 'chat', 'files'],
  input: SendFile,
  effect: 'write',
  openWorld: true,
  available: hasToken,
  sideEffects: ['sends a file to a chat'],
  examples: [{ input: { path: 'report.pdf', caption: 'The report' } }],
  async run({ path, filename, caption }, ctx) {
    const chat = chatOf(undefined, ctx)
    const file = await readCachedFile(path, ctx.config)
    return await sendUpload(ctx, 'sendDocument', { chat_id: chat, caption }, 'document', {
      filename: safeFileName(filename ?? file.name),
      mimetype: 'application/octet-stream',
      bytes: file.bytes,
    })
  },
}

const SendVoice = z.object({
  chat_id,
  path: z.string().max(4096).optional().describe('Ogg/Opus file in file_cache_dir; without it, text is spoken.'),
  text: z.string().max(8192).optional().describe('Text to speak, up to 1,200 characters; default the caption.'),
  lang: z.string().max(35).optional().describe('Language of the text, such as "de"; guessed by default.'),
  filename,
  caption,
})

const telegram_send_voice: ToolDef<Settings, typeof SendVoice> = {
  title: 'Send a voice message on Telegram',
  description:
    'Send a voice message to a Telegram chat: a recording from file_cache_dir, or a text that a local speech program reads aloud.',
  aliases: ['voice note', 'say on telegram', 'message vocal', 'Sprachnachricht', 'mensaje de voz'],
  tags: ['telegram', 'chat', 'voice'],
  input: SendVoice,
  effect: 'write',
  openWorld: true,
  available: hasToken,
  sideEffects: ['sends a voice message to a chat', 'runs a speech program'],
  examples: [{ input: { text: 'The build is green.' } }, { input: { path: 'note.ogg', caption: 'Listen' } }],
  async run({ chat_id: requestedChat, path, text, lang, filename, caption }, ctx) {
    const chat = chatOf(requestedChat, ctx)
    const { config, services, signal } = ctx
    const params = { chat_id: chat, caption }
    if (path) {
      const file = await readCachedFile(path, config)
      return await sendUpload(ctx, 'sendVoice', params, 'voice', {
        filename: safeFileName(filename ?? file.name),
        mimetype: 'audio/ogg',
        bytes: file.bytes,
      })
    }
    const script = text?.trim() || caption?.trim()
    if (!script) throw invalid('missing voice synthesis text', 'Pass text or path.')
    if (!services.processes) throw new ToolError('Programs cannot run here.', { code: 'E_BACKEND_UNAVAILABLE' })
    const voice = await speak(script, { processes: services.processes, cacheDir: config.file_cache_dir, lang, signal })
    return {
      ...(await sendUpload(ctx, 'sendVoice', params, 'voice', {
        filename: safeFileName(filename ?? 'voice.ogg'),
        mimetype: voice.mimetype,
        bytes: voice.bytes,
      })),
      lang: voice.lang,
    }
  },
}

const React = z.object({
  emoji: requiredText('emoji').max(32).describe(`One of ${reactionList}`),
  chat_id,
  message_id: z
    .union([z.string().max(20), z.int()])
    .transform(String)
    .optional()
    .describe('Message; default the message of the request.'),
  is_big: z.boolean().optional().describe('Use a large animation.'),
})

const telegram_react: ToolDef<Settings, typeof React> = {
  title: 'React to a Telegram message',
  description: 'React to a message of a Telegram chat with one of the standard emoji, instead of an answer in words.',
  aliases: ['emoji reaction', 'thumbs up', 'réagir', 'reagieren', 'reaccionar'],
  tags: ['telegram', 'chat', 'emoji'],
  input: React,
  effect: 'write',
  idempotent: true,
  openWorld: true,
  available: hasToken,
  sideEffects: ['changes the reaction of the bot to a message'],
  examples: [{ input: { emoji: '👍', message_id: '123' } }],
  async run({ emoji, chat_id: requestedChat, message_id, is_big }, ctx) {
    const chat = chatOf(requestedChat, ctx)
    const { origin } = ctx
    const message = message_id || (origin.platform === 'telegram' ? origin.messageId : '')
    if (!message) throw createMissingError('message_id')
    if (!/^[1-9]\d{0,15}$/.test(message))
      throw invalid(`invalid message_id: ${message.slice(0, 40)}`, 'Pass its number.')
    const reaction = findReaction(emoji)
    if (reaction === undefined)
      throw invalid(
        `emoji is not in Telegram standard reactions list: ${emoji}`,
        'Use one from the description of emoji.',
      )
    await apiFor(ctx.config, ctx.log).call(
      'setMessageReaction',
      {
        chat_id: chat,
        message_id: Number(message),
        reaction: [{ type: 'emoji', emoji: reaction }],
        ...(is_big === undefined ? {} : { is_big }),
      },
      { signal: ctx.signal },
    )
    return { result: `reacted with ${reaction}` }
  },
}

async function sendUpload(
  { config, log, signal }: Context,
  method: string,
  params: { readonly chat_id: string; readonly caption: string | undefined },
  field: string,
  file: { readonly filename: string; readonly mimetype: string; readonly bytes: Uint8Array },
) {
  const result = await apiFor(config, log).call(method, params, { upload: { field, ...file }, signal })
  return {
    sent: true,
    chat_id: params.chat_id,
    message_id: messageIdOf(result),
    filename: file.filename,
    bytes: file.bytes.length,
  }
}

export default defineModule({
  name: 'telegram',
  description: 'Send files, voice messages and reactions to Telegram chats as a bot, and receive messages.',
  config: Config,
  synonyms: [['telegram', 'tg']],
  start({ config, log, signal, services }) {
    if (hasToken({ config }) !== true) return
    const api = apiFor(config, log)
    const remove = services.adapters?.add(createAdapter(api, config))
    if (remove) signal.addEventListener('abort', remove, { once: true })
    if (config.inbound) void listen(api, config, { services, log, signal })
  },
  async stop() {
    await Promise.all([...apis.values()].map((api) => api.close()))
  },
  tools: { telegram_send_file, telegram_send_voice, telegram_react },
})
