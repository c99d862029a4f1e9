import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/**
 * Limits the connections that wait for a request: the first or the next one. If there are more than `max`, closes the oldest
 * one of the address that has the most, so that a client cannot keep others from connecting.
 */
export function limitWaiting(server: Server, max: number): void {
  // By address; each set has its oldest connection first.
  const waiting = new Map<string, Set<Socket>>()
  let count = 0

  function add(socket: Socket): void {
    const address = socket.remoteAddress
    if (address === undefined || socket.destroyed) return
    const sockets = waiting.get(address) ?? new Set<Socket>()
    // With pipelining, two responses can close before the next request.
    if (sockets.has(socket)) return
    waiting.set(address, sockets.add(socket))
    if (++count > max) closeOne()
  }

  function remove(socket: Socket, address: string | undefined): void {
    const sockets = waiting.get(address ?? '')
    if (!sockets?.delete(socket)) return
    count--
    if (sockets.size === 0) waiting.delete(address ?? '')
  }

  function closeOne(): void {
    let most: readonly [string, Set<Socket>] | undefined
    for (const one of waiting) if (!most || one[1].size > most[1].size) most = one
    const [oldest] = most?.[1] ?? []
    if (!most || !oldest) return
    remove(oldest, most[0])
    oldest.destroy()
  }

  server.on('connection', (socket) => {
    // A closed socket has no address.
    const address = socket.remoteAddress
    add(socket)
    socket.once('close', () => remove(socket, address))
  })
  const begins = ({ socket }: IncomingMessage, res: ServerResponse): void => {
    remove(socket, socket.remoteAddress)
    res.once('close', () => add(socket))
  }
  server.on('request', begins)
  server.on('checkContinue', begins)
}
