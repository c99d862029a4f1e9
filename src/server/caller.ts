import { beginning } from '../core/beginning.ts'
import { type Caller, type Credential, type Grant, noOrigin } from '../core/context.ts'
import { DEFAULT_PROFILE } from '../core/profile.ts'
import { isRecord } from '../core/record.ts'

/** Who came in, as the door knows: under what name, into which profile, with which rights. */
export interface Entrant {
  readonly principal: string
  readonly profile: string
  readonly roles: readonly string[]
  /** The token says which profile: nothing in a request changes it. */
  readonly bound?: boolean
  /** A token names the principal: what a request says of its user is not believed. */
  readonly named?: boolean
  /** Absent: all that its profile may. */
  readonly grants?: readonly Grant[]
  readonly credential?: Credential
}

/** Who comes through a door that asks for no token. */
export const localEntrant = (profile: string = DEFAULT_PROFILE): Entrant => ({ principal: 'local', profile, roles: [] })

/** The same text for the same rights: what one opened is nobody else's. */
export const partyOf = ({ principal, profile, roles, bound, grants, credential }: Entrant): string =>
  JSON.stringify([
    principal,
    profile,
    roles,
    bound === true,
    ...(grants || credential ? [grants, lasting(credential)] : []),
  ])

/** The next token of the same person lasts longer. */
const lasting = (credential: Credential | undefined): unknown =>
  credential && 'oauth' in credential ? { oauth: credential.oauth } : credential

/** Whom a state or a task belongs to: a principal within a profile. Names of principals have no line ends. */
export const holderOf = ({ principal, profile }: Pick<Caller, 'principal' | 'profile'>): string =>
  profile === DEFAULT_PROFILE ? principal : `${principal}\n${profile}`

/** Who a connection is, as far as the transport can say. */
export interface Connection {
  readonly era: 'legacy' | 'modern'
  readonly entrant: Entrant
  readonly session?: string
  /** Made for one request: it is gone before anything could be told to it. */
  readonly perRequest?: boolean
}

/** Builds the caller of a request. What the client says of itself is used for display and limits, never for rights. */
export function callerOf(connection: Connection, client: unknown, capabilities: unknown): Caller {
  const declared = isRecord(capabilities) ? capabilities : {}
  const { principal, profile, roles, named, grants, credential } = connection.entrant
  return {
    principal,
    profile,
    roles,
    ...(named
      ? { byToken: true as const, origin: { ...noOrigin, platform: '', userId: principal, userName: principal } }
      : {}),
    ...(grants ? { grants } : {}),
    ...(credential ? { credential } : {}),
    era: connection.era,
    ...(connection.session === undefined ? {} : { session: connection.session }),
    ...(isRecord(client) && typeof client.name === 'string'
      ? { client: { name: beginning(client.name, 100), version: beginning(String(client.version ?? ''), 50) } }
      : {}),
    supports: { elicitation: 'elicitation' in declared, sampling: 'sampling' in declared, roots: 'roots' in declared },
  }
}
