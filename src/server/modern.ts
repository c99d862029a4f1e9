import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AuthInfo, ServerNotifier } from '@modelcontextprotocol/server'
import type { Message } from '../core/jsonrpc.ts'
import type { Log } from '../core/log.ts'
import { refuse } from './door.ts'
import type { Slots } from './events.ts'
import type { ServerFactory } from './factory.ts'
import { followedBy } from './follow.ts'
import { acknowledging, holdOpen, tasksWanted, type WantedTasks } from './follow-tasks.ts'
import { tooManyStreams } from './session.ts'

export interface ModernOptions {
  readonly factory: ServerFactory
  /** A `subscriptions/listen` names these resources; returns what ends it. */
  readonly follow?: ((principal: string, uris: readonly string[]) => () => void) | undefined
  /** Tells of changes of tasks; returns what ends it. */
  readonly followTasks?:
    | ((principal: string, tasks: WantedTasks, send: (message: object) => void) => () => void)
    | undefined
  readonly slots: Slots
  readonly log: Log
}

/** The 2026 revision: every request stands alone and gets an instance of its own. */
export interface Modern {
  post(req: IncomingMessage, res: ServerResponse, principal: string, message: Message): Promise<void>
  /** Reaches every open `subscriptions/listen` stream that asked for the kind of change. */
  readonly notify: ServerNotifier
  close(): Promise<void>
}

export async function createModern({ factory, follow, followTasks, slots, log }: ModernOptions): Promise<Modern> {
  const { createMcpHandler } = await import('@modelcontextprotocol/server')
  const disposals = new WeakMap<Request, () => void>()
  const handler = createMcpHandler(
    ({ authInfo, requestInfo }) => {
      const served = factory({ era: 'modern', principal: authInfo?.clientId ?? '' })
      if (requestInfo) disposals.set(requestInfo, served.dispose)
      return served.server
    },
    { legacy: 'reject', onerror: (error) => log.debug('a request was refused', { reason: error.message }) },
  )

  /** The first piece of a stream is the acknowledgement: from then on its tasks are followed. */
  function begun(res: ServerResponse, principal: string, tasks: WantedTasks, chunk: Uint8Array): string | Uint8Array {
    const text = Buffer.from(chunk).toString()
    const data = /^data: (.*)$/m.exec(text)?.[1]
    const acknowledgement = data === undefined ? undefined : acknowledging(JSON.parse(data), tasks)
    if (data === undefined || !acknowledgement) return chunk
    const stop = followTasks?.(principal, tasks, (told) => {
      if (!res.writableEnded && !res.destroyed) res.write(`event: message\ndata: ${JSON.stringify(told)}\n\n`)
    })
    if (stop) res.once('close', stop)
    return text.replace(data, () => JSON.stringify(acknowledgement))
  }

  return {
    async post(req, res, principal, message) {
      if (message.method === 'subscriptions/listen') {
        const free = slots.take(principal)
        if (!free) return refuse(res, { ...tooManyStreams, id: message.id ?? null })
        res.once('close', free)
        const stop = follow?.(principal, followedBy(message))
        if (stop) res.once('close', stop)
      }
      // Closing the response is how a client of this revision cancels.
      const gone = new AbortController()
      const request = toRequest(req, gone.signal)
      let over = false
      const dispose = (): void => {
        disposals.get(request)?.()
        disposals.delete(request)
      }
      res.once('close', () => {
        over = true
        if (!res.writableFinished) gone.abort()
        dispose()
      })
      const tasks = tasksWanted(message)
      const authInfo: AuthInfo = { token: '', clientId: principal, scopes: [] }
      const response = await handler.fetch(request, {
        authInfo,
        parsedBody: tasks && followTasks ? holdOpen(message) : message,
      })
      // The instance may have been made for somebody who had left.
      if (over) dispose()
      await write(res, response, gone.signal, tasks && followTasks && ((chunk) => begun(res, principal, tasks, chunk)))
    },
    notify: handler.notify,
    close: () => handler.close(),
  }
}

/**
 * What the SDK reads of a request. A real `Request` would cost as much as the rest of the call, and its body is not
 * needed: the SDK gets it parsed. The token stays with us.
 */
function toRequest(req: IncomingMessage, signal: AbortSignal): Request {
  const headers = new Headers()
  for (const [name, value] of Object.entries(req.headers))
    if (typeof value === 'string' && name !== 'authorization') headers.set(name, value)
  return { method: 'POST', url: 'http://localhost/mcp', headers, signal } as unknown as Request
}

async function write(
  res: ServerResponse,
  response: Response,
  gone: AbortSignal,
  first?: (chunk: Uint8Array) => string | Uint8Array,
): Promise<void> {
  let edit = first
  if (gone.aborted) return void response.body?.cancel()
  res.statusCode = response.status
  for (const [name, value] of response.headers) if (name !== 'connection') res.setHeader(name, value)
  if (response.body === null) return void res.end()
  if (response.headers.get('content-type') !== 'text/event-stream') return void res.end(await response.text())
  res.flushHeaders()
  const reader = response.body.getReader()
  gone.addEventListener('abort', () => void reader.cancel().catch(() => undefined), { once: true })
  for (;;) {
    const { done, value } = await reader.read()
    if (done) break
    const piece = edit?.(value) ?? value
    edit = undefined
    if (!res.write(piece)) await drained(res, gone)
  }
  res.end()
}

const drained = (res: ServerResponse, gone: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (gone.aborted) return resolve()
    const done = (): void => {
      res.off('drain', done)
      gone.removeEventListener('abort', done)
      resolve()
    }
    res.on('drain', done)
    gone.addEventListener('abort', done)
  })
