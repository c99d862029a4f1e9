import { messageOf } from '../core/errors.ts'
import { getOrInsert } from '../core/get-or-insert.ts'
import type { Log } from '../core/log.ts'
import { type Credentials, createCredentials } from './http-credentials.ts'
import type { ServerSettings } from './upstream-settings.ts'
import type { UpstreamShared } from './upstream-shared.ts'

/**
 * Logged-in principals of a server where each principal logs in.
 * @param changed called when someone has logged in or out; tells whether lists now come from another login
 */
export function createPrincipalLogins(
  id: string,
  settings: ServerSettings,
  shared: UpstreamShared,
  log: Log,
  changed: (isOtherFirst: boolean) => void,
) {
  const { target } = settings
  const url = target.kind === 'stdio' ? '' : target.url
  const mains = new Map<string, Credentials>()
  const refused = new Set<string>()
  let stored: readonly string[] = []
  let activePrincipals: readonly string[] = []
  let first: string | undefined
  let unwatch: (() => void) | undefined
  let closed = false

  // One at a time, or an older result could arrive last.
  let looked: Promise<void> = Promise.resolve()
  function lookAgain(): void {
    looked = looked.then(look).catch((error: unknown) => log.warn('logins not read', { error: messageOf(error) }))
  }

  async function look(): Promise<void> {
    const store = await shared.tokens?.()
    if (!store || closed) return
    unwatch ??= store.watch(undefined, () => {
      // Someone may have logged in again.
      refused.clear()
      lookAgain()
    })
    stored = await store.principals(id, url)
    show()
  }

  function show(): void {
    const now = stored.filter((one) => !refused.has(one))
    if (now.join('\n') === activePrincipals.join('\n')) return
    activePrincipals = now
    const before = first
    // Lists keep coming from the same login while it exists.
    if (first === undefined || !now.includes(first)) first = now[0]
    changed(before !== undefined && first !== undefined && first !== before)
  }
  lookAgain()

  return {
    /** Credentials of the connection for lists: those of the first login. */
    credentials: {
      async open() {
        await looked
        // Without any login the server is still asked and tells what it requires.
        const whose = first ?? 'local'
        const create = () => createCredentials(id, settings, shared, log, () => changed(false), whose)
        return await getOrInsert(mains, whose, create).open()
      },
      close() {
        for (const main of mains.values()) main.close()
      },
    },
    get first(): string | undefined {
      return first
    },
    get known(): readonly string[] {
      return activePrincipals
    },
    has: (principal: string): boolean => activePrincipals.includes(principal),
    refused(principal: string): void {
      if (!activePrincipals.includes(principal)) return
      refused.add(principal)
      show()
    },
    close(): void {
      closed = true
      unwatch?.()
    },
  }
}
