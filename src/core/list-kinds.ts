export const LIST_KINDS = ['tools', 'prompts', 'resources'] as const
export type ListKind = (typeof LIST_KINDS)[number]

export const listChanged = (kind: ListKind): string => `notifications/${kind}/list_changed`

const KINDS: ReadonlyMap<string, ListKind> = new Map(LIST_KINDS.map((kind) => [listChanged(kind), kind]))

/** The list that a `list_changed` notification names; undefined for other notifications. */
export const changedList = (method: string): ListKind | undefined => KINDS.get(method)
