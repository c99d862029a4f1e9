import type { ServerResponse } from 'node:http'
import type { Clock } from '../core/clock.ts'
import type { Bearer } from './bearer-tokens.ts'

/** Open connections by their token. */
export type OpenConnections = ReturnType<typeof createOpenConnections>

/** @param isCall whether a response is a running call rather than an event stream */
export function createOpenConnections(clock: Clock, isCall: (res: ServerResponse) => boolean) {
  const open = new Map<string, Set<ServerResponse>>()

  function byToken(id: string, res: ServerResponse): void {
    const connections = open.get(id) ?? new Set()
    open.set(id, connections.add(res))
    res.once('close', () => {
      connections.delete(res)
      if (connections.size === 0 && open.get(id) === connections) open.delete(id)
    })
  }

  return {
    /** Closes the response with its token: at once when revoked; when it expires, running calls may finish. */
    hold({ credential, expiresAt }: Bearer, res: ServerResponse): void {
      if (credential && 'token' in credential) byToken(credential.token, res)
      if (expiresAt === undefined) return
      const cancel = clock.after(expiresAt - clock.now(), () => {
        if (!isCall(res)) res.destroy()
      })
      res.once('close', cancel)
    },
    /** Closes the connections of a token of `pegboard token`. */
    end(token: string): void {
      for (const res of open.get(token) ?? []) res.destroy()
    },
  }
}
