import type { Caller } from '../core/caller.ts'

/** A connected client, as other clients of its principal see it. */
export interface ConnectedClient {
  /** Not the session id, which is secret. */
  readonly id: string
  readonly name: string
  readonly version: string
  readonly era: 'legacy' | 'modern'
  readonly isCaller: boolean
  notify(method: string, params: Readonly<Record<string, unknown>>): void
}

export interface ClientConnection {
  /** The callers it acts for: one per profile. */
  callers(): readonly Caller[]
  notify(method: string, params: Readonly<Record<string, unknown>>): void
}

/** The clients that can be notified now. */
export type ClientRegistry = ReturnType<typeof createClientRegistry>

export function createClientRegistry() {
  const connected = new Map<string, ClientConnection>()
  let count = 0
  return {
    add(client: ClientConnection): () => void {
      const id = `client-${++count}`
      connected.set(id, client)
      return () => connected.delete(id)
    },
    /** All clients, for the operator. */
    all: (): readonly { readonly id: string; readonly callers: readonly Caller[] }[] =>
      [...connected].map(([id, client]) => ({ id, callers: client.callers() })),
    /** Clients of the same principal and profile. */
    of: (asking: Caller): readonly ConnectedClient[] =>
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
