import type { Message } from '../core/jsonrpc.ts'

/** What a request is told whose id another one has that is not answered yet: its answer could be taken for the other's. */
export const IN_FLIGHT = 'Invalid request: id already in flight'

/** The ids of the requests of one connection that are not answered yet. */
export interface InFlight {
  /** Counts a request that arrives; answers false where its id is taken. Anything but a request is let through. */
  enters(message: Message): boolean
  /** Looks at what is sent: an answer ends its request. */
  sent(message: object): void
  readonly size: number
}

export function createInFlight(): InFlight {
  const ids = new Set<unknown>()
  return {
    get size() {
      return ids.size
    },
    enters({ id, method, params }) {
      // A cancelled request is not answered.
      if (method === 'notifications/cancelled') ids.delete(params?.['requestId'])
      if (id === undefined || method === undefined) return true
      if (ids.has(id)) return false
      ids.add(id)
      return true
    },
    sent(message) {
      if (!('method' in message)) ids.delete((message as Message).id)
    },
  }
}
