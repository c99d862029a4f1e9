import type { Kv } from 'pegboard'
import { sameName } from './_names.ts'

/** A user blocked for a time, by one persona in one guild. */
export interface Block {
  readonly guild_id: string
  readonly user_id: string
  readonly user_name: string
  readonly block_type: 'mute' | 'block'
  readonly reason: string
  readonly duration_hours: number
  /** Milliseconds since the epoch. */
  readonly expires_at: number
}

/** Key in the store shared by all modules of the profile; adapters check it before they act on a message. */
export const BLOCKS = 'moderation.blocks'

/** The blocks of a stored value that have not expired. */
export const activeBlocks = (value: unknown, now: number): readonly Block[] =>
  ((value ?? []) as readonly Block[]).filter(({ expires_at }) => expires_at > now)

/** The blocks in force now. */
export const blocksOf = async (kv: Kv, guild: string, now: number): Promise<readonly Block[]> =>
  activeBlocks(await kv.shared.get(BLOCKS), now).filter(({ guild_id }) => guild_id === guild)

/** The block of a user, by id or name. */
export const blockOf = (
  blocks: readonly Block[],
  { id, name }: { readonly id: string; readonly name: string },
): Block | undefined => {
  const foldedName = sameName(name)
  return (
    blocks.find(({ user_id }) => id !== '' && user_id === id) ??
    blocks.find(
      ({ user_id, user_name }) =>
        foldedName !== '' && [user_name, user_id].some((userName) => sameName(userName) === foldedName),
    )
  )
}
