import { randomUUID } from 'node:crypto'
import type { Readable } from 'node:stream'
import type { Transport } from '@modelcontextprotocol/server'
import type { StdioServerHandle } from '@modelcontextprotocol/server/stdio'
import type { Clock } from '../core/clock.ts'
import { createDeferred } from '../core/deferred.ts'
import { isRecord } from '../core/is-record.ts'
import type { Message } from '../core/jsonrpc.ts'
import { hasBatches, revisionFor } from '../core/protocol-revisions.ts'
import { CUT_OFF_BYTES, HOLD_BYTES, isDroppable, MAX_UNREAD_BYTES } from './backpressure.ts'
import { notifyClient } from './client-notifications.ts'
import { type Identity, localIdentity } from './identity.ts'
import { type Pieces, piecesOf } from './json-pieces.ts'
import { claimsRevision, isBatch, parseBatch, parseMessage } from './jsonrpc-message.ts'
import { type ClientQuestions, createClientQuestions } from './legacy-2025/client-questions.ts'
import { createFastPath } from './legacy-2025/fast-path.ts'
import { createBatches } from './legacy-2025/jsonrpc-batch.ts'
import { createListNotifier } from './list-notifier.ts'
import type { McpInstance } from './mcp-instance.ts'
import { createStdioSubscriptions, type StdioSubscriptionsOptions } from './modern-2026/stdio-subscriptions.ts'
import { createRequestBuilder, type RequestBuilder } from './request-builder.ts'
import { createRequestClaims } from './request-claims.ts'
import { createRequestIds, IN_FLIGHT } from './request-ids.ts'
import type { ServerHost } from './server-host.ts'
import { createFraming } from './stdio-framing.ts'

/** How long requests wait for the roots of the client. */
const ROOTS_MS = 5_000
const MAX_LINE_BYTES = 4 * 1024 * 1024
/** Text is flushed at this length, in characters: one string of many answers would be copied twice. */
const MAX_TEXT = 64 * 1024
/** Messages taken in one turn of the event loop. One chunk of input can hold 600 calls with answers of 50 KB each. */
const MAX_AT_ONCE = 32

/** Output for lines. Any writable stream fits. */
export interface LineOutput {
  write(data: string | Buffer): boolean
  /** Buffers writes until `uncork`. */
  cork(): void
  uncork(): void
  once(event: 'error' | 'drain', listener: () => void): unknown
  /** Bytes that the client has not read. */
  readonly writableLength: number
}

export interface StdioOptions {
  readonly host: ServerHost
  readonly clock: Clock
  readonly input: Readable
  readonly output: LineOutput
  /** Profile of the client; default `default`. */
  readonly profile?: string
  /** The profile for the roots of a 2025 client, as URIs; undefined: `profile`. Asked once, before the first request. */
  readonly profileForRoots?: ((uris: readonly string[]) => string | undefined) | undefined
  /** Called once, after the first list was sent: work that no client waits for can start. */
  readonly onListed?: () => void
}

export interface StdioConnection {
  /** Resolves when the client has disconnected or `close` was called. */
  readonly closed: Promise<void>
  close(): void
}

/** Serves one client of either protocol era on a pair of streams. Writes protocol messages only, one a line. */
export function serveOnStdio(options: StdioOptions): StdioConnection {
  const { host, output } = options
  const session = randomUUID()
  const identity: Identity & { profile: string } = { ...localIdentity(options.profile) }
  const claims = createRequestClaims(host, identity)
  const closed = createDeferred<void>()

  // Answers that are ready in one turn of the event loop leave in one write.
  let pending: (string | Buffer)[] = []
  let text = ''
  let dropped = 0
  const inFlight = createRequestIds()
  const send = (message: object): void => {
    inFlight.removeAnswered(message)
    if (!batches.takeAnswer(message)) write(message)
  }
  const write = (message: object): void => {
    if (isDroppable(message) && output.writableLength + text.length >= MAX_UNREAD_BYTES) dropped++
    else writeLine(piecesOf(message))
  }
  const writeLine = (pieces: Pieces): void => {
    if (pending.length === 0 && text === '') process.nextTick(flush)
    for (const piece of pieces) {
      if (typeof piece === 'string') text += piece
      else {
        pending.push(text, piece)
        text = ''
      }
    }
    text += '\n'
    if (text.length >= MAX_TEXT) flush()
  }
  const batches = createBatches((answers) =>
    writeLine(['[', ...answers.flatMap((answer, at) => [...(at > 0 ? [','] : []), ...piecesOf(answer)]), ']']),
  )
  const flush = (): void => {
    if (pending.length === 0 && text === '') return
    const cutOff = output.writableLength > CUT_OFF_BYTES
    const many = pending.length > 0
    if (many) output.cork()
    for (const piece of pending) output.write(piece)
    const accepted = output.write(text)
    if (many) output.uncork()
    pending = []
    text = ''
    if (cutOff && !isClosed) {
      const unread = output.writableLength
      host.log.warn('the client does not read its messages: the connection is closed', { unread })
      close()
      return
    }
    if (accepted || isFull) return
    isFull = true
    output.once('drain', () => {
      isFull = false
      if (dropped > 0) host.log.warn('the client did not read: log messages and progress were dropped', { dropped })
      dropped = 0
      if (isPaused) takeLines()
    })
  }

  // A client that does not read its answers must not fill the memory with more of them.
  let isFull = false
  let isPaused = false
  const lines: (() => void)[] = []
  const pause = (): void => {
    isPaused = true
    options.input.pause()
  }
  const takeLines = (): void => {
    for (let accepted = 0; lines.length > 0 && !isClosed; accepted++) {
      const isBehind = isFull && (output.writableLength >= HOLD_BYTES || inFlight.size >= MAX_AT_ONCE)
      if (isBehind || accepted === MAX_AT_ONCE) {
        pause()
        if (!isBehind) setImmediate(takeLines)
        return
      }
      try {
        lines.shift()?.()
      } catch (error) {
        setImmediate(takeLines)
        throw error
      }
    }
    if (isPaused) options.input.resume()
    isPaused = false
  }

  let sdk: Promise<Sdk> | undefined
  let listed = false
  const requests = createRequestBuilder(host, { era: 'legacy', identity, session }, claims)
  const questions = createClientQuestions(options.clock, send)
  const fastPath = createFastPath({
    requests,
    questions,
    initializes: true,
    send,
    handOver: (message, result) => {
      loadSdk().then(({ deliver, instance }) => {
        if (message.id !== undefined) instance()?.keepFirstResult(message.id, result)
        deliver(message)
      }, fail)
    },
    onListed: () => {
      if (!listed) options.onListed?.()
      listed = true
    },
  })

  const notifier = createListNotifier(host, options.clock)
  let stopNotifying: (() => void) | undefined

  // The SDK server, created for the first message that needs it. It gets `initialize` again, and that answer is dropped.
  function loadSdk(): Promise<Sdk> {
    sdk ??= startSdk({
      host,
      identity,
      claims,
      requests,
      questions,
      opening: fastPath.opening(),
      send: (message) => subscriptions.send(message),
      onModern(modern, notify) {
        stopNotifying = notifyClient(host, notifier, modern, notify)
      },
    }).then((started) => {
      handle = started.handle
      return started
    })
    return sdk
  }
  let handle: StdioServerHandle | undefined

  const fail = (error: unknown): void => {
    host.log.error('the connection failed', { error })
    close()
  }

  const giveToSdk = (message: Message): void => void loadSdk().then(({ deliver }) => deliver(message), fail)
  const subscriptions = createStdioSubscriptions({
    host,
    clock: options.clock,
    identity,
    claims,
    send,
    toSdk: giveToSdk,
  })
  let isIntroduced = false
  /** Messages that wait for the roots. */
  let waitingMessages: Message[] | undefined
  const askForRoots = async (profileFor: NonNullable<StdioOptions['profileForRoots']>): Promise<void> => {
    waitingMessages = []
    const late = new AbortController()
    const stopTimer = options.clock.after(ROOTS_MS, () => late.abort())
    const answer = await questions
      .ask('')('roots/list', undefined, late.signal)
      .catch(() => undefined)
    stopTimer()
    const profile = profileFor(urisOf(answer))
    if (profile !== undefined) {
      identity.profile = profile
      requests.introduce(fastPath.opening()?.[0]?.params)
    }
    const waiting = waitingMessages
    waitingMessages = undefined
    for (const message of waiting) receive(message)
  }

  const receive = (message: Message): void => {
    if (waitingMessages && message.method !== undefined) {
      waitingMessages.push(message)
      return
    }
    if (message.method === 'notifications/cancelled') batches.cancel(message.params?.['requestId'])
    if (!isIntroduced && message.method === 'initialize' && !claimsRevision(message.params)) {
      isIntroduced = true
      requests.introduce(message.params)
      // A 2026 probe may have come before.
      stopNotifying?.()
      stopNotifying = notifyClient(host, notifier, requests, (method, params) =>
        send({ jsonrpc: '2.0', method, params }),
      )
    }
    if (fastPath.take(message)) {
      const { profileForRoots } = options
      const isInitialized = message.method === 'notifications/initialized'
      if (isInitialized && profileForRoots && requests.callerFor().supports.roots)
        askForRoots(profileForRoots).catch(fail)
      return
    }
    const isModern = !fastPath.opening()
    if (isModern && message.method === 'notifications/cancelled') subscriptions.cancel(message.params?.['requestId'])
    if (isModern && message.method === 'subscriptions/listen') subscriptions.listen(message)
    else giveToSdk(message)
  }

  const createError = (id: unknown, code: number, message: string) => {
    host.log.warn('a message was refused', { reason: message })
    return { jsonrpc: '2.0', id, error: { code, message } }
  }

  const takesBatches = (): boolean => {
    const opening = fastPath.opening()?.[0]
    return opening !== undefined && hasBatches(revisionFor(opening.params?.['protocolVersion']))
  }
  function receiveBatch(text: string): void {
    const messages = parseBatch(text)
    if ('ok' in messages) {
      write(createError(messages.id, messages.code, messages.message))
      return
    }
    const entered = messages.filter((message) => inFlight.tryAdd(message))
    const repeated = messages.filter((message) => !entered.includes(message))
    batches.open(
      entered.filter(({ id, method }) => id !== undefined && method !== undefined).map(({ id }) => id),
      repeated.map(({ id }) => createError(id, -32600, IN_FLIGHT)),
    )
    for (const message of entered) receive(message)
  }

  const take = (line: string): void => {
    if (isBatch(line) && takesBatches()) {
      receiveBatch(line)
      return
    }
    const read = parseMessage(line)
    if (!read.ok) write(createError(read.id, read.code, read.message))
    else if (inFlight.tryAdd(read.message)) receive(read.message)
    else write(createError(read.message.id, -32600, IN_FLIGHT))
  }
  const refuse = (id: string | number | null, code: number, message: string): void =>
    void lines.push(() => send({ jsonrpc: '2.0', id, error: { code, message } }))
  const split = createFraming(MAX_LINE_BYTES, {
    line: (text) => void lines.push(() => take(text)),
    tooLong: (id) => refuse(id, -32600, `Invalid request: message exceeds ${MAX_LINE_BYTES} bytes`),
    malformed: () => refuse(null, -32700, 'Parse error: the line is not UTF-8'),
  })
  const feed = (chunk: Buffer): void => {
    split(chunk)
    if (!isPaused) takeLines()
  }

  let isClosed = false
  const close = (): void => {
    if (isClosed) return
    isClosed = true
    options.input.off('data', feed)
    stopNotifying?.()
    subscriptions.close()
    notifier.close()
    fastPath.close()
    flush()
    // The client has disconnected, so the error is dropped.
    void handle?.close().catch(() => undefined)
    closed.resolve()
  }
  options.input.on('data', feed)
  options.input.once('end', close)
  options.input.once('close', close)
  options.input.once('error', close)
  output.once('error', close)

  return { closed: closed.promise, close }
}

function urisOf(answer: unknown): readonly string[] {
  const roots = isRecord(answer) && Array.isArray(answer['roots']) ? answer['roots'] : []
  return roots.flatMap((root) => (isRecord(root) && typeof root['uri'] === 'string' ? [root['uri']] : []))
}

interface Sdk {
  readonly handle: StdioServerHandle
  deliver(message: Message): void
  instance(): McpInstance | undefined
}

interface SdkOptions extends Omit<StdioSubscriptionsOptions, 'clock' | 'toSdk'> {
  readonly requests: RequestBuilder
  readonly questions: ClientQuestions
  readonly opening: readonly Message[] | undefined
  /** Called when the client turns out to be one of 2026. */
  readonly onModern: (requests: RequestBuilder, notify: Parameters<typeof notifyClient>[3]) => void
}

async function startSdk(options: SdkOptions): Promise<Sdk> {
  const { host, identity, claims, opening, send } = options
  const [{ serveStdio }, { createMcpInstance }] = await Promise.all([
    import('@modelcontextprotocol/server/stdio'),
    import('./mcp-instance.ts'),
  ])
  let instance: McpInstance | undefined
  const replayed = opening?.[0]?.id
  const opened = createDeferred<void>()
  let isOpen = replayed === undefined
  const transport: Transport = {
    start: async () => undefined,
    close: async () => transport.onclose?.(),
    async send(message) {
      if (isOpen || (message as Message).id !== replayed || 'method' in message) return send(message)
      isOpen = true
      opened.resolve()
    },
  }
  const handle = serveStdio(
    ({ era }) => {
      instance?.dispose()
      if (era === 'legacy') instance = createMcpInstance(host, options.requests, options.questions)
      else {
        const modern = createRequestBuilder(host, { era, identity }, claims)
        instance = createMcpInstance(host, modern)
        const { server } = instance.server
        options.onModern(
          modern,
          (method, params) => void server.notification({ method, params } as never).catch(() => undefined),
        )
      }
      return instance.server
    },
    { transport, onerror: (error) => host.log.debug('protocol', { error: error.message }) },
  )
  // serveStdio sets its handlers in a later turn of the event loop.
  while (!transport.onmessage) await new Promise((resolve) => setImmediate(resolve))
  const deliver = (message: Message): void => transport.onmessage?.(message as never)
  for (const message of opening ?? []) {
    deliver(message)
    if (message.method === 'initialize') await opened.promise
  }
  return { handle, deliver, instance: () => instance }
}
