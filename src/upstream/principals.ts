import { messageOf } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { type Credentials, createCredentials } from './credentials.ts'
import { createLink, type Link } from './link.ts'
import type { ServerSettings } from './settings.ts'
import type { UpstreamShared } from './shared.ts'

/** The connections of a server at which every principal logs in for itself. */
export interface Principals {
  /** For the connection lists come from: the login of whoever logged in first. */
  readonly credentials: Credentials
  /** Whose login that is. */
  readonly first: string | undefined
  /** Whether this one is logged in, as far as is known. */
  has(principal: string): boolean
  /** The connection of one principal, which ends by itself when nobody uses it. */
  using<T>(principal: string, main: Link, work: (link: Link) => Promise<T>): Promise<T>
  close(graceMs: number): Promise<void>
}

interface Line {
  readonly link: Link
  readonly credentials: Credentials
  active: number
  cancel: (() => void) | undefined
}

const IDLE_MS = 300_000
const REST_MS = 2_000

/** @param changed someone has logged in, or out */
export function createPrincipals(
  id: string,
  settings: ServerSettings,
  shared: UpstreamShared,
  log: Log,
  changed: () => void,
): Principals {
  const { target } = settings
  const url = target.kind === 'stdio' ? '' : target.url
  const lines = new Map<string, Line>()
  const mains = new Map<string, Credentials>()
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
    unwatch ??= store.watch(undefined, lookAgain)
    const now = await store.principals(id, url)
    if (now.join('\n') === known.join('\n')) return
    known = now
    // Lists stay those of one login, as long as there is that login.
    if (first === undefined || !now.includes(first)) first = now[0]
    changed()
  }
  lookAgain()

  function lineOf(principal: string): Line {
    let line = lines.get(principal)
    if (!line) {
      const credentials: Credentials = createCredentials(id, settings, shared, log, () => link.later(0), principal)
      const link: Link = createLink({
        id,
        settings,
        shared,
        log,
        credentials,
        opened: async () => undefined,
        keeps: () => false,
        changed: () => undefined,
        notification: () => undefined,
      })
      line = { link, credentials, active: 0, cancel: undefined }
      lines.set(principal, line)
    }
    return line
  }

  return {
    credentials: {
      async open() {
        await looked
        // Nobody yet: the server is asked all the same, and says what it wants.
        const whose = first ?? 'local'
        let main = mains.get(whose)
        if (!main) {
          main = createCredentials(id, settings, shared, log, changed, whose)
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
    has: (principal) => known.includes(principal),
    async using(principal, main, work) {
      if (principal === first) return await work(main)
      const line = lineOf(principal)
      line.cancel?.()
      line.active++
      try {
        return await work(line.link)
      } finally {
        if (--line.active === 0) line.cancel = shared.clock.after(IDLE_MS, () => line.link.rest(REST_MS))
      }
    },
    async close(graceMs) {
      closed = true
      unwatch?.()
      await Promise.all(
        [...lines.values()].map(async ({ link, credentials, cancel }) => {
          cancel?.()
          credentials.close()
          await link.stop(graceMs)
        }),
      )
    },
  }
}
