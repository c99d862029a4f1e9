import { type Caller, type Credential, noOrigin } from '../core/caller.ts'
import { asRecord, isRecord } from '../core/is-record.ts'
import { DEFAULT_PROFILE } from '../core/profile.ts'
import { truncate } from '../core/truncate.ts'

/** Who sends a request, by token, path or command line. */
export interface Identity extends Pick<Caller, 'principal' | 'profile' | 'roles' | 'grants' | 'credential'> {
  /** The token fixes the profile: no request can name another. */
  readonly bound?: boolean
  /** A token names the principal: claims of a request about its user are ignored. */
  readonly named?: boolean
}

/** The identity of a connection that needs no token. */
export const localIdentity = (profile: string = DEFAULT_PROFILE): Identity => ({
  principal: 'local',
  profile,
  roles: [],
})

/** Equal for identities with the same rights. Sessions belong to one key. */
export const identityKey = ({ credential, ...identity }: Identity): string =>
  JSON.stringify([identity, omitExpiry(credential)])

/** Without the expiry time: a renewed token continues the session. */
const omitExpiry = (credential: Credential | undefined): unknown =>
  credential && 'oauth' in credential ? { oauth: credential.oauth } : credential

/** The owner of a state or a task: a principal within a profile. Names of principals have no line breaks. */
export const holderOf = ({ principal, profile }: Pick<Caller, 'principal' | 'profile'>): string =>
  profile === DEFAULT_PROFILE ? principal : `${principal}\n${profile}`

/** Name and version of a client for the log, such as `robot 2.0`; empty if unknown. */
export function labelOf(clientInfo: unknown): string {
  const { name, version } = asRecord(clientInfo)
  return [name, version]
    .filter((part) => typeof part === 'string')
    .join(' ')
    .slice(0, 100)
}

/** What is known of a connection before its first request. */
export interface Connection {
  readonly era: 'legacy' | 'modern'
  readonly identity: Identity
  readonly session?: string
  /** It lasts for one request, so it gets no notifications of its own. */
  readonly perRequest?: boolean
}

/** Builds the caller of a request. Name and capabilities of the client are used for display and limits, never for rights. */
export function callerOf(connection: Connection, client: unknown, capabilities: unknown): Caller {
  const declared = asRecord(capabilities)
  const { bound: _bound, named, ...rights } = connection.identity
  const { principal } = rights
  return {
    ...rights,
    ...(named
      ? { byToken: true as const, origin: { ...noOrigin, platform: '', userId: principal, userName: principal } }
      : {}),
    era: connection.era,
    ...(connection.session === undefined ? {} : { session: connection.session }),
    ...(isRecord(client) && typeof client.name === 'string'
      ? { client: { name: truncate(client.name, 100), version: truncate(String(client.version ?? ''), 50) } }
      : {}),
    supports: { elicitation: 'elicitation' in declared, sampling: 'sampling' in declared, roots: 'roots' in declared },
  }
}
