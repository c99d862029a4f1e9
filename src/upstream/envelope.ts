import { isRecord } from '../core/record.ts'
import { TASKS } from '../core/tasks.ts'
import type { Relay } from '../core/tool.ts'
import type { Ask } from './settings.ts'

/** The `_meta` keys every 2026-07-28 request carries. */
const VERSION = 'io.modelcontextprotocol/protocolVersion'
const CLIENT_INFO = 'io.modelcontextprotocol/clientInfo'
const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities'
const LOG_LEVEL = 'io.modelcontextprotocol/logLevel'
const UI = 'io.modelcontextprotocol/ui'

const RELAYED = [UI, TASKS]

// They belong to the hop they were written for.
const HOP_LOCAL = new Set([VERSION, CLIENT_INFO, CAPABILITIES, LOG_LEVEL, 'progressToken'])

type Json = Readonly<Record<string, unknown>>

/** What we say we can do when no client's word is there to repeat. */
export function ownCapabilities(asks: readonly Ask[]): Record<string, Json> {
  const capabilities: Record<string, Json> = {}
  if (asks.includes('elicitation')) capabilities['elicitation'] = { form: {}, url: {} }
  if (asks.includes('sampling')) capabilities['sampling'] = {}
  if (asks.includes('roots')) capabilities['roots'] = {}
  // Servers offer their pages only to who may show them; whether the client does is for the client to say.
  capabilities['extensions'] = { [UI]: { mimeTypes: ['text/html;profile=mcp-app'] } }
  return capabilities
}

/** The client's capabilities as far as we can carry what they lead to: no extension we do not know. */
export function relayableCapabilities(declared: Json, asks: readonly Ask[]): Json {
  const capabilities: Record<string, unknown> = {}
  for (const ask of asks) if (isRecord(declared[ask])) capabilities[ask] = declared[ask]
  const extensions = declared['extensions']
  if (!isRecord(extensions)) return capabilities
  const carried = RELAYED.filter((one) => isRecord(extensions[one])).map((one) => [one, extensions[one]])
  if (carried.length > 0) capabilities['extensions'] = Object.fromEntries(carried)
  return capabilities
}

export interface Envelope {
  /** `_meta` of a request made for a client, or `undefined` when nothing needs saying. */
  meta(relay: Relay | undefined): Json | undefined
}

/** @param version the negotiated revision, or `undefined` with a 2025-era server, which has no envelope */
export function createEnvelope(
  version: string | undefined,
  clientInfo: Json,
  asks: readonly Ask[],
  logLevel: () => string | undefined,
): Envelope {
  const own = ownCapabilities(asks)
  const base = { [VERSION]: version, [CLIENT_INFO]: clientInfo }
  return {
    meta(relay) {
      const theirs = relay ? carried(relay.meta) : undefined
      if (version === undefined) return theirs
      const level = relay?.meta[LOG_LEVEL] ?? logLevel()
      return {
        ...theirs,
        ...base,
        [CAPABILITIES]: relay ? relayableCapabilities(relay.clientCapabilities, asks) : own,
        ...(level === undefined ? {} : { [LOG_LEVEL]: level }),
      }
    },
  }
}

function carried(meta: Json): Json | undefined {
  let kept: Record<string, unknown> | undefined
  for (const key of Object.keys(meta)) {
    if (HOP_LOCAL.has(key)) continue
    kept ??= {}
    kept[key] = meta[key]
  }
  return kept
}
