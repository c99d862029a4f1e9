import { removeInvisible } from '../core/invisible-characters.ts'
import type { Log } from '../core/log.ts'
import type { Conversations, Incoming, IncomingMessage, Messages } from '../core/service-types.ts'

/** The stores for the messages of one platform; `null` for a disabled one. */
interface MessageStores {
  readonly messages: Messages | null
  readonly conversations: Conversations | null
}

type Listener = Parameters<Incoming['hear']>[0]

/** @param log receives errors of listeners, which do not stop a message */
export function createIncoming(log: Log) {
  const listeners = new Set<Listener>()
  return (keepers: (platform: string) => MessageStores, until?: AbortSignal): Incoming => ({
    hear(listener) {
      // Wrapped, so that adding the same function twice counts as two listeners.
      const own: Listener = (message) => listener(message)
      listeners.add(own)
      const off = (): void => {
        listeners.delete(own)
        until?.removeEventListener('abort', off)
      }
      until?.addEventListener('abort', off, { once: true })
      return off
    },
    async receive(given: IncomingMessage) {
      // Anybody may write to a platform, and a model reads it.
      const message = { ...given, text: removeInvisible(given.text), user_name: removeInvisible(given.user_name) }
      for (const listener of [...listeners])
        try {
          if ((await listener(message)) === false) return false
        } catch (error) {
          log.error('a listener to incoming messages failed', { error, platform: message.platform })
        }
      const { attachments: _files, guild_id: _guild, ...remembered } = message
      const { messages, conversations } = keepers(message.platform)
      await messages?.record(remembered)
      const { message_id, user_id, user_name, timestamp, text: content } = message
      // An edited message, or one that is delivered again, replaces the first.
      if (message_id !== '' && (await conversations?.update(message.channel_id, message_id, { content }))) return true
      await conversations?.append(message.channel_id, {
        role: 'user',
        message_id,
        user_id,
        user_name,
        timestamp,
        content,
      })
      return true
    },
  })
}
