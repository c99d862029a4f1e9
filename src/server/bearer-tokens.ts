import { hash, randomBytes, timingSafeEqual } from 'node:crypto'
import { existsSync } from 'node:fs'
import { chmod, lstat, mkdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Caller } from '../core/caller.ts'
import { createFile } from '../core/create-file.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import { readPrivateFile } from '../core/private-file.ts'
import { writtenByOthers } from '../core/written-by-others.ts'
import type { OAuthSettings, TokenSettings } from './server-options.ts'
import type { StoredToken } from './token-store.ts'

/** The bearer of a token, and its rights. */
export interface Bearer extends Pick<Caller, 'principal' | 'roles' | 'grants' | 'credential'> {
  /** The only profile that the token is valid for. */
  readonly profile?: string | undefined
  /** Milliseconds since the epoch. Its connections end then. */
  readonly expiresAt?: number
}

/** A valid token. Only its digest is kept in memory. */
export interface BearerToken extends Bearer {
  readonly digest: Buffer
}

interface TokenRights extends Partial<Pick<TokenSettings, 'principal' | 'roles' | 'profile' | 'effect'>> {
  readonly tools?: readonly string[] | undefined
}

export const createBearerToken = (
  token: string,
  { principal = 'local', roles = [], profile, tools, effect }: TokenRights = {},
): BearerToken => ({
  digest: digestOf(token),
  principal,
  roles,
  profile,
  ...grantsOf({ tools, effect }),
})

export const toBearerToken = ({ id, digest, principal, roles, profile, grants }: StoredToken): BearerToken => ({
  digest: Buffer.from(digest, 'hex'),
  principal,
  roles,
  ...omitUndefined({ profile, grants }),
  credential: { token: id },
})

/** The grant for settings of tools; none if they are not set. */
export const grantsOf = ({ tools, effect }: Pick<TokenRights, 'tools' | 'effect'>): Pick<Caller, 'grants'> =>
  tools === undefined && effect === undefined ? {} : { grants: [omitUndefined({ tools, effect })] }

/** Finds a token; undefined if it is unknown. Compares all digests, so every wrong token takes the same time. */
export function checkBearer(token: string, tokens: readonly BearerToken[]): BearerToken | undefined {
  const digest = digestOf(token)
  let found: BearerToken | undefined
  for (const one of tokens) if (timingSafeEqual(one.digest, digest)) found ??= one
  return found
}

export const parseBearer = (header: string | undefined): string | undefined =>
  header === undefined ? undefined : /^bearer +(\S+) *$/i.exec(header)?.[1]

export const digestOf = (token: string): Buffer => hash('sha256', token, 'buffer')

const TOKEN_BYTES = 32
const MIN_TOKEN_CHARS = 16

/**
 * Reads the token file, or creates one: 32 random bytes as base64url, readable only by its owner (mode 0600). Removes the
 * rights of others from an existing file. Processes that start together get the same token.
 * @throws PegboardError E_CONFIG_AUTH if the file cannot be created or protected, or has no token
 */
export async function loadOrCreateToken(file: string): Promise<string> {
  try {
    await mkdir(dirname(file), { recursive: true, mode: 0o700 })
    if (!existsSync(file)) {
      const token = randomBytes(TOKEN_BYTES).toString('base64url')
      createFile(file, `${token}\n`)
      return token
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw createTokenFileError(file, messageOf(error), error)
  }
  try {
    await restrictAccess(file)
    return await readToken(file)
  } catch (error) {
    throw error instanceof PegboardError ? error : createTokenFileError(file, messageOf(error), error)
  }
}

async function restrictAccess(file: string): Promise<void> {
  const stats = await lstat(file)
  // A link could point to any file, whose mode must not change.
  if (!stats.isFile()) throw createTokenFileError(file, 'it is not a regular file')
  const others = writtenByOthers(file)
  if (others !== undefined) throw createTokenFileError(file, others)
  if (process.platform === 'win32' || (stats.mode & 0o077) === 0) return
  await chmod(file, 0o600)
  if (((await lstat(file)).mode & 0o077) !== 0)
    throw createTokenFileError(file, 'others may read it, and its mode cannot be changed')
}

async function readToken(file: string): Promise<string> {
  const token = (await readPrivateFile(file)).trim()
  if (token.length >= MIN_TOKEN_CHARS && !/\s/.test(token)) return token
  throw createTokenFileError(file, 'it holds no token')
}

const createTokenFileError = (file: string, why: string, cause?: unknown): PegboardError =>
  new PegboardError('E_CONFIG_AUTH', `The token file ${file} cannot be used: ${why}.`, {
    hint: 'Delete it, so that Pegboard creates a new one, or set server.http.token.',
    cause,
  })

/** Undefined if scopes are configured and the token has none of them. Of several profiles, the first of the settings counts. */
export function rightsOfScopes(
  { scopes }: OAuthSettings,
  tokenScopes: readonly string[],
): Omit<Bearer, 'principal'> | undefined {
  const meanings = Object.entries(scopes)
  if (meanings.length === 0) return { roles: [] }
  const granted = meanings.filter(([scope]) => tokenScopes.includes(scope)).map(([, meaning]) => meaning)
  if (granted.length === 0) return undefined
  const profile = granted.find((one) => one.profile !== undefined)?.profile
  const roles = [...new Set(granted.flatMap((one) => one.roles))]
  const grants = granted.flatMap((one) => grantsOf(one).grants ?? [])
  // A scope without tools or effect allows all tools.
  return { roles, profile, ...(grants.length === granted.length ? { grants } : {}) }
}
