import type { ServerResponse } from 'node:http'
import type { Clock } from '../core/clock.ts'
import type { Bearer } from './auth.ts'

/** What is open now, by the token that let it in. */
export interface Live {
  /** It ends with the token: at once when that is revoked; when it expires, calls under way may finish. */
  hold(bearer: Bearer, res: ServerResponse): void
  /** A token that was made here holds no more. */
  end(token: string): void
}

/** The longest that a timer takes. */
const MAX_MS = 2 ** 31 - 1

/** @param isCall whether it is only an answer that is waited for */
export function createLive(clock: Clock, isCall: (res: ServerResponse) => boolean): Live {
  const open = new Map<string, Set<ServerResponse>>()

  function byToken(id: string, res: ServerResponse): void {
    const own = open.get(id) ?? new Set()
    open.set(id, own.add(res))
    res.once('close', () => {
      own.delete(res)
      if (own.size === 0 && open.get(id) === own) open.delete(id)
    })
  }

  return {
    hold({ credential, expiresAt }, res) {
      if (credential && 'token' in credential) byToken(credential.token, res)
      if (expiresAt === undefined) return
      const cancel = clock.after(Math.min(MAX_MS, Math.max(0, expiresAt - clock.now())), () => {
        if (!isCall(res)) res.destroy()
      })
      res.once('close', cancel)
    },
    end(token) {
      for (const res of open.get(token) ?? []) res.destroy()
    },
  }
}
