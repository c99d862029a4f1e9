import { createHash, randomUUID } from 'node:crypto'
import { watch as watchFolder } from 'node:fs'
import { mkdir, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { OAuthDiscoveryState, StoredOAuthClientInformation, StoredOAuthTokens } from '@modelcontextprotocol/client'
import { messageOf, PegboardError } from '../../core/errors.ts'
import { readPrivateFile } from '../../core/private-file.ts'
import { replaceFile } from '../../core/replace-file.ts'
import type { Environment } from '../../programs/spawn.ts'
import { exclusively } from '../../state/file-lock.ts'
import { deletePieces, getPieces, type Keyring, openKeyring, setPieces } from '../../state/keyring.ts'

/** Key of a grant: the server entry, and the principal if each principal logs in. */
export interface GrantKey {
  readonly server: string
  readonly url: string
  readonly principal?: string | undefined
}

/** The parts of a grant that must be stored securely. */
export interface Secrets {
  readonly tokens?: StoredOAuthTokens
  /** Clients registered with authorization servers, by issuer. */
  readonly clients?: Readonly<Record<string, StoredOAuthClientInformation>>
}

/** Everything known about one login. */
export interface Grant extends Secrets {
  /** Milliseconds since the epoch; absent if the server does not tell. */
  readonly expiresAt?: number | undefined
  readonly obtainedAt?: number
  /** The authorization server's metadata at the last login. */
  readonly discovery?: OAuthDiscoveryState | undefined
  /** What the server required in its last rejection. */
  readonly wanted?: AuthRequirement | undefined
  /** The scopes requested in the last login. */
  readonly asked?: string
  /** A login with the registered client was started, and its outcome is unknown. */
  readonly begun?: boolean
}

export interface AuthRequirement {
  readonly scope?: string | undefined
  readonly resourceMetadataUrl?: string | undefined
}

/** Grants by server and principal. Each write is atomic and visible to other processes. */
export interface TokenStore {
  read(key: GrantKey): Promise<Grant | undefined>
  /** The part of a grant that needs no keyring, for a new login when the keyring is unavailable. */
  readOpen(key: GrantKey): Promise<Grant | undefined>
  write(key: GrantKey, grant: Grant): Promise<void>
  delete(key: GrantKey): Promise<void>
  /** Runs work while no other process works on this key, because a rotating refresh token must not be used twice. */
  exclusively<T>(key: GrantKey, work: () => Promise<T>): Promise<T>
  /** Calls `changed` when the grant may have changed; without a principal, when any grant of the server may have. */
  watch(key: GrantKey | undefined, changed: () => void): () => void
  /** Principals that are logged in, earliest login first. Reads no secrets. */
  principals(server: string, url: string): Promise<readonly string[]>
  /** Where secrets are stored, in words. */
  readonly place: string
}

interface Document extends Grant {
  readonly format: 1
  readonly server: string
  readonly principal?: string
  /** Time of the first tokens, in milliseconds since the epoch. */
  readonly since?: number
  /** If the secrets are in the keyring: their name, and the number of pieces. */
  readonly keyring?: { readonly name: string; readonly pieces: number }
}

/**
 * Stores grants as files of mode 0600 in `dir`. Secrets go to the keyring if there is one, and to the file only if
 * the keyring refuses them.
 * @param warn called when the keyring cannot be used
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
      const document = JSON.parse(await readPrivateFile(file)) as Document
      return document?.format === 1 ? document : undefined
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT' || error instanceof SyntaxError) return undefined
      throw createUnreadableError(messageOf(error))
    }
  }

  async function storeInKeyring(name: string, secrets: Secrets): Promise<Document['keyring']> {
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
      const keyringEntry = document.keyring
      const grant = grantIn(document)
      if (!keyringEntry) return grant
      if (!keyring) throw createUnreadableError('they are in the keyring of this system, which is not available')
      let text: string | undefined
      try {
        text = await getPieces(keyring, keyringEntry.name, keyringEntry.pieces)
      } catch (error) {
        throw createUnreadableError(messageOf(error))
      }
      return text === undefined ? grant : dropDamaged({ ...grant, ...secretsIn(text) })
    },
    async readOpen(key) {
      const document = await load(key)
      return document && grantIn(document)
    },
    async write(key, grant) {
      const before = await load(key)
      const { tokens, clients, ...open } = grant
      // A new name each time, so that the file alone decides which secrets are current.
      const keyringEntry = await storeInKeyring(`${nameOf(key)}.${randomUUID().slice(0, 8)}`, {
        ...(tokens && { tokens }),
        ...(clients && { clients }),
      })
      const document: Document = {
        format: 1,
        server: key.server,
        ...(key.principal === undefined ? {} : { principal: key.principal }),
        ...open,
        ...(tokens ? { since: before?.since ?? Date.now() } : {}),
        ...(keyringEntry ? { keyring: keyringEntry } : { ...(tokens && { tokens }), ...(clients && { clients }) }),
      }
      await mkdir(dir, { recursive: true, mode: 0o700 })
      await replaceFile(fileOf(key), JSON.stringify(document))
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
      const logins: Array<{ readonly principal: string; readonly at: number }> = []
      for (const file of files.filter((name) => name.endsWith('.json'))) {
        const document = await parse(join(dir, file))
        const principal = document?.principal
        if (principal === undefined || !(document?.tokens ?? document?.keyring)) continue
        if (file === `${nameOf({ server, url, principal })}.json`) logins.push({ principal, at: document?.since ?? 0 })
      }
      return logins.sort((a, b) => a.at - b.at).map(({ principal }) => principal)
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
        // Without a watcher, a login is noticed at the next attempt.
        .catch(() => undefined)
      return () => {
        ended = true
        stop?.()
      }
    },
  }
}

const grantIn = ({ format: _f, server: _s, principal: _p, since: _at, keyring: _k, ...grant }: Document): Grant =>
  dropDamaged(grant)

/** True if the token is valid in a header. Node's own error would quote the token. */
export const isToken = (token: unknown): boolean => typeof token === 'string' && /^[\x21-\x7e]+$/.test(token)

/** Drops damaged parts; a missing token only requires a new login. */
function dropDamaged({ tokens, expiresAt, ...rest }: Grant): Grant {
  return {
    ...rest,
    ...(tokens && isToken(tokens.access_token) ? { tokens } : {}),
    ...(typeof expiresAt === 'number' ? { expiresAt } : {}),
  }
}

/** The parser quotes what it cannot parse. */
function secretsIn(text: string): Secrets {
  try {
    return JSON.parse(text) as Secrets
  } catch {
    throw createUnreadableError('they are damaged')
  }
}

const createUnreadableError = (why: string): PegboardError =>
  new PegboardError('E_UPSTREAM_UNAVAILABLE', `its tokens cannot be read: ${why}`)

/** The logins of this installation: in `auth` in the state folder, with secrets in the keyring if there is one. */
export const openTokenStore = async (
  stateDir: string,
  environment: Environment,
  warn: (message: string) => void,
): Promise<TokenStore> => createTokenStore(join(stateDir, 'auth'), await openKeyring(environment), warn)
