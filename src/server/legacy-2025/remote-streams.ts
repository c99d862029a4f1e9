import type { ServerResponse } from 'node:http'
import { noRelay } from '../../core/tool.ts'
import type { EventStream } from '../event-stream.ts'
import type { Pieces } from '../json-pieces.ts'
import type { ProcessRpc } from '../process-rpc.ts'
import type { SessionStreams } from './event-log.ts'

const TOPIC = 'stream'

export interface ResumeRequest {
  readonly session: string
  readonly key: string
  readonly lastEventId: string
}

/**
 * Continues a stream of another process: a client whose connection broke may reach any of them.
 * @param begin opens the stream to the client
 * @returns whether any process knows the stream; `over` if nothing is left to send
 */
export async function resumeRemoteStream(
  processes: ProcessRpc,
  resumed: ResumeRequest,
  res: ServerResponse,
  begin: () => EventStream,
): Promise<boolean | 'over'> {
  const gone = new AbortController()
  res.once('close', () => gone.abort())
  let events: EventStream | undefined
  const notify = (_method: string, params: unknown): void => {
    const { id, data } = params as { readonly id?: string; readonly data?: string }
    events ??= begin()
    if (id !== undefined && data !== undefined) events.put([data], id, false)
  }
  try {
    const answer = await processes.ask(TOPIC, { ...resumed }, { relay: { ...noRelay, notify }, signal: gone.signal })
    if (answer && !events) return 'over'
    return answer !== undefined
  } catch {
    // The client has disconnected, or the other process has stopped.
    return events !== undefined
  } finally {
    events?.end()
  }
}

// A character may span two pieces.
const textOf = (data: Pieces): string => Buffer.concat(data.map((piece) => Buffer.from(piece as string))).toString()

/** Serves the streams of this process to others. @param find the streams of a session, for its identity key */
export function serveRemoteStreams(
  processes: ProcessRpc,
  find: (session: string, key: string) => SessionStreams | undefined,
): void {
  processes.answer(TOPIC, (resumed, { relay, signal }) => {
    const { session, key, lastEventId } = resumed as unknown as ResumeRequest
    const from = find(session, key)?.find(lastEventId)
    if (from === undefined) return undefined
    if (from === 'over') return Promise.resolve({})
    const { stream, after } = from
    return new Promise((resolve) => {
      const events: EventStream = {
        send: () => undefined,
        put: (data, id) => relay.notify?.(TOPIC, { id, data: textOf(data) }),
        prime: () => undefined,
        event: () => undefined,
        comment: () => undefined,
        end: () => resolve({}),
        drop: () => resolve({}),
        closed: false,
      }
      relay.notify?.(TOPIC, {})
      stream.attach(events, after)
      signal?.addEventListener('abort', () => {
        stream.detach(events)
        resolve({})
      })
    })
  })
}
