import type { LookupAddress } from 'node:dns'
import { waitAtMost } from '../core/wait-at-most.ts'

/** Maximum time per name, including waiting for a thread. */
const LOOKUP_MS = 5_000
/** `getaddrinfo` blocks one of the four threads of libuv until it returns, and file operations need them too. */
const MAX_THREADS = 2
/** Maximum wait for a free thread. */
const WAIT_MS = 500

let busy = 0
const waiting = new Set<() => void>()
const pending = new Map<string, Promise<readonly LookupAddress[]>>()

/**
 * Resolves a name with the system's resolver. While slow names occupy the threads, other names are resolved over the
 * network instead. Rejects with EAI_AGAIN after five seconds.
 */
export function lookUpName(host: string): Promise<readonly LookupAddress[]> {
  const pendingLookup = pending.get(host)
  if (pendingLookup) return pendingLookup
  const found = waitAtMost(LOOKUP_MS, resolveName(host), throwNoAnswer).finally(() => pending.delete(host))
  pending.set(host, found)
  return found
}

async function resolveName(host: string): Promise<readonly LookupAddress[]> {
  if (!(await acquireThread())) return await resolveOverNetwork(host)
  try {
    const { lookup } = await import('node:dns/promises')
    return await lookup(host, { all: true })
  } finally {
    busy--
    const [next] = waiting
    next?.()
  }
}

/** Takes a thread; false if none becomes free in time. */
function acquireThread(): Promise<boolean> {
  if (busy < MAX_THREADS) {
    busy++
    return Promise.resolve(true)
  }
  return new Promise((resolve) => {
    const settle = (taken: boolean): void => {
      waiting.delete(take)
      clearTimeout(timer)
      resolve(taken)
    }
    const take = (): void => {
      busy++
      settle(true)
    }
    const timer = setTimeout(() => settle(false), WAIT_MS)
    waiting.add(take)
  })
}

/** Needs no thread, but ignores names that only the system knows, such as those in the hosts file. */
async function resolveOverNetwork(host: string): Promise<readonly LookupAddress[]> {
  const { Resolver } = await import('node:dns/promises')
  const resolver = new Resolver({ timeout: 1_000, tries: 2 })
  const [four, six] = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)])
  const found = [
    ...(four.status === 'fulfilled' ? four.value.map((address) => ({ address, family: 4 })) : []),
    ...(six.status === 'fulfilled' ? six.value.map((address) => ({ address, family: 6 })) : []),
  ]
  if (found.length > 0) return found
  throw four.status === 'rejected' && four.reason.code !== 'ENODATA'
    ? four.reason
    : Object.assign(new Error('the name has no address'), { code: 'ENOTFOUND' })
}

const throwNoAnswer = (): never => {
  throw Object.assign(new Error('the DNS server did not answer'), { code: 'EAI_AGAIN' })
}
