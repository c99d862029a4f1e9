import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AuthInfo, McpHttpHandler, ServerNotifier } from '@modelcontextprotocol/server'
import { asRecord } from '../../core/is-record.ts'
import type { Message } from '../../core/jsonrpc.ts'
import type { Log } from '../../core/log.ts'
import { CLIENT_INFO } from '../../core/protocol-meta.ts'
import type { StreamSlots } from '../event-stream.ts'
import { type Identity, identityKey, labelOf } from '../identity.ts'
import { writeMessage } from '../json-pieces.ts'
import type { SdkInstance, ServerFactory } from '../server-factory.ts'
import { type ResourceSubscriptions, subscribedUris, withSubscribedUris } from './resource-subscriptions.ts'
import { addPlaceholderResource, addTasksToAck, type WantedTasks, wantedTasks } from './task-subscriptions.ts'

export interface ModernHooks {
  /** The identity of a request by its token, its path and its `_meta`. */
  enter(identity: Identity, meta: unknown): Identity
  /** Subscribes to the resources that a `subscriptions/listen` names. */
  follow(identity: Identity, meta: unknown, uris: readonly string[]): ResourceSubscriptions
  /** Sends changes of tasks. Returns a function that stops this. */
  followTasks(identity: Identity, meta: unknown, tasks: WantedTasks, send: (message: object) => void): () => void
  /** Called when the first client of a group listens; the result is called when the last one stops. */
  listening(identity: Identity, meta: unknown, notify: ServerNotifier): () => void
}

export interface ModernOptions extends ModernHooks {
  readonly factory: ServerFactory
  readonly slots: StreamSlots
  readonly log: Log
  /** Called for the first request of each client name and principal, because 2026 has no sessions. */
  onOpen(client: string, principal: string): void
}

/** Serves revision 2026-07-28, where every request is independent and gets a server of its own. */
export interface ModernHttp {
  post(req: IncomingMessage, res: ServerResponse, identity: Identity, message: Message): Promise<void>
  close(): Promise<void>
}

/** Clients with the same identity and name, which see the same. They share notifications, which no other group gets. */
interface ClientGroup {
  readonly handler: McpHttpHandler
  readonly identity: Identity
  open: number
  stop: () => void
}

/** Limit for remembered client names, which clients choose. */
const MAX_CLIENTS = 1_000

/** Limit for groups: requests can name any number of profiles. */
const MAX_GROUPS = 1_000

export async function createModernHttp(options: ModernOptions): Promise<ModernHttp> {
  const { factory, follow, followTasks, slots, log } = options
  const { createMcpHandler } = await import('@modelcontextprotocol/server')
  const instances = new WeakMap<Request, SdkInstance>()
  const groups = new Map<string, ClientGroup>()
  const clients = new Set<string>()

  function recordClient(principal: string, client: string): void {
    const key = JSON.stringify([principal, client])
    if (clients.has(key)) return
    if (clients.size >= MAX_CLIENTS) clients.delete(clients.values().next().value as string)
    clients.add(key)
    options.onOpen(client, principal)
  }

  function groupFor(identity: Identity, client: string): ClientGroup {
    const key = JSON.stringify([identityKey(identity), client])
    const existing = groups.get(key)
    if (existing) return existing
    const handler = createMcpHandler(
      ({ requestInfo }) => {
        const served = factory({ era: 'modern', identity })
        if (requestInfo) instances.set(requestInfo, served)
        return served.server
      },
      { legacy: 'reject', onerror: (error) => log.debug('a request was refused', { reason: error.message }) },
    )
    const group: ClientGroup = { handler, identity, open: 0, stop: () => undefined }
    const idle = [...groups].find(([, { open }]) => open === 0)
    if (groups.size >= MAX_GROUPS && idle) groups.delete(idle[0])
    groups.set(key, group)
    return group
  }

  function countListener(group: ClientGroup, meta: unknown, res: ServerResponse): void {
    if (group.open++ === 0) group.stop = options.listening(group.identity, meta, group.handler.notify)
    res.once('close', () => {
      if (--group.open === 0) group.stop()
    })
  }

  return {
    async post(req, res, tokenIdentity, incoming) {
      let message = incoming
      const meta = message.params?.['_meta']
      const identity = options.enter(tokenIdentity, meta)
      const client = labelOf(asRecord(meta)[CLIENT_INFO])
      const group = groupFor(identity, client)
      if (message.method === 'subscriptions/listen') {
        res.once('close', slots.take(identity.principal, message.id))
        countListener(group, meta, res)
        const { acceptedUris, stop } = follow(identity, meta, subscribedUris(message))
        res.once('close', stop)
        // The SDK acknowledges at once what the message names, so it names what servers accepted.
        message = withSubscribedUris(message, await acceptedUris)
        if (res.destroyed) return
      }
      // 2026 clients cancel a request by closing the response.
      const closed = new AbortController()
      const request = toRequest(req, closed.signal)
      let isClosed = false
      const dispose = (): void => {
        instances.get(request)?.dispose()
        instances.delete(request)
      }
      res.once('close', () => {
        isClosed = true
        if (!res.writableFinished) closed.abort()
        dispose()
      })
      const tasks = wantedTasks(message)
      const authInfo: AuthInfo = { token: '', clientId: identity.principal, scopes: [] }
      const response = await group.handler.fetch(request, {
        authInfo,
        parsedBody: tasks ? addPlaceholderResource(message) : message,
      })
      if (response.ok) recordClient(identity.principal, client)
      const list = instances.get(request)?.listed?.()
      // The client may have disconnected before the server was created.
      if (isClosed) dispose()
      if (list && !closed.signal.aborted) return await writeList(res, response, list)
      if (!tasks) return await write(res, response, closed.signal)
      await write(res, response, closed.signal, (chunk) =>
        acknowledgeTasks(chunk, tasks, () => {
          const send = (message: object): void => {
            if (!res.writableEnded && !res.destroyed) res.write(`event: message\ndata: ${JSON.stringify(message)}\n\n`)
          }
          res.once('close', followTasks(identity, meta, tasks, send))
        }),
      )
    },
    async close() {
      await Promise.all([...groups.values()].map(({ handler }) => handler.close()))
    },
  }
}

/** The first chunk of a stream, which is the acknowledgement, with the tasks. @param begin called if it is */
function acknowledgeTasks(chunk: Uint8Array, tasks: WantedTasks, begin: () => void): string | Uint8Array {
  const text = Buffer.from(chunk).toString()
  const data = /^data: (.*)$/m.exec(text)?.[1]
  const acknowledgement = data === undefined ? undefined : addTasksToAck(JSON.parse(data), tasks)
  if (data === undefined || !acknowledgement) return chunk
  begin()
  return text.replace(data, () => JSON.stringify(acknowledgement))
}

/**
 * The parts of a `Request` that the SDK reads. A real one would cost as much as the rest of the call, and the SDK gets the
 * body parsed. The token is left out.
 */
function toRequest(req: IncomingMessage, signal: AbortSignal): Request {
  const headers = new Headers()
  for (const [name, value] of Object.entries(req.headers))
    if (typeof value === 'string' && name !== 'authorization') headers.set(name, value)
  return { method: 'POST', url: 'http://localhost/mcp', headers, signal } as unknown as Request
}

/** Writes the answer to `tools/list` with this list in place of its empty one. */
async function writeList(res: ServerResponse, response: Response, list: readonly object[]): Promise<void> {
  writeHead(res, response)
  const message = JSON.parse(await response.text()) as { readonly result: object }
  writeMessage(res, { ...message, result: { ...message.result, tools: list } })
}

function writeHead(res: ServerResponse, response: Response): void {
  res.statusCode = response.status
  for (const [name, value] of response.headers) if (name !== 'connection') res.setHeader(name, value)
}

async function write(
  res: ServerResponse,
  response: Response,
  closed: AbortSignal,
  first?: (chunk: Uint8Array) => string | Uint8Array,
): Promise<void> {
  let edit = first
  if (closed.aborted) return void response.body?.cancel()
  writeHead(res, response)
  if (response.body === null) return void res.end()
  if (response.headers.get('content-type') !== 'text/event-stream') return void res.end(await response.text())
  res.flushHeaders()
  const reader = response.body.getReader()
  closed.addEventListener('abort', () => void reader.cancel().catch(() => undefined), { once: true })
  for (;;) {
    const { done, value } = await reader.read()
    if (done) break
    const piece = edit?.(value) ?? value
    edit = undefined
    if (!res.write(piece)) await waitForDrain(res, closed)
  }
  res.end()
}

const waitForDrain = (res: ServerResponse, closed: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (closed.aborted) return resolve()
    const done = (): void => {
      res.off('drain', done)
      closed.removeEventListener('abort', done)
      resolve()
    }
    res.on('drain', done)
    closed.addEventListener('abort', done)
  })
