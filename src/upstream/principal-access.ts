import type { Clock } from '../core/clock.ts'
import { isPegboardError, messageOf } from '../core/errors.ts'
import { getOrInsert } from '../core/get-or-insert.ts'
import type { ListKind } from '../core/list-kinds.ts'
import type { Log } from '../core/log.ts'
import { loginCommand } from './oauth/token-refresh.ts'
import { createPrincipalLogins } from './principal-logins.ts'
import type { FreshListing } from './read-listing.ts'
import type { ServerContext } from './upstream-shared.ts'

export interface PrincipalAccessOptions {
  isConnected(): boolean
  /** Someone has logged in or out. @param isOtherFirst true if lists now come from another login */
  loginsChanged(isOtherFirst: boolean): void
  /** The login that lists come from lists other tools. */
  firstListChanged(): void
  /** Reads the tools that a principal's login lists. `undefined` if a connection was opened for it, which reads them. */
  read(principal: string): Promise<FreshListing | undefined>
}

/**
 * Which principals may use a server where each principal logs in, and which of its tools: those that the principal's own
 * login lists.
 */
export function createPrincipalAccess(server: ServerContext, options: PrincipalAccessOptions) {
  const { id, shared, log } = server
  // A list is valid only for the login it came from, unless the server says otherwise.
  let listIsPrivate = true
  const logins = createPrincipalLogins(server, (isOtherFirst) => {
    if (listIsPrivate && options.isConnected()) lists.keep(logins.known)
    options.loginsChanged(isOtherFirst)
  })
  const lists = createPrivateLists({
    clock: shared.clock,
    log,
    async read(principal) {
      const read = await options.read(principal)
      return read && createPrivateList(read)
    },
    changed(principal) {
      if (principal === logins.first) options.firstListChanged()
      shared.catalog.touch()
    },
    refused: logins.refused,
  })

  return {
    credentials: logins.credentials,
    reasonFor: logins.reasonFor,
    refused: logins.refused,
    /** The principal whose login lists come from. */
    get first(): string | undefined {
      return logins.first
    },
    /** True if a list is valid only for the login it came from. */
    get listIsPrivate(): boolean {
      return listIsPrivate
    },
    /**
     * Why this principal cannot use the server, or a tool of it; undefined if it can.
     * @param text definition of the tool, which the principal's own list must contain exactly
     */
    refusal(principal: string, text: string | undefined): string | undefined {
      if (!logins.has(principal)) return loginCommand(id, principal)
      if (!listIsPrivate) return undefined
      const isListed = text === undefined ? principal === logins.first : lists.has(principal, text)
      return isListed ? undefined : `what ${id} lists is private to another login`
    },
    /** Stores the tools that a principal's own connection lists. */
    keepListOf(principal: string, read: FreshListing): void {
      if (listIsPrivate) lists.set(principal, createPrivateList(read))
    },
    /** The lists of the first login, without what other logins must not see. */
    filterLists(read: FreshListing, kinds: ReadonlySet<ListKind>): FreshListing {
      if (kinds.has('tools')) {
        listIsPrivate = read.pages?.some(({ cacheScope }) => cacheScope !== 'public') === true
        const { first, known } = logins
        if (first !== undefined && listIsPrivate) lists.set(first, createPrivateList(read), true)
        lists.keep(listIsPrivate ? known : [])
      }
      // Resources of one login are shown to this login only. A resource named in a result is read with the caller's own
      // login.
      return { ...read, resources: [], templates: [], prompts: [] }
    },
    close(): void {
      lists.stop()
      logins.close()
    },
  }
}

export type PrincipalAccess = ReturnType<typeof createPrincipalAccess>

/** One principal's own `tools/list`. */
interface PrivateList {
  readonly texts: ReadonlySet<string>
  /** How long the server allows it to be used, in milliseconds; absent or negative: stale at once. */
  readonly ttlMs: number | undefined
}

interface PrivateListsOptions {
  readonly clock: Clock
  readonly log: Log
  /** `undefined` if a connection was opened for it; its list is then stored with `set`. */
  read(principal: string): Promise<PrivateList | undefined>
  changed(principal: string): void
  refused(principal: string): void
}

/** The shortest lifetime of a list's pages applies. */
function createPrivateList({ tools, pages = [] }: FreshListing): PrivateList {
  const ttls = pages.flatMap(({ ttlMs }) => (typeof ttlMs === 'number' ? [ttlMs] : []))
  return { texts: new Set(tools.map(({ text }) => text)), ttlMs: ttls.length > 0 ? Math.min(...ttls) : undefined }
}

/** Pegboard's own lists are cached by clients for this long, so reading more often has no effect. */
const MIN_MS = 5_000
const MAX_MS = 5 * 60_000

/**
 * The tools that each principal's login lists. A list is read again when it expires, so that a revoked login loses
 * its tools.
 */
function createPrivateLists(options: PrivateListsOptions) {
  const { clock, log } = options
  const lists = new Map<string, { texts: ReadonlySet<string>; cancel: () => void }>()

  const entry = (principal: string) =>
    getOrInsert(lists, principal, () => ({ texts: new Set<string>(), cancel: () => undefined }))

  function read(principal: string): void {
    const stored = lists.get(principal)
    if (!stored) return
    options.read(principal).then(
      (list) => list && lists.get(principal) === stored && set(principal, list),
      (error: unknown) => {
        if (lists.get(principal) !== stored) return
        log.debug('cannot read the list of a principal', { error: messageOf(error) })
        if (isPegboardError(error) && error.code === 'E_AUTH_REQUIRED') {
          stored.texts = new Set()
          options.refused(principal)
          return
        }
        // A server that cannot be reached has not revoked anything.
        stored.cancel = clock.after(MIN_MS, () => read(principal))
      },
    )
  }

  function set(principal: string, { texts, ttlMs = 0 }: PrivateList, listenersKnow = false): void {
    const stored = entry(principal)
    stored.cancel()
    const isSame = texts.size === stored.texts.size && [...texts].every((text) => stored.texts.has(text))
    stored.texts = texts
    stored.cancel = clock.after(Math.min(Math.max(ttlMs, MIN_MS), MAX_MS), () => read(principal))
    if (!isSame && !listenersKnow) options.changed(principal)
  }

  return {
    /** True if this principal's list contains a tool with this definition. */
    has: (principal: string, text: string): boolean => lists.get(principal)?.texts.has(text) === true,
    /** Stores a list that was just read. @param listenersKnow true: does not call `changed` */
    set,
    /** Keeps the lists of these principals only. */
    keep(principals: readonly string[]): void {
      for (const [principal, { cancel }] of lists) {
        if (principals.includes(principal)) continue
        cancel()
        lists.delete(principal)
      }
      for (const principal of principals) {
        if (lists.has(principal)) continue
        entry(principal)
        read(principal)
      }
    },
    stop(): void {
      for (const { cancel } of lists.values()) cancel()
      lists.clear()
    },
  }
}
