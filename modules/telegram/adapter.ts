import { type AdapterServer, type PlatformAdapter, type SentFile, ToolError } from 'pegboard'
import { asRecord } from '../_is-record.ts'
import type { BotApi, Upload } from './api.ts'
import { checkChat, MAX_FILE_BYTES, type Settings } from './config.ts'
import { safeFileName } from './files.ts'
import { splitText } from './split-text.ts'

/** The adapter for Telegram. */
export function createAdapter(api: BotApi, settings: Settings): PlatformAdapter {
  return {
    name: 'telegram',
    /** Sends plain text without markup. `options.reply_to` is the id of the message to answer. */
    async send(channel, text, options = {}) {
      const chat_id = checkChat(channel, settings)
      const ids: string[] = []
      const { reply_to } = options
      for (const piece of splitText(text)) {
        const isReply = ids.length === 0 && reply_to !== undefined && reply_to !== ''
        const reply = isReply ? { reply_parameters: { message_id: Number(reply_to) } } : {}
        ids.push(messageIdOf(await api.call('sendMessage', { chat_id, text: piece, ...reply })))
      }
      return { message_ids: ids }
    },
    async sendFile(channel, file) {
      const chat_id = checkChat(channel, settings)
      const upload = createUpload(file)
      return { message_id: messageIdOf(await api.call(upload.method, { chat_id }, { upload })) }
    },
    async listServers() {
      const chats = [...new Set([...settings.allowed_chat_ids, settings.default_chat_id ?? []].flat())]
      return await Promise.all(chats.map((chat) => getServer(api, chat)))
    },
    client: { call: (method: string, params?: Readonly<Record<string, unknown>>) => api.call(method, params) },
  }
}

export function messageIdOf(result: unknown): string {
  const id = (result as { readonly message_id?: unknown } | null)?.message_id
  return typeof id === 'number' || typeof id === 'string' ? String(id) : ''
}

function createUpload({ data, filename, mimetype }: SentFile): Upload & { readonly method: string } {
  const bytes = typeof data === 'string' ? new TextEncoder().encode(data) : data
  if (bytes.length > MAX_FILE_BYTES)
    throw new ToolError(`file too large to send (>${MAX_FILE_BYTES} bytes): ${filename}`, { code: 'E_TOO_LARGE' })
  const [method, field] = /^image\/(?:png|jpeg|webp)$/.test(mimetype)
    ? ['sendPhoto', 'photo']
    : mimetype === 'audio/ogg'
      ? ['sendVoice', 'voice']
      : ['sendDocument', 'document']
  return { method, field, filename: safeFileName(filename), mimetype, bytes }
}

async function getServer(api: BotApi, id: string): Promise<AdapterServer> {
  const { title, username, first_name, type } = asRecord(await api.call('getChat', { chat_id: id }))
  const name = title ?? username ?? first_name
  return { id, name: typeof name === 'string' ? name : id, type }
}
