import { setNewest } from '../core/drop-oldest.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import { WIRE_NAME_MAX } from '../core/tool-names.ts'
import { compilePatterns } from '../policy/policy-rules.ts'
import type { ClientSettings } from './client-options.ts'
import { type ClientFacts, clientFacts } from './client-table.ts'
import type { ExposureSettings } from './exposure-options.ts'
import type { SchemaStyle } from './portable-schema.ts'

/**
 * Limits of a client: its settings, with defaults from what is known about it. They decide how tools are shown, never
 * which tools are allowed.
 */
export interface ClientLimits extends Readonly<Omit<ClientSettings[string], 'deferralKeys' | 'reads'>> {
  /** All other properties as JSON. Clients with the same key share a view. */
  readonly key: string
  /** Infinity if unknown. */
  readonly maxTools: number
  /** In characters, without the client's own prefix. */
  readonly maxNameLength: number
  /** The style that the client needs, if none is configured for it. */
  readonly preferredSchema?: SchemaStyle
  /** The part of a result that its model reads; absent: unknown, or both. */
  readonly reads?: 'content' | 'structured'
  readonly trustsListChanged: boolean
  readonly deferralKeys: readonly string[]
  readonly maxInstructions: number
  readonly exposure: Partial<ExposureSettings>
}

/** The limits of a client. @param client the name that it gave itself; `undefined` if it gave none */
export type LimitsOf = (client: string | undefined) => ClientLimits

/** Claude Code cuts instructions at 2,048 characters. */
const MAX_INSTRUCTIONS = 2_000
/** Keys for unknown clients. A client that does not know a key ignores it. */
const DEFERRAL = ['anthropic/alwaysLoad']
/** Bounds the memory, because clients choose their names. */
const MAX_CACHED = 1_000

/** @param settings by a client's own name, its id in `clientFacts`, or a pattern; later matches override earlier ones */
export function createLimits(settings: ClientSettings = {}): LimitsOf {
  const entries = Object.entries(settings).map(
    ([pattern, entry]) => [compilePatterns([pattern.toLowerCase()]), entry] as const,
  )
  const limitsByClient = new Map<string, ClientLimits>()
  const createFor = (client: string): ClientLimits => {
    const known = factsOf(client)
    const names = [plainName(client), client.toLowerCase(), ...(known ? [known.id] : [])]
    const matching = entries.filter(([matches]) => names.some(matches)).map(([, entry]) => entry)
    return limitsFrom(known?.facts, matching)
  }
  const unnamed = limitsFrom(undefined, [])
  return (client) => {
    if (client === undefined) return unnamed
    return limitsByClient.get(client) ?? setNewest(limitsByClient, client, createFor(client), MAX_CACHED)
  }
}

/** What is known about a client, by the name that it gives itself or by its id in `clientFacts`. */
export function factsOf(client: string): { readonly id: string; readonly facts: ClientFacts } | undefined {
  const name = plainName(client)
  for (const [id, facts] of Object.entries(clientFacts))
    if (id === name || compilePatterns(facts.names.map((one) => one.toLowerCase()))(name)) return { id, facts }
  return undefined
}

/** Bridges append themselves to the name: `claude-ai (via mcp-remote 0.1.37)`. */
const plainName = (client: string): string =>
  client
    .replace(/\s*\(via .*$/, '')
    .trim()
    .toLowerCase()

/** Maximum length of a name without the client's prefix; WIRE_NAME_MAX if the client's limit is unknown. */
export const roomForName = ({ maxName, prefix = '' }: ClientFacts): number =>
  maxName === undefined ? WIRE_NAME_MAX : Math.min(WIRE_NAME_MAX, maxName - prefix.length)

/** Later entries override earlier ones. */
const merge = <T extends object>(entries: readonly T[]): ReturnType<typeof omitUndefined<T>> =>
  Object.assign({}, ...entries.map(omitUndefined))

function limitsFrom(facts: ClientFacts | undefined, settings: readonly ClientSettings[string][]): ClientLimits {
  const { reads = facts?.reads, ...configured } = merge(settings)
  const limits = {
    maxTools: facts?.maxTools ?? Number.POSITIVE_INFINITY,
    maxNameLength: facts ? roomForName(facts) : WIRE_NAME_MAX,
    ...omitUndefined({
      preferredSchema: facts?.schema,
      maxResultBytes: facts?.maxResultBytes,
      maxResultTokens: facts?.maxResultTokens,
      reads: reads === 'both' ? undefined : reads,
    }),
    trustsListChanged: facts?.listChanged ?? true,
    deferralKeys: facts ? (facts.deferral ?? []) : DEFERRAL,
    maxInstructions: Math.min(MAX_INSTRUCTIONS, facts?.maxText ?? MAX_INSTRUCTIONS),
    ...configured,
    exposure: merge(settings.map(({ exposure }) => exposure)),
  }
  return { key: JSON.stringify(limits), ...limits }
}

/** How schemas are listed: as configured, otherwise as the client needs them. */
export const styleFor = ({ schema, preferredSchema }: ClientLimits, defaultStyle: SchemaStyle): SchemaStyle =>
  schema ?? (defaultStyle === 'portable' ? (preferredSchema ?? defaultStyle) : defaultStyle)
