import type { Message } from '../core/jsonrpc.ts'

export interface SendOptions {
  /** Aborts this one request, if each request has its own stream. */
  readonly requestSignal?: AbortSignal
  readonly onRequestStreamEnd?: () => void
  readonly headers?: Readonly<Record<string, string>>
}

export interface UpstreamTransportEvents {
  /** @param on id of the request whose stream it arrived on, if each request has its own */
  message(message: Message, on?: string): void
  /** The connection is lost; called once. `reason` is for operators. */
  closed(reason: string): void
  /** An oversized message was discarded: the id of the request it answered, if known, and which limit it exceeded. */
  oversize(id: string | undefined, bytes: number, why?: string): void
  error(error: Error): void
  /** True if messages arrive so fast that they are being dropped. */
  flooded(): boolean
  /** What is expected: results of calls are shorter than lists, and unsolicited messages shorter still. */
  awaited(): 'nothing' | 'calls' | 'lists'
}

/** An open channel to one server: a child's pipes, or HTTP. */
export interface UpstreamTransport {
  /** With `http`, each message is its own HTTP request; cancelling closes it. */
  readonly kind: 'stdio' | 'http' | 'sse'
  readonly sessionId?: string | undefined
  /** Delay that the last 429 or 503 response asked for, in milliseconds. */
  readonly retryAfterMs?: number | undefined
  /** Opens the channel. Called once. */
  open(events: UpstreamTransportEvents): Promise<void>
  /** Returns nothing if sending cannot fail by itself; failures of the channel arrive as `closed`. */
  send(message: Message, options?: SendOptions): Promise<void> | undefined
  setProtocolVersion?(version: string): void
  /** Closes the channel by any means, within `graceMs` plus one second. */
  close(graceMs?: number): Promise<void>
  /** The first line it printed that is neither MCP nor output of an installer. */
  noise?(): string | undefined
  stderrTail(): string
}

/** Records what servers answer, or answers in their place. */
export interface RecordAndReplay {
  /** @returns the transport with which to use this one */
  readonly record?: (serverId: string, transport: UpstreamTransport) => UpstreamTransport
  /** Opens a recording instead of the server. @throws PegboardError E_RECORDING, E_NOT_RECORDED */
  readonly replay?: (serverId: string) => UpstreamTransport
}
