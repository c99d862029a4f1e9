import { setTimeout as wait } from 'node:timers/promises'
import { type Attachment, type IncomingMessage, isPegboardError, type Log, type Services } from 'pegboard'
import type { BotApi } from './api.ts'
import { botOf, cachePaths, MAX_FILE_BYTES, type Settings } from './config.ts'
import { fileName } from './files.ts'

const POLL_S = 50
const FIRST_PAUSE_MS = 1_000
const LONGEST_PAUSE_MS = 60_000

interface User {
  readonly id: number
  readonly username?: string
  readonly first_name?: string
  readonly last_name?: string
}
interface StoredFile {
  readonly file_id: string
  readonly file_size?: number
  readonly file_name?: string
  readonly mime_type?: string
}
interface Message {
  readonly message_id: number
  readonly date: number
  readonly chat: { readonly id: number; readonly username?: string; readonly title?: string }
  readonly from?: User
  readonly text?: string
  readonly caption?: string
  readonly reply_to_message?: { readonly message_id: number }
  readonly photo?: readonly StoredFile[]
  readonly document?: StoredFile
  readonly voice?: StoredFile
}
interface Update {
  readonly update_id: number
  readonly message?: Message
  readonly edited_message?: Message
}

/** Takes in what is written in the allowed chats until `signal` fires. Never rejects. */
export async function listen(
  api: BotApi,
  settings: Settings,
  { services, log, signal }: { readonly services: Services; readonly log: Log; readonly signal: AbortSignal },
): Promise<void> {
  const allowed = new Set([...settings.allowed_chat_ids, settings.default_chat_id ?? ''])
  // Numbers of updates are a bot's own: those of another would have what waits for this one thrown away.
  const offsetKey = `offset:${botOf(settings)}`
  let offset = Number((await services.kv?.get(offsetKey)) ?? 0)
  let pause = FIRST_PAUSE_MS
  while (!signal.aborted)
    try {
      const updates = (await api.call(
        'getUpdates',
        { offset, timeout: POLL_S, allowed_updates: ['message', 'edited_message'] },
        { signal, timeoutMs: (POLL_S + 10) * 1000 },
      )) as readonly Update[]
      pause = FIRST_PAUSE_MS
      for (const update of updates) {
        const message = update.message ?? update.edited_message
        if (message && (allowed.has(String(message.chat.id)) || allowed.has(`@${message.chat.username ?? ''}`)))
          await take(api, settings, services, message, signal)
        // Kept only now: what was not taken in is sent again after a restart.
        offset = update.update_id + 1
        await services.kv?.set(offsetKey, offset)
      }
    } catch (error) {
      if (signal.aborted) return
      const asked = isPegboardError(error) ? error.retryAfterMs : null
      log.warn('messages from Telegram do not come in; it is tried again', { error, ms: asked ?? pause })
      await wait(asked ?? pause, undefined, { signal, ref: false }).catch(() => undefined)
      pause = Math.min(LONGEST_PAUSE_MS, pause * 2)
    }
}

async function take(
  api: BotApi,
  settings: Settings,
  services: Services,
  message: Message,
  signal: AbortSignal,
): Promise<void> {
  const { chat, from } = message
  const attachments = await filesOf(api, message, signal)
  const named = [from?.first_name, from?.last_name].filter((part) => part !== undefined).join(' ')
  const incoming: IncomingMessage = {
    platform: 'telegram',
    guild_id: '',
    channel_id: String(chat.id),
    message_id: String(message.message_id),
    reply_to_id: message.reply_to_message ? String(message.reply_to_message.message_id) : '',
    user_id: String(from?.id ?? chat.id),
    user_name: from?.username ?? (named || (chat.title ?? '')),
    text: [message.text ?? message.caption ?? '', ...(await kept(settings, message, attachments))]
      .filter((part) => part !== '')
      .join('\n'),
    timestamp: message.date * 1000,
    attachments,
  }
  await services.incoming?.receive(incoming)
}

/** A file that is too large or gone is named in the text and not fetched. */
async function filesOf(api: BotApi, message: Message, signal: AbortSignal): Promise<Attachment[]> {
  const photo = message.photo?.at(-1)
  const files: (StoredFile & { readonly fallback: string; readonly type: string })[] = []
  if (photo) files.push({ ...photo, fallback: 'photo.jpg', type: 'image/jpeg' })
  if (message.document) files.push({ ...message.document, fallback: 'document', type: 'application/octet-stream' })
  if (message.voice) files.push({ ...message.voice, fallback: 'voice.ogg', type: 'audio/ogg' })
  const fetched: Attachment[] = []
  for (const { file_id, file_size = 0, file_name, mime_type, fallback, type } of files) {
    if (file_size > MAX_FILE_BYTES) continue
    const found = (await api.call('getFile', { file_id }, { signal })) as { readonly file_path?: string }
    if (found.file_path === undefined) continue
    const data = await api.download(found.file_path, MAX_FILE_BYTES, signal)
    fetched.push({ data, filename: fileName(file_name ?? fallback), mimetype: mime_type ?? type })
  }
  return fetched
}

/** Puts files where the tools of this machine can read them, and says where that is. */
async function kept(settings: Settings, { chat, message_id }: Message, files: readonly Attachment[]) {
  const paths = cachePaths(settings)
  return await Promise.all(
    files.map(async ({ filename, data }) => {
      const path = `telegram/${chat.id}/${message_id}-${filename}`
      await paths.writeFile(path, data)
      return `[file: file_cache_dir/${path}]`
    }),
  )
}
