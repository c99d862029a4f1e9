import { type AdapterServer, type PlatformAdapter, type SentFile, ToolError } from 'pegboard'
import type { BotApi, Upload } from './api.ts'
import { checkChat, MAX_FILE_BYTES, type Settings } from './config.ts'
import { fileName } from './files.ts'
import { split } from './split.ts'

/** The adapter for Telegram. */
export function createAdapter(api: BotApi, settings: Settings): PlatformAdapter {
  return {
    name: 'telegram',
    /** Sends plain text without markup. `options.reply_to` is the id of the message to answer. */
    async send(channel, text, options = {}) {
      const chat_id = checkChat(channel, settings)
      const ids: string[] = []
      const { reply_to } = options
      for (const piece of split(text)) {
        const first = ids.length === 0 && reply_to !== undefined && reply_to !== ''
        const reply = first ? { reply_parameters: { message_id: Number(reply_to) } } : {}
        ids.push(messageIdOf(await api.call('sendMessage', { chat_id, text: piece, ...reply })))
      }
      return { message_ids: ids }
    },
    async sendFile(channel, file) {
      const chat_id = checkChat(channel, settings)
      const upload = uploadOf(file)
      return { message_id: messageIdOf(await api.call(upload.method, { chat_id }, { upload })) }
    },
    async listServers() {
      const chats = [...new Set([...settings.allowed_chat_ids, settings.default_chat_id ?? []].flat())]
      return await Promise.all(chats.map((chat) => serverOf(api, chat)))
    },
    client: { call: (method: string, params?: Readonly<Record<string, unknown>>) => api.call(method, params) },
  }
}

export function messageIdOf(result: unknown): string {
  const id = (result as { readonly message_id?: unknown } | null)?.message_id
  return typeof id === 'number' || typeof id === 'string' ? String(id) : ''
}

function uploadOf({ data, filename, mimetype }: SentFile): Upload & { readonly method: string } {
  const bytes = typeof data === 'string' ? new TextEncoder().encode(data) : data
  if (bytes.length > MAX_FILE_BYTES)
    throw new ToolError(`file too large to send (>${MAX_FILE_BYTES} bytes): ${filename}`, { code: 'E_TOO_LARGE' })
  const [method, field] = /^image\/(?:png|jpeg|webp)$/.test(mimetype)
    ? ['sendPhoto', 'photo']
    : mimetype === 'audio/ogg'
      ? ['sendVoice', 'voice']
      : ['sendDocument', 'document']
  return { method, field, filename: fileName(filename), mimetype, bytes }
}

async function serverOf(api: BotApi, id: string): Promise<AdapterServer> {
  const chat = ((await api.call('getChat', { chat_id: id })) ?? {}) as Readonly<Record<string, unknown>>
  const named = chat['title'] ?? chat['username'] ?? chat['first_name']
  return { id, name: typeof named === 'string' ? named : id, type: chat['type'] }
}
