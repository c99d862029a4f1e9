import { connect, isIP, type Socket } from 'node:net'
import { PegboardError } from '../core/errors.ts'
import type { FetchOptions } from './guarded-fetch.ts'
import type { NetRules } from './network-rules.ts'
import { OWN_NETWORK } from './own-network.ts'

export type ConnectOptions = Pick<FetchOptions, 'allowPrivate' | 'setting' | 'lookup'>

export interface ConnectInit {
  readonly signal?: AbortSignal
  /** Includes the DNS lookup; default 10 s. */
  readonly timeoutMs?: number
}

/** Opens a TCP connection. The caller must close the socket. */
export type Connect = (host: string, port: number, init?: ConnectInit) => Promise<Socket>

/**
 * Creates a guarded way to open TCP connections for protocols other than HTTP. It checks literal addresses, every DNS
 * answer, and the address of the connected socket. Its dependencies are loaded at the first connection.
 */
export function createConnect({ allowPrivate = false, setting, lookup }: ConnectOptions): Connect {
  const rules: NetRules = {
    allow: new Set(['public', ...(allowPrivate ? OWN_NETWORK : [])]),
    http: true,
    setting,
    ...(lookup ? { lookup } : {}),
  }

  return async (host, port, { signal, timeoutMs = 10_000 } = {}) => {
    const { addressKind, assertReachable, createAddressError, guardedLookup } = await import('./network-rules.ts')
    const urlHost = isIP(host) === 6 ? `[${host}]` : host
    const address = `http://${urlHost}:${port}/`
    if (!URL.canParse(address) || new URL(address).pathname !== '/' || !(port > 0))
      throw new PegboardError('E_VALIDATION', 'This is not a host and port.')
    // IP literals have many notations; the URL parser normalizes them all.
    const { hostname } = new URL(address)
    assertReachable(new URL(address), rules)
    signal?.throwIfAborted()
    return await new Promise<Socket>((resolve, reject) => {
      const socket = connect({ host: hostname.replace(/^\[|\]$/g, ''), port, lookup: guardedLookup(rules) })
      const settle = (): void => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', abort)
        socket.removeAllListeners()
      }
      const fail = (error: unknown): void => {
        settle()
        // A socket destroyed while connecting may still emit an error.
        socket.on('error', () => undefined)
        socket.destroy()
        reject(error)
      }
      const abort = (): void => fail(signal?.reason)
      const timer = setTimeout(
        () => fail(new PegboardError('E_TIMEOUT', `The address did not answer within ${timeoutMs} ms.`)),
        timeoutMs,
      )
      signal?.addEventListener('abort', abort, { once: true })
      socket.once('error', (error: NodeJS.ErrnoException) => fail(toConnectError(error)))
      socket.once('connect', () => {
        const kind = addressKind(socket.remoteAddress ?? '')
        if (!rules.allow.has(kind)) return fail(createAddressError(`its name leads to a ${kind} address`, rules, kind))
        settle()
        resolve(socket)
      })
    })
  }
}

function toConnectError(error: NodeJS.ErrnoException): unknown {
  if (error instanceof PegboardError) return error
  if (error.code === 'ENOTFOUND' || error.code === 'EAI_AGAIN')
    return new PegboardError('E_DNS', 'The host name in the address is unknown.', { cause: error })
  return new PegboardError('E_BACKEND_UNAVAILABLE', 'The address cannot be reached.', { cause: error })
}
