import { setTimeout as wait } from 'node:timers/promises'
import { type Attachment, type IncomingMessage, isPegboardError, type Log, type Services, ToolError, z } from 'pegboard'
import { makeCache } from '../_folders.ts'
import type { BotApi } from './api.ts'
import { botOf, cachePaths, MAX_FILE_BYTES, SETTING, type Settings } from './config.ts'
import { safeFileName } from './files.ts'

const POLL_S = 50
const MIN_DELAY_MS = 1_000
const MAX_DELAY_MS = 60_000

/** Invalid members count as missing; a message needs an id and a chat. */
const optional = <T extends z.ZodType>(schema: T) => schema.optional().catch(undefined)
const optionalText = optional(z.string())
const User = z.object({ id: z.int(), username: optionalText, first_name: optionalText, last_name: optionalText })
const StoredFile = z.object({
  file_id: z.string(),
  file_size: optional(z.number()),
  file_name: optionalText,
  mime_type: optionalText,
})
const Message = z.object({
  message_id: z.int(),
  /** In seconds, for years with four digits. */
  date: optional(z.int().min(0).max(253_402_300_799)),
  chat: z.object({ id: z.int(), username: optionalText, title: optionalText }),
  from: optional(User),
  text: optionalText,
  caption: optionalText,
  reply_to_message: optional(z.object({ message_id: z.int() })),
  photo: optional(z.array(StoredFile)),
  document: optional(StoredFile),
  voice: optional(StoredFile),
})
const Update = z.object({ update_id: z.int().min(0), message: optional(Message), edited_message: optional(Message) })

type StoredFile = z.infer<typeof StoredFile>
type Message = z.infer<typeof Message>

interface Host {
  readonly services: Services
  readonly log: Log
  readonly signal: AbortSignal
}

/** Receives messages of the allowed chats until `signal` fires. Never rejects. */
export async function listen(api: BotApi, settings: Settings, host: Host): Promise<void> {
  const { services, log, signal } = host
  const allowed = new Set([...settings.allowed_chat_ids, settings.default_chat_id ?? ''])
  // Update ids belong to one bot; those of another would discard waiting messages.
  const offsetKey = `offset:${botOf(settings)}`
  let offset: number | undefined
  let delay = MIN_DELAY_MS
  while (!signal.aborted)
    try {
      offset ??= Number((await services.kv?.get(offsetKey)) ?? 0)
      const updates = await requestUpdates(api, offset, signal)
      delay = MIN_DELAY_MS
      for (const update of updates) {
        const message = update.message ?? update.edited_message
        if (message && (allowed.has(String(message.chat.id)) || allowed.has(`@${message.chat.username ?? ''}`)))
          await receive(api, settings, host, message)
        // Saved only now, so that an unprocessed message is received again after a restart.
        offset = update.update_id + 1
        await services.kv?.set(offsetKey, offset)
      }
    } catch (error) {
      if (signal.aborted) return
      const ms = (isPegboardError(error) ? error.retryAfterMs : null) ?? delay
      log.warn('messages from Telegram cannot be received; retrying', { error, ms })
      await wait(ms, undefined, { signal, ref: false }).catch(() => undefined)
      delay = Math.min(MAX_DELAY_MS, delay * 2)
    }
}

/** Waits for updates. @throws ToolError E_BACKEND_UNAVAILABLE for an answer without any valid update */
async function requestUpdates(api: BotApi, offset: number, signal: AbortSignal) {
  const answer = await api.call(
    'getUpdates',
    { offset, timeout: POLL_S, allowed_updates: ['message', 'edited_message'] },
    { signal, timeoutMs: (POLL_S + 10) * 1000 },
  )
  if (Array.isArray(answer) && answer.length === 0) return []
  const updates = [answer].flat().flatMap((update) => Update.safeParse(update).data ?? [])
  // Asking again at once would give the same answer.
  if (updates.length === 0)
    throw new ToolError('Telegram answered with something other than updates.', { code: 'E_BACKEND_UNAVAILABLE' })
  return updates
}

async function receive(api: BotApi, settings: Settings, host: Host, message: Message): Promise<void> {
  const { services } = host
  const { chat, from } = message
  const { attachments, unsavedNames } = await downloadFiles(api, settings, host, message)
  const fullName = [from?.first_name, from?.last_name].filter((part) => part !== undefined).join(' ')
  const incoming: IncomingMessage = {
    platform: 'telegram',
    guild_id: '',
    channel_id: String(chat.id),
    message_id: String(message.message_id),
    reply_to_id: message.reply_to_message ? String(message.reply_to_message.message_id) : '',
    user_id: String(from?.id ?? chat.id),
    user_name: from?.username ?? (fullName || (chat.title ?? '')),
    text: [
      message.text ?? message.caption ?? '',
      ...(await saveFiles(settings, message, attachments)),
      ...unsavedNames.map(noteUnsaved),
    ]
      .filter((part) => part !== '')
      .join('\n'),
    timestamp: message.date === undefined ? Date.now() : message.date * 1000,
    attachments,
  }
  await services.incoming?.receive(incoming)
}

const noteUnsaved = (filename: string): string => `[file not saved: ${filename}]`

/** A failing file must not block later messages: undefined, unless a retry may succeed. */
const ignoreFinalFailure = (error: unknown): undefined => {
  if (!isPegboardError(error) || error.retryable) throw error
}

/** Creates the folder if it is missing. Called before any download; false if it cannot be created. */
const ensureFolder = (settings: Settings, log: Log): Promise<boolean> =>
  makeCache(settings, SETTING).then(
    () => true,
    (error) => {
      log.warn(`files from Telegram are not saved: ${SETTING}.file_cache_dir cannot be created`, { error })
      return false
    },
  )

/** A file that is too large or missing is named in the text and not downloaded. */
async function downloadFiles(api: BotApi, settings: Settings, { log, signal }: Host, message: Message) {
  const photo = message.photo?.at(-1)
  const files: (StoredFile & { readonly fallback: string; readonly type: string })[] = []
  if (photo) files.push({ ...photo, fallback: 'photo.jpg', type: 'image/jpeg' })
  if (message.document) files.push({ ...message.document, fallback: 'document', type: 'application/octet-stream' })
  if (message.voice) files.push({ ...message.voice, fallback: 'voice.ogg', type: 'audio/ogg' })
  const attachments: Attachment[] = []
  const unsavedNames: string[] = []
  const canSave = files.length > 0 && (await ensureFolder(settings, log))
  for (const { file_id, file_size = 0, file_name, mime_type, fallback, type } of files) {
    const filename = safeFileName(file_name ?? fallback)
    const data =
      canSave && file_size <= MAX_FILE_BYTES
        ? await downloadFile(api, file_id, signal).catch(ignoreFinalFailure)
        : undefined
    if (data) attachments.push({ data, filename, mimetype: mime_type ?? type })
    else unsavedNames.push(filename)
  }
  return { attachments, unsavedNames }
}

async function downloadFile(api: BotApi, file_id: string, signal: AbortSignal): Promise<Uint8Array | undefined> {
  const { data } = z.object({ file_path: z.string() }).safeParse(await api.call('getFile', { file_id }, { signal }))
  return data && (await api.download(data.file_path, MAX_FILE_BYTES, signal))
}

/** Saves files where local tools can read them, and returns their paths. */
async function saveFiles(settings: Settings, { chat, message_id }: Message, files: readonly Attachment[]) {
  const paths = cachePaths(settings)
  return await Promise.all(
    files.map(async ({ filename, data }) => {
      const path = `telegram/${chat.id}/${message_id}-${filename}`
      const isSaved = await paths.writeFile(path, data).then(() => true, ignoreFinalFailure)
      return isSaved ? `[file: file_cache_dir/${path}]` : noteUnsaved(filename)
    }),
  )
}
