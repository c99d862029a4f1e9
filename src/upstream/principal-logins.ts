import type { OwnerInfo } from '../catalog/owner.ts'
import { messageOf } from '../core/errors.ts'
import { getOrInsert } from '../core/get-or-insert.ts'
import { type Credentials, createCredentials } from './http-credentials.ts'
import { loginCommand } from './oauth/token-refresh.ts'
import type { ServerContext } from './upstream-shared.ts'

/** In the place of a principal while nobody is logged in: people read it in the command for the login. */
const ANYONE = 'NAME'

/**
 * Logged-in principals of a server where each principal logs in.
 * @param changed called when someone has logged in or out; tells whether lists now come from another login
 */
export function createPrincipalLogins(server: ServerContext, changed: (isOtherFirst: boolean) => void) {
  const { id, shared, log } = server
  const { target } = server.settings()
  const url = target.kind === 'stdio' ? '' : target.url
  const credentialsByPrincipal = new Map<string, Credentials>()
  const refused = new Set<string>()
  let stored: readonly string[] = []
  let activePrincipals: readonly string[] = []
  let first: string | undefined
  let unwatch: (() => void) | undefined
  let closed = false

  // One at a time, or an older result could arrive last.
  let lastRead: Promise<void> = Promise.resolve()
  function readAgain(): void {
    lastRead = lastRead
      .then(readLogins)
      .catch((error: unknown) => log.warn('logins not read', { error: messageOf(error) }))
  }

  async function readLogins(): Promise<void> {
    const store = await shared.tokens?.()
    if (!store || closed) return
    unwatch ??= store.watch(undefined, () => {
      // Someone may have logged in again.
      refused.clear()
      readAgain()
    })
    stored = await store.principals(id, url)
    update()
  }

  function update(): void {
    const accepted = stored.filter((one) => !refused.has(one))
    if (accepted.join('\n') === activePrincipals.join('\n')) return
    activePrincipals = accepted
    const before = first
    // Lists keep coming from the same login while it exists.
    if (first === undefined || !accepted.includes(first)) first = accepted[0]
    changed(before !== undefined && first !== undefined && first !== before)
  }
  readAgain()

  return {
    /** Credentials of the connection for lists: those of the first login. */
    credentials: {
      async open() {
        await lastRead
        // Without any login the server is still asked and tells what it requires.
        const principal = first ?? ANYONE
        const create = () => createCredentials(server, () => changed(false), principal)
        return await getOrInsert(credentialsByPrincipal, principal, create).open()
      },
      close() {
        for (const main of credentialsByPrincipal.values()) main.close()
      },
    },
    get first(): string | undefined {
      return first
    },
    get known(): readonly string[] {
      return activePrincipals
    },
    /** For a reason that names nobody's login: the reason with the login of the caller. */
    reasonFor(reason: string): OwnerInfo['reasonFor'] {
      const anyLogin = loginCommand(id, ANYONE)
      return first === undefined && reason.includes(anyLogin)
        ? ({ principal }) => reason.replace(anyLogin, () => loginCommand(id, principal))
        : undefined
    },
    has: (principal: string): boolean => activePrincipals.includes(principal),
    refused(principal: string): void {
      if (!activePrincipals.includes(principal)) return
      refused.add(principal)
      update()
    },
    close(): void {
      closed = true
      unwatch?.()
    },
  }
}
