import { randomBytes } from 'node:crypto'
import { type Dirent, lstatSync, readdirSync, readFileSync } from 'node:fs'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Caller } from '../core/caller.ts'
import type { Clock } from '../core/clock.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import { isRecord } from '../core/is-record.ts'
import type { Log } from '../core/log.ts'
import { createLogLimit } from '../core/log-limit.ts'
import { replaceFile } from '../core/replace-file.ts'
import type { SharedState } from '../state/shared-state.ts'
import { digestOf } from './bearer-tokens.ts'

/** A token of `pegboard token`. Only its digest is stored. */
export interface StoredToken extends Pick<Caller, 'principal' | 'roles' | 'grants'> {
  readonly id: string
  readonly name: string
  /** SHA-256, in hexadecimal. */
  readonly digest: string
  readonly profile?: string
  /** Milliseconds since the epoch, as are those below. */
  readonly createdAt: number
  readonly expiresAt?: number
}

/** The tokens of `pegboard token`, for all processes that share the state. */
export interface TokenStore {
  /** The valid tokens, at most one second old; `fresh`: read now. */
  valid(fresh?: boolean): readonly StoredToken[]
  /** All tokens, including expired ones. @throws PegboardError E_STATE_UNAVAILABLE */
  list(): Promise<readonly StoredToken[]>
  /** @throws PegboardError E_STATE_UNAVAILABLE if it cannot be stored */
  add(token: StoredToken): Promise<void>
  /** Whether the token existed. @throws PegboardError E_STATE_UNAVAILABLE */
  remove(id: string): Promise<boolean>
  /** Calls `gone` for each token that is revoked or expires. Returns a function that stops this. */
  onGone(gone: (id: string) => void): () => void
  /** Loads shared tokens. Await it before the first use. */
  open(): Promise<void>
}

const SECRET_BYTES = 32
const POLL_MS = 1_000
/** When it is logged again that the tokens cannot be read. */
const REMIND_MS = 60 * 60_000
const ID = /^[0-9a-f]{12}$/

/** A new token, for its bearer and for the store. A plain digest is safe for 256 random bits. */
export function createToken(fields: Omit<StoredToken, 'id' | 'digest'>): {
  readonly token: string
  readonly stored: StoredToken
} {
  const id = randomBytes(6).toString('hex')
  const token = `pegboard_${id}_${randomBytes(SECRET_BYTES).toString('base64url')}`
  return { token, stored: { id, digest: digestOf(token).toString('hex'), ...fields } }
}

interface TokenBackend extends Pick<TokenStore, 'list' | 'add' | 'remove' | 'open'> {
  /** All tokens, as far as they are known without waiting. */
  readNow(): readonly StoredToken[]
}

function createTokenStore({ readNow, ...backend }: TokenBackend, clock: Clock): TokenStore {
  let readAt = Number.NEGATIVE_INFINITY
  let cachedTokens: readonly StoredToken[] = []
  // A token may be created, used and revoked between two polls.
  const seen = new Set<string>()
  function valid(fresh = false): readonly StoredToken[] {
    const now = clock.now()
    if (fresh || Math.abs(now - readAt) >= POLL_MS) {
      readAt = now
      cachedTokens = readNow()
      for (const { id } of cachedTokens) seen.add(id)
    }
    return cachedTokens.some((token) => isExpired(token, now))
      ? cachedTokens.filter((token) => !isExpired(token, now))
      : cachedTokens
  }
  return {
    ...backend,
    valid,
    onGone(gone) {
      let cancel: () => void
      const poll = (): void => {
        const validIds = new Set(valid(true).map(({ id }) => id))
        for (const id of seen)
          if (!validIds.has(id)) {
            seen.delete(id)
            gone(id)
          }
        cancel = clock.after(POLL_MS, poll)
      }
      cancel = clock.after(POLL_MS, poll)
      return () => cancel()
    },
  }
}

export const isExpired = ({ expiresAt }: Pick<StoredToken, 'expiresAt'>, now: number): boolean =>
  expiresAt !== undefined && expiresAt <= now

/** One file for each token, readable only by its owner. Files are created and removed whole, so no lock is needed. */
export function createFileTokenStore(dir: string, clock: Clock, log: Log): TokenStore {
  const tokensById = new Map<string, StoredToken | undefined>()
  const logLimit = createLogLimit(clock, REMIND_MS)
  /** Called every second. */
  function readEntries(): readonly Dirent[] {
    let entries: readonly Dirent[] = []
    try {
      entries = readdirSync(dir, { withFileTypes: true })
    } catch (error) {
      // The folder exists only if there are tokens.
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') {
        if (logLimit.isDue('unreadable'))
          log.error('tokens cannot be read, so all of them are rejected', { error: messageOf(error) })
        return []
      }
    }
    if (logLimit.end('unreadable')) log.info('tokens can be read again')
    return entries
  }
  function readNow(): readonly StoredToken[] {
    const ids = readEntries()
      .map(({ name }) => (name.endsWith('.json') ? name.slice(0, -5) : ''))
      .filter((id) => ID.test(id))
    for (const id of tokensById.keys()) if (!ids.includes(id)) tokensById.delete(id)
    for (const id of ids) if (!tokensById.has(id)) tokensById.set(id, readToken(fileOf(id), id, log))
    return [...tokensById.values()].filter((token) => token !== undefined)
  }
  const fileOf = (id: string): string => join(dir, `${id}.json`)
  return createTokenStore(
    {
      readNow,
      open: async () => undefined,
      list: async () => readNow(),
      async add(token) {
        try {
          await mkdir(dir, { recursive: true, mode: 0o700 })
          await replaceFile(fileOf(token.id), `${JSON.stringify(token)}\n`)
        } catch (error) {
          throw createStoreError(error)
        }
      },
      async remove(id) {
        if (!ID.test(id)) return false
        try {
          await rm(fileOf(id))
          return true
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false
          throw createStoreError(error)
        }
      },
    },
    clock,
  )
}

/** Undefined for a file that another user could have written, or without a token. */
function readToken(file: string, id: string, log: Log): StoredToken | undefined {
  try {
    const stats = lstatSync(file)
    if (!stats.isFile()) throw new Error('it is not a regular file')
    if (process.getuid !== undefined && (stats.uid !== process.getuid() || (stats.mode & 0o077) !== 0))
      throw new Error('others can read or write it; run chmod 600 if the file is yours')
    const token = JSON.parse(readFileSync(file, 'utf8')) as StoredToken
    if (token?.id !== id || !isToken(token)) throw new Error('it has no token')
    return token
  } catch (error) {
    log.warn('a token is rejected', { file, error: messageOf(error) })
    return undefined
  }
}

const isToken = (value: unknown): boolean =>
  isRecord(value) &&
  typeof value['id'] === 'string' &&
  typeof value['digest'] === 'string' &&
  /^[0-9a-f]{64}$/.test(value['digest']) &&
  typeof value['principal'] === 'string' &&
  Array.isArray(value['roles']) &&
  (value['expiresAt'] === undefined || Number.isFinite(value['expiresAt']))

const TOPIC = 'tokens'
/** Interval of a full read, in milliseconds, because messages of other processes can be lost. */
const RELOAD_MS = 30_000

/** Tokens in the store that several machines share. */
export function createSharedTokenStore(shared: SharedState, clock: Clock, log: Log): TokenStore {
  const table = () => shared.store().table<StoredToken>('token', isToken)
  let cachedTokens: readonly StoredToken[] = []
  let reloadedAt = Number.NEGATIVE_INFINITY
  const list = async (): Promise<readonly StoredToken[]> => (await table().list()).map(({ value }) => value)
  async function reload(): Promise<void> {
    reloadedAt = clock.now()
    cachedTokens = await list()
  }
  const reloadSoon = (): void =>
    void reload().catch((error: unknown) => log.warn('tokens could not be read', { error: messageOf(error) }))
  shared.subscribe(TOPIC, reloadSoon)
  shared.onReconnect(reloadSoon)
  const changed = async (): Promise<void> => {
    await reload()
    shared.publish(TOPIC, '')
  }
  return createTokenStore(
    {
      readNow() {
        if (clock.now() - reloadedAt >= RELOAD_MS) reloadSoon()
        return cachedTokens
      },
      open: reload,
      list,
      async add(token) {
        await table().put({ id: token.id, owner: '', value: token }, 0)
        await changed()
      },
      async remove(id) {
        const existed = await table().delete(id)
        await changed()
        return existed
      },
    },
    clock,
  )
}

const createStoreError = (cause: unknown): PegboardError =>
  new PegboardError('E_STATE_UNAVAILABLE', `The token cannot be stored: ${messageOf(cause)}.`, { cause })
