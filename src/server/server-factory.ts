import { randomBytes } from 'node:crypto'
import type { McpServer, Server, Transport } from '@modelcontextprotocol/server'
import type { Message } from '../core/jsonrpc.ts'
import type { Identity } from './identity.ts'

/** One SDK server, used by one connection (2025) or one request (2026) and never shared. */
export interface SdkInstance {
  readonly server: McpServer | Server
  /** 2025: what answers most messages of the session without the SDK. */
  readonly session?: SessionHandler
  /** The tools for the empty list that `server` answered. */
  readonly listed?: () => readonly object[] | undefined
  /** Called once, when the connection or the request is over. */
  dispose(): void
}

export interface SessionHandler {
  /** Records what the client said in `initialize`. Called before the SDK sees that message. */
  introduce(opening: Message): void
  /** Takes a message, or returns false to leave it to the SDK. Called once `initialize` is answered. */
  take(message: Message): boolean
}

/** Sends a message to the client, on the stream of the request `related`. @throws Error for a request that no stream can carry */
export type SendMessage = (message: object, related?: string | number) => void

export type NewConnection =
  | { readonly era: 'modern'; readonly identity: Identity }
  | { readonly era: 'legacy'; readonly identity: Identity; readonly sessionId: string; readonly send: SendMessage }

/** Makes a server. Must be cheap: 2026 clients need one for every request. */
export type ServerFactory = (connection: NewConnection) => SdkInstance

/** 192 bits from the system's generator. */
export const newSessionId = (): string => randomBytes(24).toString('base64url')

/** Connects a server to its transport. When either closes, calls `gone` once and disposes of the server. */
export async function connectServer(served: SdkInstance, transport: Transport, onClose: () => void): Promise<void> {
  const end = (): void => {
    onClose()
    served.dispose()
  }
  try {
    await served.server.connect(transport)
  } catch (error) {
    end()
    throw error
  }
  const onclose = transport.onclose
  transport.onclose = () => {
    try {
      onclose?.()
    } finally {
      end()
    }
  }
}
