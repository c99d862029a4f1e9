import { WIRE_NAME_MAX } from '../core/names.ts'
import { matcher } from '../policy/rules.ts'
import type { ClientSettings } from './client-options.ts'
import { type ClientFacts, clientFacts } from './clients.ts'
import type { ExposureSettings } from './options.ts'
import type { SchemaStyle } from './portable.ts'

/** What one client can take. It decides how things are shown, never what may be used. */
export interface ClientLimits {
  /** The same for clients that are treated alike. */
  readonly key: string
  /** Infinite where nobody knows a limit. */
  readonly maxTools: number
  /** Of our part of a name. */
  readonly maxNameLength: number
  /** What the operator chose. */
  readonly schema?: SchemaStyle
  /** What suits it, where the operator chose nothing anywhere. */
  readonly suited?: SchemaStyle
  readonly maxResultBytes?: number
  readonly trustsListChanged: boolean
  readonly deferralKeys: readonly string[]
  readonly maxInstructions: number
  readonly exposure: Partial<ExposureSettings>
}

/** The limits of a client by the name it gave itself; `undefined` where it gave none. */
export type LimitsOf = (client: string | undefined) => ClientLimits

/** Where Claude Code cuts, less a little. */
const MAX_INSTRUCTIONS = 2_000
/** Asked of those nobody knows: others read it too, and who does not leaves it alone. */
const DEFERRAL = ['anthropic/alwaysLoad']
/** Names are chosen by clients, and must not fill the memory. */
const MAX_KEPT = 1_000

/** @param settings what the operator says; where several patterns fit, the later one wins */
export function createLimits(settings: ClientSettings = {}): LimitsOf {
  const own = Object.entries(settings).map(([pattern, said]) => [matcher([pattern.toLowerCase()]), said] as const)
  const known = new Map<string, ClientLimits>()
  const make = (client: string): ClientLimits => {
    const name = plainName(client)
    const fitting = own.filter(([fits]) => fits(name) || fits(client.toLowerCase())).map(([, said]) => said)
    return limitsFrom(factsOf(client)?.facts, fitting)
  }
  const nobody = limitsFrom(undefined, [])
  return (client) => {
    if (client === undefined) return nobody
    let limits = known.get(client)
    if (!limits) {
      limits = make(client)
      if (known.size >= MAX_KEPT) known.clear()
      known.set(client, limits)
    }
    return limits
  }
}

/** What is known of a client, by the name it gives itself or by ours. */
export function factsOf(client: string): { readonly id: string; readonly facts: ClientFacts } | undefined {
  const name = plainName(client)
  for (const [id, facts] of Object.entries(clientFacts))
    if (id === name || matcher(facts.names.map((one) => one.toLowerCase()))(name)) return { id, facts }
  return undefined
}

/** Bridges write themselves behind the name: `claude-ai (via mcp-remote 0.1.37)`. */
const plainName = (client: string): string =>
  client
    .replace(/\s*\(via .*$/, '')
    .trim()
    .toLowerCase()

/** Characters that are left for our part of a name; more than we ever use where nobody knows. */
export const roomForName = ({ maxName, prefix = '' }: ClientFacts): number =>
  maxName === undefined ? WIRE_NAME_MAX : Math.min(WIRE_NAME_MAX, maxName - prefix.length)

function limitsFrom(facts: ClientFacts | undefined, said: readonly ClientSettings[string][]): ClientLimits {
  const own = Object.assign({}, ...said.map(given)) as Partial<ClientSettings[string]>
  const exposure = Object.assign({}, ...said.map((one) => given(one.exposure))) as Partial<ExposureSettings>
  const maxResultBytes = own.maxResultBytes ?? facts?.maxResultBytes
  const limits = {
    maxTools: own.maxTools ?? facts?.maxTools ?? Number.POSITIVE_INFINITY,
    maxNameLength: own.maxNameLength ?? (facts ? roomForName(facts) : WIRE_NAME_MAX),
    ...(own.schema === undefined ? {} : { schema: own.schema }),
    ...(facts?.schema === undefined ? {} : { suited: facts.schema }),
    ...(maxResultBytes === undefined ? {} : { maxResultBytes }),
    trustsListChanged: own.trustsListChanged ?? facts?.listChanged ?? true,
    deferralKeys: own.deferralKeys ?? (facts ? (facts.deferral ?? []) : DEFERRAL),
    maxInstructions: own.maxInstructions ?? Math.min(MAX_INSTRUCTIONS, facts?.maxText ?? MAX_INSTRUCTIONS),
    exposure,
  }
  return { key: JSON.stringify(limits), ...limits }
}

/** What was said, without what was not. */
const given = (said: object): object =>
  Object.fromEntries(Object.entries(said).filter(([, value]) => value !== undefined))

/** How schemas are listed: as the operator chose, or else as the client needs them. */
export const styleFor = ({ schema, suited }: ClientLimits, common: SchemaStyle): SchemaStyle =>
  schema ?? (common === 'portable' ? (suited ?? common) : common)
