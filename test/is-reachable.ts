import { connect } from 'node:net'

/** True if a server accepts connections at this address. */
export const isReachable = ({ hostname, port }: URL, defaultPort: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect({ host: hostname, port: Number(port || defaultPort), timeout: 1_000 })
    const end = (reachable: boolean): void => {
      socket.destroy()
      resolve(reachable)
    }
    socket.once('connect', () => end(true))
    socket.once('error', () => end(false))
    socket.once('timeout', () => end(false))
  })
