import type { Message } from '../core/jsonrpc.ts'
import { ShortLivedMap } from '../core/short-lived-map.ts'

/** Error for a request with the id of a running one: their answers could be confused. */
export const IN_FLIGHT = 'Invalid request: id already in flight'

/** Ids of the running requests of one connection. */
export function createRequestIds() {
  const ids = new ShortLivedMap<unknown, true>()
  return {
    get size(): number {
      return ids.size
    },
    /** Adds a request; false if its id is taken. True for other messages. */
    tryAdd({ id, method, params }: Message): boolean {
      // A cancelled request is not answered.
      if (method === 'notifications/cancelled') ids.delete(params?.['requestId'])
      if (id === undefined || method === undefined) return true
      if (ids.has(id)) return false
      ids.set(id, true)
      return true
    },
    removeAnswered(message: object): void {
      if (!('method' in message)) ids.delete((message as Message).id)
    },
  }
}
