import type { Kv } from 'pegboard'
import { BLOCKS, type Block, blockOf, blocksIn } from '../_blocks.ts'

export const HOUR_MS = 60 * 60_000

const isSame = (one: Block, other: Block): boolean => one.guild_id === other.guild_id && one.user_id === other.user_id

/** Replaces a block of the same user; expired ones are removed. */
export const saveBlock = (kv: Kv, block: Block, now: number): Promise<void> =>
  kv.shared.update(BLOCKS, (value) => {
    const others = blocksIn(value).filter((one) => one.expires_at > now && !isSame(one, block))
    return { value: [...others, block], result: undefined }
  })

/** Returns the removed blocks. */
export const removeBlock = (kv: Kv, guild: string, user: string, now: number): Promise<Block | undefined> =>
  kv.shared.update(BLOCKS, (value) => {
    const living = blocksIn(value).filter(({ expires_at }) => expires_at > now)
    const here = living.filter(({ guild_id }) => guild_id === guild)
    const found = blockOf(here, { id: user, name: user })
    return { value: living.filter((one) => one !== found), result: found }
  })

/** Rounded up. */
export const hoursLeft = ({ expires_at }: Block, now: number): number =>
  Math.max(1, Math.ceil((expires_at - now) / HOUR_MS))
