import { asRecord, isRecord, type Json } from '../core/is-record.ts'
import type { Message } from '../core/jsonrpc.ts'
import { toPrintable } from '../core/printable.ts'
import { MODERN_REVISION, SESSION_REVISIONS } from '../core/protocol-revisions.ts'
import type { ServerRequestKind } from '../core/server-requests.ts'
import { waitAtMost } from '../core/wait-at-most.ts'
import type { FastRequests } from './fast-requests.ts'
import { createRequestMeta, ownCapabilities } from './request-meta.ts'

/** A 2025-era server's answer to the handshake. */
export interface LegacyHandshake {
  readonly capabilities: Json
  readonly serverInfo: { readonly name: string; readonly version: string; readonly description?: unknown }
  readonly instructions: unknown
}

export interface LegacyHandshakeOptions {
  readonly fastRequests: FastRequests
  readonly clientInfo: Json
  /** Server requests that can be passed on to clients. */
  readonly relay: readonly ServerRequestKind[]
  readonly timeoutMs: number
  /** Maximum wait for the answer to the probe; absent: the server is known to be of the older era. */
  readonly probeMs: number | undefined
  /** Sends the probe. Resolves with the answer; rejects if the connection ends first. */
  probe(message: Message): Promise<Message>
}

/** "Unsupported protocol version": the server may support another revision of the newer era. */
const OTHER_REVISION = -32022
/** Differs from all ids of the SDK, which may probe again on the same pipe. */
const PROBE_ID = 'server-discover-probe-0'

/**
 * Performs the 2025-era handshake without the SDK: most servers are of that era, and loading the SDK takes longer
 * than their answer.
 * @returns undefined if the server may be of the newer era, which the SDK then determines
 * @throws ProtocolFailure if the server refuses; Error for an unusable answer
 */
export async function legacyHandshake(options: LegacyHandshakeOptions): Promise<LegacyHandshake | undefined> {
  const { fastRequests, clientInfo, relay, probeMs } = options
  if (probeMs !== undefined && (await mayBeNewer(options, probeMs))) return undefined
  const result = await fastRequests.request(
    'initialize',
    { protocolVersion: SESSION_REVISIONS[0], capabilities: ownCapabilities(relay), clientInfo },
    { timeoutMs: options.timeoutMs },
  )
  const { protocolVersion, capabilities, serverInfo, instructions } = result
  if (!SESSION_REVISIONS.includes(String(protocolVersion)))
    throw new Error(`it speaks a revision of the protocol that is not supported: ${showValue(protocolVersion)}`)
  const { name, version, description } = asRecord(serverInfo)
  if (!isRecord(capabilities) || typeof name !== 'string' || typeof version !== 'string')
    throw new Error('it sent no valid serverInfo and capabilities')
  fastRequests.send({ jsonrpc: '2.0', method: 'notifications/initialized' })
  return { capabilities, serverInfo: { name, version, description }, instructions }
}

const showValue = (value: unknown): string => toPrintable(String(value)).slice(0, 40)

/** A server of the older era rejects the probe or does not answer. */
async function mayBeNewer({ probe, clientInfo, relay }: LegacyHandshakeOptions, probeMs: number): Promise<boolean> {
  const _meta = createRequestMeta(MODERN_REVISION, clientInfo, relay, () => undefined)()
  const probeRequest = { jsonrpc: '2.0', id: PROBE_ID, method: 'server/discover', params: { _meta } } as Message
  const answer = await waitAtMost(probeMs, probe(probeRequest))
  if (answer === undefined) return false
  return !isRecord(answer.error) || answer.error['code'] === OTHER_REVISION
}
