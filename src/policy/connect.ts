import { connect, isIP, type Socket } from 'node:net'
import { PegboardError } from '../core/errors.ts'
import type { NetRules } from './net.ts'

export interface ConnectOptions {
  /** Private networks and this machine may be reached; default false. Where clouds keep credentials is never reached. */
  readonly allowPrivate?: boolean
  /** The setting that decides that, for whoever reads a refusal. */
  readonly setting: string
  /** Answers of the name service; tests pass their own. */
  readonly lookup?: NetRules['lookup']
}

export interface ConnectInit {
  readonly signal?: AbortSignal
  /** The name look-up included; default 10 s. */
  readonly timeoutMs?: number
}

/** Opens a TCP connection. The socket is the caller's to end. */
export type Connect = (host: string, port: number, init?: ConnectInit) => Promise<Socket>

/**
 * Makes a guarded way to TCP services, for what is no HTTP. It checks literal addresses, every answer of the name service, and
 * the address the socket has in the end. Nothing is loaded before the first connection.
 */
export function createConnect({ allowPrivate = false, setting, lookup }: ConnectOptions): Connect {
  const rules: NetRules = {
    allow: new Set(allowPrivate ? (['public', 'private', 'loopback'] as const) : (['public'] as const)),
    http: true,
    setting,
    ...(lookup ? { lookup } : {}),
  }

  return async (host, port, { signal, timeoutMs = 10_000 } = {}) => {
    const { addressKind, assertReachable, guardedLookup } = await import('./net.ts')
    const written = isIP(host) === 6 ? `[${host}]` : host
    const address = `http://${written}:${port}/`
    if (!URL.canParse(address) || new URL(address).pathname !== '/' || !(port > 0))
      throw new PegboardError('E_VALIDATION', 'That is no host and port.')
    // Literals are written in many ways; the URL parser knows them all.
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
        // One that is destroyed while it connects may still fail.
        socket.on('error', () => undefined)
        socket.destroy()
        reject(error)
      }
      const abort = (): void => fail(signal?.reason)
      const timer = setTimeout(
        () => fail(new PegboardError('E_TIMEOUT', `Nothing answered there within ${timeoutMs} ms.`)),
        timeoutMs,
      )
      signal?.addEventListener('abort', abort, { once: true })
      socket.once('error', (error: NodeJS.ErrnoException) => fail(reason(error)))
      socket.once('connect', () => {
        const kind = addressKind(socket.remoteAddress ?? '')
        if (!rules.allow.has(kind))
          return fail(
            new PegboardError('E_SSRF_BLOCKED', `The address is refused: its name leads to a ${kind} address.`, {
              hint: `${setting} decides.`,
            }),
          )
        settle()
        resolve(socket)
      })
    })
  }
}

function reason(error: NodeJS.ErrnoException): unknown {
  if (error instanceof PegboardError) return error
  if (error.code === 'ENOTFOUND' || error.code === 'EAI_AGAIN')
    return new PegboardError('E_DNS', 'The name in the address is not known.', { cause: error })
  return new PegboardError('E_BACKEND_UNAVAILABLE', 'Nothing can be reached there.', { cause: error })
}
