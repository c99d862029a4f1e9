import type { Message } from '../core/jsonrpc.ts'
import { plain } from '../core/plain.ts'
import { isRecord } from '../core/record.ts'
import { SESSION_REVISIONS } from '../core/revisions.ts'
import { createEnvelope, ownCapabilities } from './envelope.ts'
import type { Lane } from './lane.ts'
import type { Ask } from './settings.ts'

type Json = Readonly<Record<string, unknown>>

/** What a server of the 2025 era said when it was greeted. */
export interface Greeting {
  readonly capabilities: Json
  readonly server: { readonly name: string; readonly version: string }
}

export interface GreetOptions {
  readonly lane: Lane
  readonly clientInfo: Json
  /** Of what we pass on to clients. */
  readonly relay: readonly Ask[]
  readonly timeoutMs: number
  /** How long it may be silent about the newer era; absent: it is known to be of the older one. */
  readonly probeMs: number | undefined
  /** Sends the probe. Resolves with its answer, rejects when the connection ends before. */
  probe(message: Message): Promise<Message>
}

const NEWER = '2026-07-28'
/** "I do not speak the revision you ask for": it may speak another of the newer era. */
const OTHER_REVISION = -32022
/** Unlike any id of the SDK, which may ask again on the same pipe. */
const PROBE_ID = 'server-discover-probe-0'

/**
 * Opens a connection by hand, as far as a server of the 2025 era goes: nearly all are, and the SDK takes longer to load than
 * they to answer.
 * @returns undefined where the server may be of the newer era; the SDK finds out which then
 * @throws ProtocolFailure when it refuses; Error for an answer that nobody can use
 */
export async function greet(options: GreetOptions): Promise<Greeting | undefined> {
  const { lane, clientInfo, relay, probeMs } = options
  if (probeMs !== undefined && (await mayBeNewer(options, probeMs))) return undefined
  const result = await lane.request(
    'initialize',
    { protocolVersion: SESSION_REVISIONS[0], capabilities: ownCapabilities(relay), clientInfo },
    { timeoutMs: options.timeoutMs },
  )
  const { protocolVersion, capabilities, serverInfo } = result
  if (!SESSION_REVISIONS.includes(String(protocolVersion)))
    throw new Error(`it speaks a revision of the protocol that is not supported: ${shown(protocolVersion)}`)
  const { name, version } = isRecord(serverInfo) ? serverInfo : {}
  if (!isRecord(capabilities) || typeof name !== 'string' || typeof version !== 'string')
    throw new Error('it does not say what it is')
  lane.send({ jsonrpc: '2.0', method: 'notifications/initialized' })
  return { capabilities, server: { name, version } }
}

const shown = (value: unknown): string => plain(String(value)).slice(0, 40)

/** A server of the older era refuses the question, or does not answer. */
async function mayBeNewer({ probe, clientInfo, relay }: GreetOptions, probeMs: number): Promise<boolean> {
  const _meta = createEnvelope(NEWER, clientInfo, relay, () => undefined).meta(undefined)
  const asked = { jsonrpc: '2.0', id: PROBE_ID, method: 'server/discover', params: { _meta } } as Message
  let timer: NodeJS.Timeout | undefined
  const silence = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), probeMs)
  })
  try {
    const answer = await Promise.race([probe(asked), silence])
    if (answer === undefined) return false
    return !isRecord(answer.error) || answer.error['code'] === OTHER_REVISION
  } finally {
    clearTimeout(timer)
  }
}
