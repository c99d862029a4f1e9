import { isRecord } from '../core/is-record.ts'
import type { FileStore } from '../state/file-store.ts'
import type { OtherTools } from './assess-tools.ts'

/** An approved tool whose texts mention tools that no server had at that time. */
export interface PendingMention {
  readonly hash: string
  /** The mentioned names, as spelled. If one of them had been known, the tool would have been quarantined. */
  readonly names: readonly string[]
}

/** By server and tool. */
export type StoredMentions = Readonly<Record<string, Readonly<Record<string, PendingMention>>>>

export interface ApprovedTool {
  readonly server: string
  readonly name: string
  readonly hash: string
}

/** More are not needed: one such tool is enough to notice a server. */
const MAX_TOOLS = 2_000

/** Remembers which tools mention tools that do not exist yet, across runs, and finds them when those tools appear. */
export function createPendingMentions(store: FileStore<StoredMentions> | undefined, key: string) {
  let cached: Map<string, Map<string, PendingMention>> | undefined
  const getMentions = (): Map<string, Map<string, PendingMention>> => {
    cached ??= new Map(
      Object.entries(store?.get(key) ?? {}).map(([server, tools]) => [
        server,
        new Map(
          Object.entries(isRecord(tools) ? tools : {}).filter(
            ([, mention]) => isRecord(mention) && Array.isArray(mention.names),
          ),
        ),
      ]),
    )
    return cached
  }
  const save = (): void => {
    const entries = [...getMentions()].map(([server, tools]) => [server, Object.fromEntries(tools)])
    store?.set(key, Object.fromEntries(entries) as StoredMentions)
  }
  return {
    add(server: string, tools: ReadonlyMap<string, PendingMention>): void {
      if (tools.size === 0) return
      const existing = getMentions().get(server)
      getMentions().set(server, new Map([...(existing ?? []), ...tools].slice(-MAX_TOOLS)))
      save()
    },
    /** Returns and forgets the tools of other servers that mention one of these tools. */
    takeMatching(server: string, ownTools: () => OtherTools): readonly ApprovedTool[] {
      const matches: ApprovedTool[] = []
      for (const [otherServer, tools] of getMentions()) {
        if (otherServer === server) continue
        const { isSpelling } = ownTools()
        for (const [name, { hash, names }] of tools) {
          if (!names.some(isSpelling)) continue
          matches.push({ server: otherServer, name, hash })
          tools.delete(name)
        }
      }
      if (matches.length > 0) save()
      return matches
    },
  }
}
