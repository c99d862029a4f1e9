import type { Kv } from 'pegboard'
import { activeBlocks, BLOCKS, type Block, blockOf } from '../_blocks.ts'

export const HOUR_MS = 60 * 60_000

/** Replaces a block of the same user; expired ones are removed. */
export const saveBlock = (kv: Kv, block: Block, now: number): Promise<void> =>
  kv.shared.update(BLOCKS, (value) => {
    const others = activeBlocks(value, now).filter(
      ({ guild_id, user_id }) => guild_id !== block.guild_id || user_id !== block.user_id,
    )
    return { value: [...others, block], result: undefined }
  })

/** Returns the removed block. */
export const removeBlock = (kv: Kv, guild: string, user: string, now: number): Promise<Block | undefined> =>
  kv.shared.update(BLOCKS, (value) => {
    const blocks = activeBlocks(value, now)
    const guildBlocks = blocks.filter(({ guild_id }) => guild_id === guild)
    const removed = blockOf(guildBlocks, { id: user, name: user })
    return { value: blocks.filter((block) => block !== removed), result: removed }
  })

/** Rounded up. */
export const hoursLeft = ({ expires_at }: Block, now: number): number =>
  Math.max(1, Math.ceil((expires_at - now) / HOUR_MS))
