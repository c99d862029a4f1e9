import type { Bearer } from './oauth/bearer-header.ts'
import type { ServerContext } from './upstream-shared.ts'

/** Credentials for one remote server. Loads nothing before the first connection. */
export interface Credentials {
  /** Undefined if only the entry's headers are used. */
  open(): Promise<Bearer | undefined>
  close(): void
}

/**
 * @param principal whose tokens to use; absent: those of the server entry
 * @param loggedIn called when a login that was waited for is complete
 */
export function createCredentials(server: ServerContext, loggedIn: () => void, principal?: string): Credentials {
  const { id, shared, log } = server
  const { tokens, clock } = shared
  const settings = server.settings()
  const { target } = settings
  let bearer: Promise<Bearer> | undefined
  let closed = false

  return {
    async open() {
      if (tokens === undefined || target.kind === 'stdio' || settings.auth?.type === 'none') return undefined
      // A configured Authorization header takes precedence, unless the operator says otherwise.
      const header = Object.keys(target.headers).some((name) => name.toLowerCase() === 'authorization')
      if (header && settings.auth === undefined) return undefined
      bearer ??= Promise.all([import('./oauth/bearer-header.ts'), tokens()]).then(([{ createBearer }, store]) => {
        const loaded = createBearer({ id, settings, target, principal, store, clock, log, loggedIn })
        if (closed) loaded.close()
        return loaded
      })
      return await bearer
    },
    close() {
      closed = true
      bearer?.then((loaded) => loaded.close()).catch(() => undefined)
    },
  }
}
