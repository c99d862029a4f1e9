import { createHash, randomUUID } from 'node:crypto'
import { constants, watch as watchFolder } from 'node:fs'
import { mkdir, open, readdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { OAuthDiscoveryState, StoredOAuthClientInformation, StoredOAuthTokens } from '@modelcontextprotocol/client'
import { messageOf, PegboardError } from '../../core/errors.ts'
import { writtenByOthers } from '../../core/written-by-others.ts'
import { exclusively } from '../../state/exclusive.ts'
import { deletePieces, getPieces, type Keyring, setPieces } from './keyring.ts'

/** Whose tokens: one server entry, and one principal where every principal logs in for itself. */
export interface GrantKey {
  readonly server: string
  readonly url: string
  readonly principal?: string | undefined
}

/** What must not lie about in the clear. */
export interface Secrets {
  readonly tokens?: StoredOAuthTokens
  /** Clients registered with authorization servers, by issuer. */
  readonly clients?: Readonly<Record<string, StoredOAuthClientInformation>>
}

/** Everything known of one login. */
export interface Grant extends Secrets {
  /** Milliseconds since the epoch; absent when the server does not say how long its tokens live. */
  readonly expiresAt?: number | undefined
  readonly obtainedAt?: number
  /** The authorization server, as it described itself at the last login. */
  readonly discovery?: OAuthDiscoveryState | undefined
  /** What the server asked for when it last refused us. */
  readonly wanted?: Wanted | undefined
  /** The scopes of the last login, as they were asked for. */
  readonly asked?: string
  /** A login with the client registered earlier was begun, and nobody knows how it ended. */
  readonly begun?: boolean
}

export interface Wanted {
  readonly scope?: string | undefined
  readonly resourceMetadataUrl?: string | undefined
}

/** Grants by server and principal. Every write is whole or not at all, and is seen by other processes. */
export interface TokenStore {
  read(key: GrantKey): Promise<Grant | undefined>
  /** What can be read without the keyring, for whoever makes a new login in place of one whose secrets cannot be had. */
  readOpen(key: GrantKey): Promise<Grant | undefined>
  write(key: GrantKey, grant: Grant): Promise<void>
  delete(key: GrantKey): Promise<void>
  /** Runs work while no other process does for this key: a refresh token that rotates must not be used twice. */
  exclusively<T>(key: GrantKey, work: () => Promise<T>): Promise<T>
  /** Told when the grant may have changed; without a principal of a server where each has its own, any of them. */
  watch(key: GrantKey | undefined, changed: () => void): () => void
  /** Who is logged in for themselves, the first login first. Reads no secrets. */
  principals(server: string, url: string): Promise<readonly string[]>
  /** Where secrets go, in words. */
  readonly place: string
}

interface Document extends Grant {
  readonly format: 1
  readonly server: string
  readonly principal?: string
  /** When tokens first came, in milliseconds since the epoch. */
  readonly since?: number
  /** The secrets are in the keyring, under this name and in so many pieces. */
  readonly keyring?: { readonly name: string; readonly pieces: number }
}

/**
 * Grants as files of mode 0600 in `dir`; with a keyring the secrets go there, and into the file only where the keyring
 * refuses them.
 * @param warn told when a keyring cannot be used
 */
export function createTokenStore(
  dir: string,
  keyring: Keyring | undefined,
  warn: (message: string) => void = () => undefined,
): TokenStore {
  let warned = false
  const nameOf = ({ server, url, principal }: GrantKey): string =>
    createHash('sha256')
      .update(JSON.stringify([server, url, principal ?? null]))
      .digest('hex')
      .slice(0, 32)
  const fileOf = (key: GrantKey): string => join(dir, `${nameOf(key)}.json`)

  const load = (key: GrantKey): Promise<Document | undefined> => parse(fileOf(key))

  async function parse(file: string): Promise<Document | undefined> {
    try {
      const document = JSON.parse(await readPrivate(file)) as Document
      return document?.format === 1 ? document : undefined
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT' || error instanceof SyntaxError) return undefined
      throw error
    }
  }

  async function keep(name: string, secrets: Secrets): Promise<Document['keyring']> {
    if (!keyring || (!secrets.tokens && !secrets.clients)) return undefined
    try {
      return { name, pieces: await setPieces(keyring, name, JSON.stringify(secrets)) }
    } catch (error) {
      if (!warned)
        warn(
          `the keyring cannot be used, so tokens are kept in files, as with PEGBOARD_KEYRING=off: ${messageOf(error)}`,
        )
      warned = true
      return undefined
    }
  }

  return {
    get place() {
      return keyring && !warned ? 'the keyring of this system' : 'a file only you can read'
    },
    async read(key) {
      const document = await load(key)
      if (!document) return undefined
      const kept = document.keyring
      const grant = grantIn(document)
      if (!kept) return grant
      if (!keyring) throw unreadable('they are in the keyring of this system, which is not available')
      let text: string | undefined
      try {
        text = await getPieces(keyring, kept.name, kept.pieces)
      } catch (error) {
        throw unreadable(messageOf(error))
      }
      return text === undefined ? grant : sound({ ...grant, ...secretsIn(text) })
    },
    async readOpen(key) {
      const document = await load(key)
      return document && grantIn(document)
    },
    async write(key, grant) {
      const before = await load(key)
      const { tokens, clients, ...open } = grant
      // A new name each time, so that the file alone decides which secrets are the ones.
      const kept = await keep(`${nameOf(key)}.${randomUUID().slice(0, 8)}`, {
        ...(tokens && { tokens }),
        ...(clients && { clients }),
      })
      const document: Document = {
        format: 1,
        server: key.server,
        ...(key.principal === undefined ? {} : { principal: key.principal }),
        ...open,
        ...(tokens ? { since: before?.since ?? Date.now() } : {}),
        ...(kept ? { keyring: kept } : { ...(tokens && { tokens }), ...(clients && { clients }) }),
      }
      await replace(dir, fileOf(key), JSON.stringify(document))
      if (before?.keyring && keyring) await deletePieces(keyring, before.keyring.name, before.keyring.pieces)
    },
    async delete(key) {
      const before = await load(key)
      await rm(fileOf(key), { force: true })
      if (before?.keyring && keyring) await deletePieces(keyring, before.keyring.name, before.keyring.pieces)
    },
    async exclusively(key, work) {
      await mkdir(dir, { recursive: true, mode: 0o700 })
      return await exclusively(`${fileOf(key)}.lock`, work, () => {
        throw new PegboardError('E_UPSTREAM_UNAVAILABLE', 'another process has been renewing its tokens for too long')
      })
    },
    async principals(server, url) {
      const files = await readdir(dir).catch(() => [])
      const found: Array<{ readonly principal: string; readonly at: number }> = []
      for (const file of files.filter((name) => name.endsWith('.json'))) {
        const document = await parse(join(dir, file))
        const principal = document?.principal
        if (principal === undefined || !(document?.tokens ?? document?.keyring)) continue
        if (file === `${nameOf({ server, url, principal })}.json`) found.push({ principal, at: document?.since ?? 0 })
      }
      return found.sort((a, b) => a.at - b.at).map(({ principal }) => principal)
    },
    watch(key, changed) {
      const file = key && `${nameOf(key)}.json`
      let stop: (() => void) | undefined
      let ended = false
      void mkdir(dir, { recursive: true, mode: 0o700 })
        .then(() => {
          if (ended) return
          const watcher = watchFolder(dir, { persistent: false }, (_event, name) => {
            if (name === null || name === (file ?? name)) changed()
          })
          watcher.on('error', () => watcher.close())
          stop = () => watcher.close()
        })
        // Without it a login is noticed at the next attempt.
        .catch(() => undefined)
      return () => {
        ended = true
        stop?.()
      }
    },
  }
}

/**
 * A file that only we can have written: no link, and closed to others before it is read.
 * @throws PegboardError E_UPSTREAM_UNAVAILABLE for one that somebody else may write
 */
async function readPrivate(file: string): Promise<string> {
  const handle = await open(file, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0)).catch(
    (error: NodeJS.ErrnoException) => {
      throw error.code === 'ELOOP' ? unreadable(`${file} is a symbolic link`) : error
    },
  )
  try {
    const others = writtenByOthers(file)
    if (others !== undefined) throw unreadable(others)
    const { mode } = await handle.stat()
    if (process.platform !== 'win32' && (mode & 0o077) !== 0) await handle.chmod(0o600)
    return await handle.readFile('utf8')
  } finally {
    await handle.close()
  }
}

const grantIn = ({ format: _f, server: _s, principal: _p, since: _at, keyring: _k, ...grant }: Document): Grant =>
  sound(grant)

/** Fit for a header. What says why another is not says the token with it. */
export const isToken = (token: unknown): boolean => typeof token === 'string' && /^[\x21-\x7e]+$/.test(token)

/** Without what somebody damaged: no token is a login that is wanted. */
function sound({ tokens, expiresAt, ...rest }: Grant): Grant {
  return {
    ...rest,
    ...(tokens && isToken(tokens.access_token) ? { tokens } : {}),
    ...(typeof expiresAt === 'number' ? { expiresAt } : {}),
  }
}

/** The parser quotes what it cannot read. */
function secretsIn(text: string): Secrets {
  try {
    return JSON.parse(text) as Secrets
  } catch {
    throw unreadable('they are damaged')
  }
}

const unreadable = (why: string): PegboardError =>
  new PegboardError('E_UPSTREAM_UNAVAILABLE', `its tokens cannot be read: ${why}`)

async function replace(dir: string, file: string, content: string): Promise<void> {
  await mkdir(dir, { recursive: true, mode: 0o700 })
  const temporary = `${file}.${process.pid}-${randomUUID().slice(0, 8)}.tmp`
  try {
    await writeFile(temporary, content, { mode: 0o600, flag: 'wx' })
    await rename(temporary, file)
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => undefined)
    throw error
  }
}
