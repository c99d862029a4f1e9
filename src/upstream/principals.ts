import { messageOf } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { type Credentials, createCredentials } from './credentials.ts'
import type { ServerSettings } from './settings.ts'
import type { UpstreamShared } from './shared.ts'

/** Who is logged in at a server where every principal logs in for itself. */
export interface Principals {
  /** For the connection lists come from: the login of whoever logged in first. */
  readonly credentials: Credentials
  /** Whose login that is. */
  readonly first: string | undefined
  readonly known: readonly string[]
  /** Whether this one is logged in, as far as is known. */
  has(principal: string): boolean
  /** The server does not take this login any more. */
  refused(principal: string): void
  close(): void
}

/** @param changed someone has logged in, or out; and whether lists are those of another login now */
export function createPrincipals(
  id: string,
  settings: ServerSettings,
  shared: UpstreamShared,
  log: Log,
  changed: (isOtherFirst: boolean) => void,
): Principals {
  const { target } = settings
  const url = target.kind === 'stdio' ? '' : target.url
  const mains = new Map<string, Credentials>()
  const refused = new Set<string>()
  let stored: readonly string[] = []
  let known: readonly string[] = []
  let first: string | undefined
  let unwatch: (() => void) | undefined
  let closed = false

  // One after the other, or an older look could come last.
  let looked: Promise<void> = Promise.resolve()
  function lookAgain(): void {
    looked = looked.then(look).catch((error: unknown) => log.warn('logins not read', { error: messageOf(error) }))
  }

  async function look(): Promise<void> {
    const store = await shared.tokens?.()
    if (!store || closed) return
    unwatch ??= store.watch(undefined, () => {
      // Somebody may have logged in again.
      refused.clear()
      lookAgain()
    })
    stored = await store.principals(id, url)
    show()
  }

  function show(): void {
    const now = stored.filter((one) => !refused.has(one))
    if (now.join('\n') === known.join('\n')) return
    known = now
    const before = first
    // Lists stay those of one login, as long as there is that login.
    if (first === undefined || !now.includes(first)) first = now[0]
    changed(before !== undefined && first !== undefined && first !== before)
  }
  lookAgain()

  return {
    credentials: {
      async open() {
        await looked
        // Nobody yet: the server is asked all the same, and says what it wants.
        const whose = first ?? 'local'
        let main = mains.get(whose)
        if (!main) {
          main = createCredentials(id, settings, shared, log, () => changed(false), whose)
          mains.set(whose, main)
        }
        return await main.open()
      },
      close() {
        for (const main of mains.values()) main.close()
      },
    },
    get first() {
      return first
    },
    get known() {
      return known
    },
    has: (principal) => known.includes(principal),
    refused(principal) {
      if (!known.includes(principal)) return
      refused.add(principal)
      show()
    },
    close() {
      closed = true
      unwatch?.()
    },
  }
}
