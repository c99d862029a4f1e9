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
  const all = (): Map<string, Map<string, PendingMention>> => {
    cached ??= new Map(
      Object.entries(store?.get(key) ?? {}).map(([server, tools]) => [
        server,
        new Map(
          Object.entries(isRecord(tools) ? tools : {}).filter(([, one]) => isRecord(one) && Array.isArray(one.names)),
        ),
      ]),
    )
    return cached
  }
  const keep = (): void => {
    const entries = [...all()].map(([server, tools]) => [server, Object.fromEntries(tools)])
    store?.set(key, Object.fromEntries(entries) as StoredMentions)
  }
  return {
    add(server: string, tools: ReadonlyMap<string, PendingMention>): void {
      if (tools.size === 0) return
      const before = all().get(server)
      all().set(server, new Map([...(before ?? []), ...tools].slice(-MAX_TOOLS)))
      keep()
    },
    /** Returns and forgets the tools of other servers that mention one of these tools. */
    takeMatching(server: string, own: () => OtherTools): readonly ApprovedTool[] {
      const found: ApprovedTool[] = []
      for (const [other, tools] of all()) {
        if (other === server) continue
        const { isSpelling } = own()
        for (const [name, { hash, names }] of tools) {
          if (!names.some(isSpelling)) continue
          found.push({ server: other, name, hash })
          tools.delete(name)
        }
      }
      if (found.length > 0) keep()
      return found
    },
  }
}
