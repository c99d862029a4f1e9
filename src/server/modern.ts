import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AuthInfo, McpHttpHandler, ServerNotifier } from '@modelcontextprotocol/server'
import type { Message } from '../core/jsonrpc.ts'
import type { Log } from '../core/log.ts'
import { type Entrant, partyOf } from './caller.ts'
import { refuse } from './door.ts'
import type { Slots } from './events.ts'
import type { Served, ServerFactory } from './factory.ts'
import { type Following, followedBy, withFollowed } from './follow.ts'
import { acknowledging, holdOpen, tasksWanted, type WantedTasks } from './follow-tasks.ts'
import { tooManyStreams } from './session.ts'
import { writeAnswer } from './streamable.ts'

export interface ModernOptions {
  readonly factory: ServerFactory
  /** Who a request comes from by what it says of itself; default by the way it came. */
  readonly enter?: ((entrant: Entrant, meta: unknown) => Entrant) | undefined
  /** A `subscriptions/listen` names these resources. */
  readonly follow?: ((entrant: Entrant, meta: unknown, uris: readonly string[]) => Following) | undefined
  /** Tells of changes of tasks; returns what ends it. */
  readonly followTasks?:
    | ((entrant: Entrant, meta: unknown, tasks: WantedTasks, send: (message: object) => void) => () => void)
    | undefined
  /** The first of a party listens; returns what ends it, called when its last is gone. */
  readonly listening?: ((entrant: Entrant, notify: ServerNotifier) => () => void) | undefined
  readonly slots: Slots
  readonly log: Log
}

/** The 2026 revision: every request stands alone and gets an instance of its own. */
export interface Modern {
  post(req: IncomingMessage, res: ServerResponse, entrant: Entrant, message: Message): Promise<void>
  close(): Promise<void>
}

/** Those who came under one name into one profile: what is told to one of them is told to none of the others. */
interface Party {
  readonly handler: McpHttpHandler
  readonly entrant: Entrant
  open: number
  stop: () => void
}

/** More than there are tokens and profiles, or somebody counts them up. */
const MAX_PARTIES = 1_000

export async function createModern(options: ModernOptions): Promise<Modern> {
  const { factory, follow, followTasks, slots, log } = options
  const { createMcpHandler } = await import('@modelcontextprotocol/server')
  const instances = new WeakMap<Request, Served>()
  const parties = new Map<string, Party>()

  function partyFor(entrant: Entrant): Party {
    const key = partyOf(entrant)
    const known = parties.get(key)
    if (known) return known
    const handler = createMcpHandler(
      ({ requestInfo }) => {
        const served = factory({ era: 'modern', entrant })
        if (requestInfo) instances.set(requestInfo, served)
        return served.server
      },
      { legacy: 'reject', onerror: (error) => log.debug('a request was refused', { reason: error.message }) },
    )
    const party: Party = { handler, entrant, open: 0, stop: () => undefined }
    const idle = [...parties].find(([, { open }]) => open === 0)
    if (parties.size >= MAX_PARTIES && idle) parties.delete(idle[0])
    parties.set(key, party)
    return party
  }

  function listens(party: Party, res: ServerResponse): void {
    if (party.open++ === 0) party.stop = options.listening?.(party.entrant, party.handler.notify) ?? party.stop
    res.once('close', () => {
      if (--party.open === 0) party.stop()
    })
  }

  /** The first piece of a stream is the acknowledgement: from then on its tasks are followed. */
  function begun(
    res: ServerResponse,
    entrant: Entrant,
    meta: unknown,
    tasks: WantedTasks,
    chunk: Uint8Array,
  ): string | Uint8Array {
    const text = Buffer.from(chunk).toString()
    const data = /^data: (.*)$/m.exec(text)?.[1]
    const acknowledgement = data === undefined ? undefined : acknowledging(JSON.parse(data), tasks)
    if (data === undefined || !acknowledgement) return chunk
    const stop = followTasks?.(entrant, meta, tasks, (told) => {
      if (!res.writableEnded && !res.destroyed) res.write(`event: message\ndata: ${JSON.stringify(told)}\n\n`)
    })
    if (stop) res.once('close', stop)
    return text.replace(data, () => JSON.stringify(acknowledgement))
  }

  return {
    async post(req, res, came, wanted) {
      let message = wanted
      const meta = message.params?.['_meta']
      const entrant = options.enter?.(came, meta) ?? came
      const party = partyFor(entrant)
      if (message.method === 'subscriptions/listen') {
        const free = slots.take(entrant.principal)
        if (!free) return refuse(res, { ...tooManyStreams, id: message.id ?? null })
        res.once('close', free)
        listens(party, res)
        const following = follow?.(entrant, meta, followedBy(message))
        if (following) {
          res.once('close', following.stop)
          // It is acknowledged as soon as it is handed on, and with what it names then.
          message = withFollowed(message, await following.begun)
          if (res.destroyed) return
        }
      }
      // Closing the response is how a client of this revision cancels.
      const gone = new AbortController()
      const request = toRequest(req, gone.signal)
      let over = false
      const dispose = (): void => {
        instances.get(request)?.dispose()
        instances.delete(request)
      }
      res.once('close', () => {
        over = true
        if (!res.writableFinished) gone.abort()
        dispose()
      })
      const tasks = tasksWanted(message)
      const authInfo: AuthInfo = { token: '', clientId: entrant.principal, scopes: [] }
      const response = await party.handler.fetch(request, {
        authInfo,
        parsedBody: tasks && followTasks ? holdOpen(message) : message,
      })
      const list = instances.get(request)?.listed?.()
      // The instance may have been made for somebody who had left.
      if (over) dispose()
      if (list && !gone.signal.aborted) return await writeList(res, response, list)
      const first = (chunk: Uint8Array): string | Uint8Array =>
        tasks ? begun(res, entrant, meta, tasks, chunk) : chunk
      await write(res, response, gone.signal, tasks && followTasks && first)
    },
    async close() {
      await Promise.all([...parties.values()].map(({ handler }) => handler.close()))
    },
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

/** An answer to `tools/list` whose empty list stands for this one. */
async function writeList(res: ServerResponse, response: Response, list: readonly object[]): Promise<void> {
  head(res, response)
  const message = JSON.parse(await response.text()) as { readonly result: object }
  writeAnswer(res, { ...message, result: { ...message.result, tools: list } })
}

function head(res: ServerResponse, response: Response): void {
  res.statusCode = response.status
  for (const [name, value] of response.headers) if (name !== 'connection') res.setHeader(name, value)
}

async function write(
  res: ServerResponse,
  response: Response,
  gone: AbortSignal,
  first?: (chunk: Uint8Array) => string | Uint8Array,
): Promise<void> {
  let edit = first
  if (gone.aborted) return void response.body?.cancel()
  head(res, response)
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
