import type { Log } from '../core/log.ts'
import type { Bearer } from './oauth/bearer.ts'
import type { ServerSettings } from './settings.ts'
import type { UpstreamShared } from './shared.ts'

/** How one remote server is shown who we are. Nothing of it is loaded before its first connection. */
export interface Credentials {
  /** Undefined where only the headers of the entry count. */
  open(): Promise<Bearer | undefined>
  close(): void
}

/**
 * @param principal whose tokens; absent: those of the server entry
 * @param loggedIn a login that was waited for has been made
 */
export function createCredentials(
  id: string,
  settings: ServerSettings,
  shared: Pick<UpstreamShared, 'clock' | 'tokens'>,
  log: Log,
  loggedIn: () => void,
  principal?: string,
): Credentials {
  const { target } = settings
  const { tokens } = shared
  let bearer: Promise<Bearer> | undefined
  let closed = false

  async function make(): Promise<Bearer> {
    const [{ createBearer }, store] = await Promise.all([
      import('./oauth/bearer.ts'),
      (tokens as NonNullable<typeof tokens>)(),
    ])
    const made = createBearer({
      id,
      settings,
      target: target as Exclude<typeof target, { kind: 'stdio' }>,
      principal,
      store,
      clock: shared.clock,
      log,
      loggedIn,
    })
    if (closed) made.close()
    return made
  }

  return {
    async open() {
      if (tokens === undefined || target.kind === 'stdio' || settings.auth?.type === 'none') return undefined
      // Whoever writes the header knows better, unless they say otherwise.
      const header = Object.keys(target.headers).some((name) => name.toLowerCase() === 'authorization')
      if (header && settings.auth === undefined) return undefined
      bearer ??= make()
      return await bearer
    },
    close() {
      closed = true
      bearer?.then((made) => made.close()).catch(() => undefined)
    },
  }
}
