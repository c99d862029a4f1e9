import type { Caller } from '../core/context.ts'

/** A client that is connected, as others of its principal see it. */
export interface ConnectedClient {
  /** Not its session: that one is a secret. */
  readonly id: string
  readonly name: string
  readonly version: string
  readonly era: 'legacy' | 'modern'
  /** The one that asks. */
  readonly isCaller: boolean
  notify(method: string, params: Readonly<Record<string, unknown>>): void
}

export interface Connected {
  /** As whom it speaks: one caller for each profile. */
  callers(): readonly Caller[]
  notify(method: string, params: Readonly<Record<string, unknown>>): void
}

/** The clients that can be told something now. */
export interface Clients {
  /** Returns what is to be called when it has gone. */
  add(client: Connected): () => void
  /** Those of the same principal and profile. */
  of(caller: Caller): readonly ConnectedClient[]
}

export function createClients(): Clients {
  const connected = new Map<string, Connected>()
  let count = 0
  return {
    add(client) {
      const id = `client-${++count}`
      connected.set(id, client)
      return () => connected.delete(id)
    },
    of: (asking) =>
      [...connected].flatMap(([id, client]) => {
        const as = client
          .callers()
          .find(({ principal, profile }) => principal === asking.principal && profile === asking.profile)
        if (!as) return []
        const { session, era, client: info } = as
        return [
          {
            id,
            name: info?.name ?? 'unknown',
            version: info?.version ?? '',
            era,
            isCaller: session !== undefined && session === asking.session,
            notify: client.notify,
          },
        ]
      }),
  }
}
