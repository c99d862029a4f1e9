import type { IncomingMessage, Log, Services } from 'pegboard'
import { blockOf, blocksOf } from '../_blocks.ts'
import { deliveryText, dequeue, requeue } from './queue.ts'

/**
 * Delivers waiting messages to the author of a new message, in the same channel. Muted and blocked users get none
 * there.
 */
export async function deliverWaiting(
  { platform, channel_id, guild_id, user_id, user_name }: IncomingMessage,
  { kv, adapters }: Services,
  log: Log,
): Promise<void> {
  const adapter = adapters?.get(platform)
  if (!kv || !adapter || user_name === '') return
  const now = Date.now()
  if (blockOf(await blocksOf(kv, guild_id, now), { id: user_id, name: user_name })) return
  const waiting = await dequeue(kv, user_name, now)
  for (const [index, message] of waiting.entries())
    try {
      await adapter.send(channel_id, deliveryText(message, now))
    } catch (error) {
      log.warn('messages could not be delivered and stay queued', { platform, error })
      await requeue(kv, waiting.slice(index))
      return
    }
}
