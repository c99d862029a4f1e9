import type { Server } from '@modelcontextprotocol/server'
import { MODERN_REVISION } from '../../core/protocol-revisions.ts'
import { modernCapabilities } from '../capabilities.ts'
import { instructionsFor } from '../instructions.ts'
import { type PassThrough, passThrough } from '../pass-through.ts'
import type { ServerHost } from '../server-host.ts'
import { relayTasks } from './relay-tasks.ts'

/**
 * Serves what 2026 clients send besides calls and lists of tools: resources, prompts, discovery and tasks.
 * @returns what to call when the request or the connection ends
 */
export function serveModern(server: Server, host: ServerHost, passing: PassThrough): () => void {
  passThrough(server, host, passing)
  relayTasks(server, host, passing)
  const connect = server.connect.bind(server)
  // The SDK has one text of instructions for all clients. It sets its handler just before it connects.
  server.connect = (transport) => {
    server.setRequestHandler('server/discover', (_request, ctx) => ({
      supportedVersions: [MODERN_REVISION],
      capabilities: modernCapabilities,
      instructions: instructionsFor(host, passing.caller(ctx)),
    }))
    return connect(transport)
  }
  return () => undefined
}
