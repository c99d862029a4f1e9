import { hash, randomBytes, timingSafeEqual } from 'node:crypto'
import { constants } from 'node:fs'
import { chmod, lstat, mkdir, open, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Credential, Grant } from '../core/context.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import type { Effect } from '../core/tool.ts'
import { writtenByOthers } from '../core/written-by-others.ts'
import type { TokenSettings } from './options.ts'
import type { KeptToken } from './tokens.ts'

/** Who comes with a token, and what it may do. */
export interface Bearer {
  readonly principal: string
  readonly roles: readonly string[]
  /** The only profile it is for. */
  readonly profile?: string
  readonly grants?: readonly Grant[]
  readonly credential?: Credential
  /** Milliseconds since the epoch. Whatever it has open ends then. */
  readonly expiresAt?: number
}

/** A token we accept. Only its digest is kept. */
export interface BearerToken extends Bearer {
  readonly digest: Buffer
}

type Said = Partial<Pick<TokenSettings, 'principal' | 'roles' | 'profile' | 'tools' | 'effect'>>

export const bearerToken = (
  token: string,
  { principal = 'local', roles = [], profile, tools, effect }: Said = {},
): BearerToken => ({
  digest: digestOf(token),
  principal,
  roles,
  ...(profile === undefined ? {} : { profile }),
  ...grantsOf({ tools, effect }),
})

/** One that was made with `pegboard token`. */
export const keptBearer = ({ id, digest, principal, roles, profile, grants }: KeptToken): BearerToken => ({
  digest: Buffer.from(digest, 'hex'),
  principal,
  roles,
  ...(profile === undefined ? {} : { profile }),
  ...(grants === undefined ? {} : { grants }),
  credential: { token: id },
})

/** What settings say of tools, as a grant; none where they say nothing. */
export const grantsOf = ({
  tools,
  effect,
}: {
  readonly tools?: readonly string[] | undefined
  readonly effect?: Effect | undefined
}): { readonly grants?: readonly Grant[] } =>
  tools === undefined && effect === undefined
    ? {}
    : { grants: [{ ...(tools === undefined ? {} : { tools }), ...(effect === undefined ? {} : { effect }) }] }

/**
 * The token that an `Authorization` header holds, or undefined when it holds none of ours.
 * Takes the same time for a near miss as for nonsense: digests of equal length are compared, all of them.
 */
export function checkBearer(header: string | undefined, tokens: readonly BearerToken[]): BearerToken | undefined {
  const given = givenIn(header)
  if (given === undefined) return undefined
  const digest = digestOf(given)
  let found: BearerToken | undefined
  for (const token of tokens) if (timingSafeEqual(token.digest, digest)) found ??= token
  return found
}

/** What stands behind `Bearer`. */
export const givenIn = (header: string | undefined): string | undefined =>
  header === undefined ? undefined : /^bearer +(\S+) *$/i.exec(header)?.[1]

export const digestOf = (token: string): Buffer => hash('sha256', token, 'buffer')

const TOKEN_BYTES = 32
const MIN_TOKEN_CHARS = 16
const READ_ATTEMPTS = 20

/**
 * Reads the token file, or makes one: 32 random bytes as base64url, readable by its owner alone (0600).
 * A file others could read is closed to them. Two processes starting together end up with the same token.
 * @throws PegboardError E_CONFIG_AUTH when the file cannot be made, closed, or holds no token
 */
export async function loadOrCreateToken(file: string): Promise<string> {
  try {
    await mkdir(dirname(file), { recursive: true, mode: 0o700 })
    const token = randomBytes(TOKEN_BYTES).toString('base64url')
    await writeFile(file, `${token}\n`, { flag: 'wx', mode: 0o600 })
    return token
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw unusable(file, messageOf(error), error)
  }
  try {
    await closeToOthers(file)
    return await readToken(file)
  } catch (error) {
    throw error instanceof PegboardError ? error : unusable(file, messageOf(error), error)
  }
}

async function closeToOthers(file: string): Promise<void> {
  const stats = await lstat(file)
  // A link could point at a file whose mode is not ours to change.
  if (!stats.isFile()) throw unusable(file, 'it is not a regular file')
  const others = writtenByOthers(file)
  if (others !== undefined) throw unusable(file, others)
  if (process.platform === 'win32' || (stats.mode & 0o077) === 0) return
  await chmod(file, 0o600)
  if (((await lstat(file)).mode & 0o077) !== 0)
    throw unusable(file, 'others may read it, and its mode cannot be changed')
}

/** Never through a link that took the place of the file. */
async function readOwnFile(file: string): Promise<string> {
  const handle = await open(file, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0))
  try {
    return await handle.readFile('utf8')
  } finally {
    await handle.close()
  }
}

async function readToken(file: string): Promise<string> {
  for (let attempt = 0; attempt < READ_ATTEMPTS; attempt++) {
    const token = (await readOwnFile(file)).trim()
    if (token.length >= MIN_TOKEN_CHARS && !/\s/.test(token)) return token
    if (token !== '') break
    // Another process has made the file and not filled it yet.
    await sleep(10)
  }
  throw unusable(file, 'it holds no token')
}

const unusable = (file: string, why: string, cause?: unknown): PegboardError =>
  new PegboardError('E_CONFIG_AUTH', `The token file ${file} cannot be used: ${why}.`, {
    hint: 'Delete it to have a new one made, or set server.http.token.',
    ...(cause === undefined ? {} : { cause }),
  })
