import { messageOf } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { type Credentials, createCredentials } from './credentials.ts'
import { createLink, type Link } from './link.ts'
import { emptyListing, readListing } from './listing.ts'
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
  /** Whether the list this principal gets has a tool with this definition. */
  lists(principal: string, text: string): boolean
  /** Reads the lists of all who are logged in, now and from now on: they are private to each. */
  readOwn(): void
  /** The connection of one principal, which ends by itself when nobody uses it. */
  using<T>(principal: string, main: Link, work: (link: Link) => Promise<T>): Promise<T>
  close(graceMs: number): Promise<void>
}

interface Line {
  readonly link: Link
  readonly credentials: Credentials
  active: number
  /** Definitions of its own list. */
  texts: ReadonlySet<string>
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
  let reads = false

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
    readAll()
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
        async opened(connection) {
          if (!reads) return
          const warn = (message: string): void => log.debug(message)
          const { tools } = await readListing(connection, new Set(['tools']), emptyListing, warn)
          own.texts = new Set(tools.map((record) => record.text))
          changed()
        },
        keeps: () => false,
        changed: () => undefined,
        notification: () => undefined,
      })
      const own: Line = { link, credentials, active: 0, texts: new Set(), cancel: undefined }
      line = own
      lines.set(principal, line)
    }
    return line
  }

  function readAll(): void {
    if (!reads) return
    for (const principal of known) {
      if (principal === first || lines.has(principal)) continue
      using(principal, ({ ready }) => ready()).catch((error: unknown) =>
        log.debug('own lists not read', { error: messageOf(error) }),
      )
    }
  }

  async function using<T>(principal: string, work: (link: Link) => Promise<T>): Promise<T> {
    const line = lineOf(principal)
    line.cancel?.()
    line.active++
    try {
      return await work(line.link)
    } finally {
      if (--line.active === 0) line.cancel = shared.clock.after(IDLE_MS, () => line.link.rest(REST_MS))
    }
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
    lists: (principal, text) => lines.get(principal)?.texts.has(text) === true,
    readOwn() {
      reads = true
      readAll()
    },
    using: (principal, main, work) => (principal === first ? work(main) : using(principal, work)),
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
