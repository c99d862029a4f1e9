import { isRecord } from '../core/record.ts'
import type { FileStore } from '../state/files.ts'
import type { Strangers } from './assess.ts'

/** A tool that was let in though its texts speak of tools, because nobody had those then. */
export interface Unmet {
  readonly hash: string
  /** As it spells them; with one of them known it would have been kept out. */
  readonly names: readonly string[]
}

/** By server and tool. */
export type KeptUnmet = Readonly<Record<string, Readonly<Record<string, Unmet>>>>

/** A tool that was let in. */
export interface Entry {
  readonly server: string
  readonly name: string
  readonly hash: string
}

/** What tools say of tools that are not there yet: it is found when those come, in another run too. */
export interface UnmetTools {
  add(server: string, tools: ReadonlyMap<string, Unmet>): void
  /** Tools of others that speak of these of a server. They are no longer remembered. */
  meet(server: string, own: () => Strangers): readonly Entry[]
}

/** Nobody needs more: a server that has many such tools is seen by one of them. */
const MOST_TOOLS = 500

export function createUnmet(store: FileStore<KeptUnmet> | undefined, key: string): UnmetTools {
  let known: Map<string, Map<string, Unmet>> | undefined
  const all = (): Map<string, Map<string, Unmet>> => {
    known ??= new Map(
      Object.entries(store?.get(key) ?? {}).map(([server, tools]) => [
        server,
        new Map(
          Object.entries(isRecord(tools) ? tools : {}).filter(([, one]) => isRecord(one) && Array.isArray(one.names)),
        ),
      ]),
    )
    return known
  }
  const keep = (): void => {
    const entries = [...all()].map(([server, tools]) => [server, Object.fromEntries(tools)])
    store?.set(key, Object.fromEntries(entries) as KeptUnmet)
  }
  return {
    add(server, tools) {
      if (tools.size === 0) return
      const before = all().get(server)
      all().set(server, new Map([...(before ?? []), ...tools].slice(-MOST_TOOLS)))
      keep()
    },
    meet(server, own) {
      const found: Entry[] = []
      for (const [other, tools] of all()) {
        if (other === server) continue
        const { spelled } = own()
        for (const [name, { hash, names }] of tools) {
          if (!names.some(spelled)) continue
          found.push({ server: other, name, hash })
          tools.delete(name)
        }
      }
      if (found.length > 0) keep()
      return found
    },
  }
}
