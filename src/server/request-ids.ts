import type { Message } from '../core/jsonrpc.ts'
import { ShortLivedMap } from '../core/short-lived-map.ts'

/** Error for a request with the id of a running one: their answers could be confused. */
export const IN_FLIGHT = 'Invalid request: id already in flight'

/** Ids of the running requests of one connection. */
export interface RequestIds {
  /** Adds a request; false if its id is taken. True for other messages. */
  enters(message: Message): boolean
  sent(message: object): void
  readonly size: number
}

export function createRequestIds(): RequestIds {
  const ids = new ShortLivedMap<unknown, true>()
  return {
    get size() {
      return ids.size
    },
    enters({ id, method, params }) {
      // A cancelled request is not answered.
      if (method === 'notifications/cancelled') ids.delete(params?.['requestId'])
      if (id === undefined || method === undefined) return true
      if (ids.has(id)) return false
      ids.set(id, true)
      return true
    },
    sent(message) {
      if (!('method' in message)) ids.delete((message as Message).id)
    },
  }
}
