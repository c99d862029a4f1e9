import { joinNames } from '../core/join-names.ts'
import type { View } from './view.ts'

/** Servers that the caller sees and that are connecting for the first time, so that their tools are unknown. */
export const unreadServers = ({ owners }: Pick<View, 'owners'>): string[] =>
  owners
    .filter(({ state, reason }) => (state === 'connecting' || state === 'configured') && reason === undefined)
    .filter(({ tools, quarantined }) => tools.length + quarantined.length === 0)
    .map(({ id }) => id)

export const joinServerIds = (ids: readonly string[]): string => joinNames(ids, 5)
