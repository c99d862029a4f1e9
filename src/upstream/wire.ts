import type { Message } from '../core/jsonrpc.ts'

export interface SendOptions {
  /** Aborting it ends this one request, where each request has a stream of its own. */
  readonly requestSignal?: AbortSignal
  readonly onRequestStreamEnd?: () => void
  readonly headers?: Readonly<Record<string, string>>
}

export interface WireEvents {
  message(message: Message): void
  /** The connection is gone; said once. `reason` is for operators. */
  closed(reason: string): void
  /** A frame over the limit was thrown away; the id of the request it answered, when it could be told. */
  oversize(id: string | undefined, bytes: number): void
  error(error: Error): void
  /** Whether messages come so fast that what comes now is left out. */
  flooded(): boolean
  /** Whether nothing but results of calls is waited for, which are shorter than lists may be. */
  onlyCalls(): boolean
}

/** An open channel to one server: a child's pipes, or HTTP. */
export interface Wire {
  readonly kind: 'stdio' | 'http' | 'sse'
  /** One underlying request a message: cancelling is ending it. */
  readonly streamPerRequest: boolean
  readonly sessionId?: string | undefined
  /** What the last refusal (HTTP 429 or 503) asked us to wait, in milliseconds. */
  readonly retryAfterMs?: number | undefined
  /** Opens the channel. Called once, after `events` are wired. */
  open(events: WireEvents): Promise<void>
  /** Answers nothing where sending cannot fail by itself; failures of the channel come as `closed`. */
  send(message: Message, options?: SendOptions): Promise<void> | undefined
  setProtocolVersion?(version: string): void
  /** Ends it, whatever it takes; settles within `graceMs` and a second. */
  close(graceMs?: number): Promise<void>
  /** The first line it printed that is not MCP, nor of a program that fetches it. */
  noise?(): string | undefined
  /** What the server last wrote where operators look (stderr). */
  tail(): string
}
