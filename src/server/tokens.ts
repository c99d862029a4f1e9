import { randomBytes } from 'node:crypto'
import { type Dirent, lstatSync, readdirSync, readFileSync } from 'node:fs'
import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock } from '../core/clock.ts'
import type { Grant } from '../core/context.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { isRecord } from '../core/record.ts'
import type { Shared } from '../state/shared.ts'
import { digestOf } from './auth.ts'

/** A bearer token that an operator had made. The token itself is kept nowhere. */
export interface KeptToken {
  readonly id: string
  /** What the operator calls it. */
  readonly name: string
  /** SHA-256, in hexadecimal. */
  readonly digest: string
  readonly principal: string
  readonly profile?: string
  readonly roles: readonly string[]
  /** Absent: all that its profile may. */
  readonly grants?: readonly Grant[]
  /** Milliseconds since the epoch, as are those below. */
  readonly createdAt: number
  readonly expiresAt?: number
}

/** The bearer tokens that were made with `pegboard token`, for every process that shares the state. */
export interface Tokens {
  /** Those that hold now, as they were within the last second; `fresh`: at this moment. */
  valid(fresh?: boolean): readonly KeptToken[]
  /** Every one, expired ones too. @throws PegboardError E_STATE_UNAVAILABLE */
  list(): Promise<readonly KeptToken[]>
  /** @throws PegboardError E_STATE_UNAVAILABLE when it cannot be kept */
  add(token: KeptToken): Promise<void>
  /** Whether there was one. @throws PegboardError E_STATE_UNAVAILABLE */
  remove(id: string): Promise<boolean>
  /** From now on tells of each one that was revoked or has expired, to one listener. Returns what ends that. */
  follow(gone: (id: string) => void): () => void
  /** To be awaited before the first question, where tokens are kept by others. */
  open(): Promise<void>
}

const SECRET_BYTES = 32
const LOOK_MS = 1_000
const ID = /^[0-9a-f]{12}$/

/** A new token, as its bearer has it and as it is kept. 256 random bits: a plain digest is enough for that. */
export function makeToken(what: Omit<KeptToken, 'id' | 'digest'>): {
  readonly token: string
  readonly kept: KeptToken
} {
  const id = randomBytes(6).toString('hex')
  const token = `pegboard_${id}_${randomBytes(SECRET_BYTES).toString('base64url')}`
  return { token, kept: { id, digest: digestOf(token).toString('hex'), ...what } }
}

/** What differs between one machine and many. */
interface Keeping extends Pick<Tokens, 'list' | 'add' | 'remove' | 'open'> {
  now(): readonly KeptToken[]
}

function createTokens(keeping: Keeping, clock: Clock): Tokens {
  let looked = Number.NEGATIVE_INFINITY
  let known: readonly KeptToken[] = []
  // One may be made, used and revoked between two looks.
  const seen = new Set<string>()
  function valid(fresh = false): readonly KeptToken[] {
    const now = clock.now()
    if (fresh || Math.abs(now - looked) >= LOOK_MS) {
      looked = now
      known = keeping.now()
      for (const { id } of known) seen.add(id)
    }
    return known.some((token) => hasExpired(token, now)) ? known.filter((token) => !hasExpired(token, now)) : known
  }
  return {
    valid,
    list: keeping.list,
    add: keeping.add,
    remove: keeping.remove,
    open: keeping.open,
    follow(gone) {
      let cancel: () => void
      const look = (): void => {
        const now = new Set(valid(true).map(({ id }) => id))
        for (const id of seen)
          if (!now.has(id)) {
            seen.delete(id)
            gone(id)
          }
        cancel = clock.after(LOOK_MS, look)
      }
      cancel = clock.after(LOOK_MS, look)
      return () => cancel()
    },
  }
}

export const hasExpired = ({ expiresAt }: Pick<KeptToken, 'expiresAt'>, now: number): boolean =>
  expiresAt !== undefined && expiresAt <= now

/** A file for each, which only its owner can read: made and removed whole, so that nobody needs a lock. */
export function createFileTokens(dir: string, clock: Clock, log: Log): Tokens {
  const read = new Map<string, KeptToken | undefined>()
  function now(): readonly KeptToken[] {
    let entries: readonly Dirent[] = []
    try {
      entries = readdirSync(dir, { withFileTypes: true })
    } catch (error) {
      // Most have none.
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT')
        log.error('tokens cannot be read, so none of them lets anybody in', { error: messageOf(error) })
    }
    const ids = entries.map(({ name }) => (name.endsWith('.json') ? name.slice(0, -5) : '')).filter((id) => ID.test(id))
    for (const id of read.keys()) if (!ids.includes(id)) read.delete(id)
    for (const id of ids) if (!read.has(id)) read.set(id, readToken(fileOf(id), id, log))
    return [...read.values()].filter((token) => token !== undefined)
  }
  const fileOf = (id: string): string => join(dir, `${id}.json`)
  return createTokens(
    {
      now,
      open: async () => undefined,
      list: async () => now(),
      async add(token) {
        const temporary = join(dir, `${token.id}.tmp`)
        try {
          await mkdir(dir, { recursive: true, mode: 0o700 })
          await writeFile(temporary, `${JSON.stringify(token)}\n`, { flag: 'wx', mode: 0o600 })
          await rename(temporary, fileOf(token.id))
        } catch (error) {
          await rm(temporary, { force: true }).catch(() => undefined)
          throw unkept(error)
        }
      },
      async remove(id) {
        if (!ID.test(id)) return false
        try {
          await rm(fileOf(id))
          return true
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false
          throw unkept(error)
        }
      },
    },
    clock,
  )
}

/** Undefined for a file that somebody else could have written, and for one that holds no token. */
function readToken(file: string, id: string, log: Log): KeptToken | undefined {
  try {
    const stats = lstatSync(file)
    if (!stats.isFile()) throw new Error('it is not a regular file')
    if (process.getuid !== undefined && (stats.uid !== process.getuid() || (stats.mode & 0o077) !== 0))
      throw new Error('others may read or write it; chmod 600 if it is yours')
    const token = JSON.parse(readFileSync(file, 'utf8')) as KeptToken
    if (token?.id !== id || !isToken(token)) throw new Error('it holds no token')
    return token
  } catch (error) {
    log.warn('a token is not accepted', { file, error: messageOf(error) })
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
/** What others say may be missed. */
const ASK_AGAIN_MS = 30_000

/** In the store that several machines share. */
export function createSharedTokens(shared: Shared, clock: Clock, log: Log): Tokens {
  const table = () => shared.store().table<KeptToken>('token', isToken)
  let known: readonly KeptToken[] = []
  let asked = Number.NEGATIVE_INFINITY
  const list = async (): Promise<readonly KeptToken[]> => (await table().list()).map(({ value }) => value)
  async function ask(): Promise<void> {
    asked = clock.now()
    known = await list()
  }
  const askSoon = (): void =>
    void ask().catch((error: unknown) => log.warn('tokens could not be asked for', { error: messageOf(error) }))
  shared.hear(TOPIC, askSoon)
  shared.onBack(askSoon)
  const changed = async (): Promise<void> => {
    await ask()
    shared.tell(TOPIC, '')
  }
  return createTokens(
    {
      now() {
        if (clock.now() - asked >= ASK_AGAIN_MS) askSoon()
        return known
      },
      open: ask,
      list,
      async add(token) {
        await table().put({ id: token.id, owner: '', value: token }, 0)
        await changed()
      },
      async remove(id) {
        const was = await table().delete(id)
        await changed()
        return was
      },
    },
    clock,
  )
}

const unkept = (cause: unknown): PegboardError =>
  new PegboardError('E_STATE_UNAVAILABLE', `The token cannot be kept: ${messageOf(cause)}.`, { cause })
