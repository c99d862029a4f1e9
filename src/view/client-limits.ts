import { setNewest } from '../core/drop-oldest.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import { WIRE_NAME_MAX } from '../core/tool-names.ts'
import { compilePatterns } from '../policy/policy-rules.ts'
import type { ClientSettings } from './client-options.ts'
import { type ClientFacts, clientFacts } from './client-table.ts'
import type { ExposureSettings } from './exposure-options.ts'
import type { SchemaStyle } from './portable-schema.ts'

/** Limits of a client. They decide how tools are shown, never which tools are allowed. */
export interface ClientLimits {
  /** All the others as JSON, so it is equal for clients with the same limits. Such clients share a view. */
  readonly key: string
  /** Infinity if unknown. */
  readonly maxTools: number
  /** In characters, without the client's own prefix. */
  readonly maxNameLength: number
  /** As configured for this client. */
  readonly schema?: SchemaStyle
  /** The style that the client needs, if none is configured for it. */
  readonly preferredSchema?: SchemaStyle
  readonly maxResultBytes?: number
  /** 0: no limit. */
  readonly maxResultTokens?: number
  /** True if resources that it reads are for an application, not for a model. */
  readonly wholeResources?: boolean
  /** The part of a result that its model reads; absent: unknown, or both. */
  readonly reads?: 'content' | 'structured'
  /** Whether output schemas are listed; absent: where results have no limit. */
  readonly outputSchemas?: boolean
  readonly trustsListChanged: boolean
  readonly deferralKeys: readonly string[]
  readonly maxInstructions: number
  readonly exposure: Partial<ExposureSettings>
}

/** The limits of a client. @param client the name that it gave itself; `undefined` if it gave none */
export type LimitsOf = (client: string | undefined) => ClientLimits

/** Claude Code cuts instructions at 2,048 characters. */
const MAX_INSTRUCTIONS = 2_000
/** For unknown clients. Those that do not know the key ignore it. */
const DEFERRAL = ['anthropic/alwaysLoad']
/** Bounds the memory, because clients choose their names. */
const MAX_CACHED = 1_000

/** @param settings by name or pattern; a later match overrides an earlier one */
export function createLimits(settings: ClientSettings = {}): LimitsOf {
  const entries = Object.entries(settings).map(
    ([pattern, entry]) => [compilePatterns([pattern.toLowerCase()]), entry] as const,
  )
  const limitsByClient = new Map<string, ClientLimits>()
  const createFor = (client: string): ClientLimits => {
    const name = plainName(client)
    const matching = entries
      .filter(([matches]) => matches(name) || matches(client.toLowerCase()))
      .map(([, entry]) => entry)
    return limitsFrom(factsOf(client)?.facts, matching)
  }
  const unnamed = limitsFrom(undefined, [])
  return (client) => {
    if (client === undefined) return unnamed
    return limitsByClient.get(client) ?? setNewest(limitsByClient, client, createFor(client), MAX_CACHED)
  }
}

/** What is known about a client, by the name that it gives itself or by our id. */
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

/** Characters left for our part of a name; the maximum for unknown clients. */
export const roomForName = ({ maxName, prefix = '' }: ClientFacts): number =>
  maxName === undefined ? WIRE_NAME_MAX : Math.min(WIRE_NAME_MAX, maxName - prefix.length)

function limitsFrom(facts: ClientFacts | undefined, settings: readonly ClientSettings[string][]): ClientLimits {
  const configured = Object.assign({}, ...settings.map(omitUndefined)) as Partial<ClientSettings[string]>
  const exposure = Object.assign({}, ...settings.map((one) => omitUndefined(one.exposure))) as Partial<ExposureSettings>
  const reads = configured.reads ?? facts?.reads
  const limits = {
    maxTools: configured.maxTools ?? facts?.maxTools ?? Number.POSITIVE_INFINITY,
    maxNameLength: configured.maxNameLength ?? (facts ? roomForName(facts) : WIRE_NAME_MAX),
    ...omitUndefined({
      schema: configured.schema,
      preferredSchema: facts?.schema,
      maxResultBytes: configured.maxResultBytes ?? facts?.maxResultBytes,
      maxResultTokens: configured.maxResultTokens ?? facts?.maxResultTokens,
      wholeResources: configured.wholeResources,
      reads: reads === 'both' ? undefined : reads,
      outputSchemas: configured.outputSchemas,
    }),
    trustsListChanged: configured.trustsListChanged ?? facts?.listChanged ?? true,
    deferralKeys: configured.deferralKeys ?? (facts ? (facts.deferral ?? []) : DEFERRAL),
    maxInstructions: configured.maxInstructions ?? Math.min(MAX_INSTRUCTIONS, facts?.maxText ?? MAX_INSTRUCTIONS),
    exposure,
  }
  return { key: JSON.stringify(limits), ...limits }
}

/** How schemas are listed: as configured, otherwise as the client needs them. */
export const styleFor = ({ schema, preferredSchema }: ClientLimits, defaultStyle: SchemaStyle): SchemaStyle =>
  schema ?? (defaultStyle === 'portable' ? (preferredSchema ?? defaultStyle) : defaultStyle)
