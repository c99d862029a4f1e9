import type { View } from './view.ts'

/** Servers that the caller sees and that are connecting for the first time, so that their tools are unknown. */
export const unreadServers = ({ owners }: View): string[] =>
  owners
    .filter(({ state, reason }) => (state === 'connecting' || state === 'configured') && reason === undefined)
    .filter(({ tools, withheld }) => tools.length + withheld.length === 0)
    .map(({ id }) => id)

/** `mcp_a, mcp_b and 3 more`. */
export const shownServers = (ids: readonly string[]): string =>
  `${ids.slice(0, 5).join(', ')}${ids.length > 5 ? ` and ${ids.length - 5} more` : ''}`
