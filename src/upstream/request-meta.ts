import { isRecord, type Json } from '../core/is-record.ts'
import { CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, VERSION } from '../core/protocol-meta.ts'
import type { ServerRequestKind } from '../core/server-requests.ts'
import { TASKS } from '../core/task-protocol.ts'
import type { Relay } from '../core/tool.ts'

const UI = 'io.modelcontextprotocol/ui'

const RELAYED = [UI, TASKS]

const HOP_LOCAL = new Set([VERSION, CLIENT_INFO, CLIENT_CAPABILITIES, LOG_LEVEL, 'progressToken'])

/** Capabilities to declare when no client's are known. */
export function ownCapabilities(asks: readonly ServerRequestKind[]): Record<string, Json> {
  const capabilities: Record<string, Json> = {}
  if (asks.includes('elicitation')) capabilities['elicitation'] = { form: {}, url: {} }
  if (asks.includes('sampling')) capabilities['sampling'] = {}
  if (asks.includes('roots')) capabilities['roots'] = {}
  // Servers offer UI resources only to clients that can show them; the client decides whether to.
  capabilities['extensions'] = { [UI]: { mimeTypes: ['text/html;profile=mcp-app'] } }
  return capabilities
}

/** The client's capabilities that Pegboard can support: no unknown extensions. */
function relayableCapabilities(declared: Json, asks: readonly ServerRequestKind[]): Json {
  const capabilities: Record<string, unknown> = {}
  for (const ask of asks) if (isRecord(declared[ask])) capabilities[ask] = declared[ask]
  const extensions = declared['extensions']
  if (!isRecord(extensions)) return capabilities
  const extensionEntries = RELAYED.filter((one) => isRecord(extensions[one])).map((one) => [one, extensions[one]])
  if (extensionEntries.length > 0) capabilities['extensions'] = Object.fromEntries(extensionEntries)
  return capabilities
}

/** Returns `_meta` for a request, made on behalf of a client or by Pegboard itself; `undefined` if none is needed. */
export type RequestMeta = (relay?: Relay) => Json | undefined

/** @param version the negotiated revision; `undefined` for a 2025-era server, which gets only the client's `_meta` */
export function createRequestMeta(
  version: string | undefined,
  clientInfo: Json,
  asks: readonly ServerRequestKind[],
  logLevel: () => string | undefined,
): RequestMeta {
  const defaultCapabilities = ownCapabilities(asks)
  const base = { [VERSION]: version, [CLIENT_INFO]: clientInfo }
  return (relay) => {
    const clientMeta = relay ? forwardedMeta(relay.meta) : undefined
    if (version === undefined) return clientMeta
    const level = relay?.meta[LOG_LEVEL] ?? logLevel()
    return {
      ...clientMeta,
      ...base,
      [CLIENT_CAPABILITIES]: relay ? relayableCapabilities(relay.clientCapabilities, asks) : defaultCapabilities,
      ...(level === undefined ? {} : { [LOG_LEVEL]: level }),
    }
  }
}

/** The client's `_meta` without keys that are valid for one hop only. */
function forwardedMeta(meta: Json): Json | undefined {
  let forwarded: Record<string, unknown> | undefined
  for (const key of Object.keys(meta)) {
    if (HOP_LOCAL.has(key)) continue
    forwarded ??= {}
    forwarded[key] = meta[key]
  }
  return forwarded
}
