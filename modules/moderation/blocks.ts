import type { Kv } from 'pegboard'
import { sameName } from '../_names.ts'

export type BlockType = 'mute' | 'block'

/** A user who is not to be heard for a time, by one persona in one guild. */
export interface Block {
  readonly guild_id: string
  readonly user_id: string
  readonly user_name: string
  readonly block_type: BlockType
  readonly reason: string
  readonly duration_hours: number
  /** Milliseconds since the epoch. */
  readonly expires_at: number
}

/** In the store that all modules of the profile share: adapters look there before they let a message in. */
const KEY = 'moderation.blocks'
export const HOUR_MS = 60 * 60_000

const blocksIn = (value: unknown): readonly Block[] => (value ?? []) as readonly Block[]
const isSame = (one: Pick<Block, 'guild_id' | 'user_id'>, other: Pick<Block, 'guild_id' | 'user_id'>): boolean =>
  one.guild_id === other.guild_id && one.user_id === other.user_id

/** Those that hold now. */
export const blocksOf = async (kv: Kv, guild: string, now: number): Promise<readonly Block[]> =>
  blocksIn(await kv.shared.get(KEY)).filter(({ guild_id, expires_at }) => guild_id === guild && expires_at > now)

/** In place of one of the same user; those that lapsed are forgotten. */
export const put = (kv: Kv, block: Block, now: number): Promise<void> =>
  kv.shared.update(KEY, (value) => {
    const others = blocksIn(value).filter((one) => one.expires_at > now && !isSame(one, block))
    return { value: [...others, block], result: undefined }
  })

/** What was lifted. */
export const lift = (kv: Kv, guild: string, user: string, now: number): Promise<Block | undefined> =>
  kv.shared.update(KEY, (value) => {
    const living = blocksIn(value).filter(({ expires_at }) => expires_at > now)
    const found = blockOf(
      living.filter(({ guild_id }) => guild_id === guild),
      { id: user, name: user },
    )
    return { value: living.filter((one) => one !== found), result: found }
  })

/** The block of a user, by id or name. */
export const blockOf = (
  blocks: readonly Block[],
  { id, name }: { readonly id: string; readonly name: string },
): Block | undefined =>
  blocks.find(({ user_id }) => id !== '' && user_id === id) ??
  blocks.find(
    ({ user_id, user_name }) => name !== '' && [user_name, user_id].some((one) => sameName(one) === sameName(name)),
  )

/** As people count: the hour that has begun is one. */
export const hoursLeft = ({ expires_at }: Block, now: number): number =>
  Math.max(1, Math.ceil((expires_at - now) / HOUR_MS))
