import { randomUUID } from 'node:crypto'
import type { Readable } from 'node:stream'
import type { StdioServerHandle } from '@modelcontextprotocol/server/stdio'
import type { Clock } from '../core/clock.ts'
import type { Caller } from '../core/context.ts'
import type { Message } from '../core/jsonrpc.ts'
import { hasBatches, revisionFor } from '../core/revisions.ts'
import { laneCall } from './answer.ts'
import { createBatches } from './batch.ts'
import { callerOf, type Entrant, localEntrant } from './caller.ts'
import { serverCapabilities } from './capabilities.ts'
import { type Claims, createClaims } from './claims.ts'
import { follow, followedBy, withFollowed } from './follow.ts'
import { acknowledging, followTasks, holdOpen, tasksWanted, type WantedTasks } from './follow-tasks.ts'
import { createFraming } from './framing.ts'
import type { ServerHost } from './host.ts'
import { createInFlight, IN_FLIGHT } from './in-flight.ts'
import { createLane } from './lane.ts'
import { isBatch, readBatch, readMessage } from './message.ts'
import { createNotifier } from './notify.ts'
import { type Pieces, piecesOf } from './pieces.ts'
import type { McpInstance } from './server.ts'
import { taskStatus } from './task-status.ts'
import { CUT_OFF_BYTES, HOLD_BYTES, isPassing, MAX_UNREAD_BYTES } from './unread.ts'

/** Longest line a client may send. */
const MAX_LINE_BYTES = 4 * 1024 * 1024
/** Text is written when it is this long. One string of many answers would be copied twice before it leaves. */
const MAX_TEXT = 64 * 1024
/** Requests taken before their answers are looked at: one chunk of input can hold 600 calls, with 50 KB to answer each. */
const MAX_AT_ONCE = 32

/** Where lines go. Any writable stream is one. */
export interface LineOutput {
  write(data: string | Buffer): boolean
  /** Holds what is written back until `uncork`, to hand it over at once. */
  cork(): void
  uncork(): void
  once(event: 'error' | 'drain', listener: () => void): unknown
  /** Bytes that nobody has read yet. */
  readonly writableLength: number
}

export interface StdioOptions {
  readonly host: ServerHost
  readonly clock: Clock
  readonly input: Readable
  readonly output: LineOutput
  /** Of the client; default `default`. */
  readonly profile?: string
  /** Called once, after the first list went out: the time to start what nobody waits for. */
  readonly onListed?: () => void
}

export interface StdioConnection {
  /** Resolves when the client has gone or `close` was called. */
  readonly closed: Promise<void>
  close(): void
}

/** What the SDK sees of the wire. */
interface SdkWire {
  onmessage?: ((message: never) => void) | undefined
  onclose?: (() => void) | undefined
  onerror?: ((error: Error) => void) | undefined
  start(): Promise<void>
  send(message: object): Promise<void>
  close(): Promise<void>
}

/** Serves one client on a pair of streams, both protocol eras. Only protocol lines are ever written. */
export function serveOnStdio(options: StdioOptions): StdioConnection {
  const { host, output } = options
  const session = randomUUID()
  const entrant = localEntrant(options.profile)
  const claims = createClaims(host, entrant)
  let finish: () => void = () => undefined
  const closed = new Promise<void>((resolve) => {
    finish = resolve
  })

  // Answers that become ready in one turn of the loop leave in one write: the tick comes after all that is pending.
  let pending: (string | Buffer)[] = []
  let text = ''
  let dropped = 0
  const inFlight = createInFlight()
  const send = (message: object): void => {
    inFlight.sent(message)
    if (!batches.answered(message)) write(message)
  }
  const write = (message: object): void => {
    if (isPassing(message) && output.writableLength + text.length >= MAX_UNREAD_BYTES) {
      dropped++
      return
    }
    writeLine(piecesOf(message))
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
    const taken = output.write(text)
    if (many) output.uncork()
    pending = []
    text = ''
    if (cutOff && !gone) {
      host.log.warn('the client does not read what it is sent, and is cut off', { unread: output.writableLength })
      close()
      return
    }
    if (taken || full) return
    full = true
    output.once('drain', () => {
      full = false
      if (dropped > 0) host.log.warn('the client did not read: log messages and progress were left out', { dropped })
      dropped = 0
      if (held) takeLines()
    })
  }

  // A client that does not read its answers is not read either, or the answers would fill the memory.
  let full = false
  let held = false
  const lines: (() => void)[] = []
  const hold = (): void => {
    held = true
    options.input.pause()
  }
  const takeLines = (): void => {
    for (let taken = 0; lines.length > 0 && !gone; taken++) {
      const isBehind = full && (output.writableLength >= HOLD_BYTES || inFlight.size >= MAX_AT_ONCE)
      if (isBehind || taken === MAX_AT_ONCE) {
        hold()
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
    if (held) options.input.resume()
    held = false
  }

  let sdk: Promise<Sdk> | undefined
  let listed = false
  const lane = createLane({
    host,
    entrant,
    claims,
    session,
    capabilities: serverCapabilities,
    send,
    call: laneCall(host),
    handOver: (message, result) => {
      loadSdk().then(({ deliver, instance }) => {
        if (message.id !== undefined) instance()?.answered(message.id, result)
        deliver(message)
      }, fail)
    },
    onListed: () => {
      if (!listed) options.onListed?.()
      listed = true
    },
  })

  const notifier = createNotifier(host, options.clock)
  let stopNotifying: (() => void) | undefined
  let stopTelling: (() => void) | undefined
  const notice = (method: string) => (): void => send({ jsonrpc: '2.0', method })

  // The full server, from the first message on that needs it. It is shown the opening again, and that answer is dropped.
  function loadSdk(): Promise<Sdk> {
    sdk ??= startSdk({
      host,
      entrant,
      claims,
      session,
      opening: lane.opening(),
      send: sendFor,
      begun: () => stopTelling?.(),
    }).then((started) => {
      handle = started.handle
      if (!lane.opening()) {
        stopNotifying = notifier.add({
          callers: () => started.instance()?.callers() ?? lane.callers(),
          notify: (method, params) => started.instance()?.notify?.(method, params),
          toolsChanged: () => started.instance()?.toolsChanged(),
          promptsChanged: () => started.instance()?.promptsChanged(),
          resourcesChanged: () => started.instance()?.resourcesChanged(),
        })
      }
      return started
    })
    return sdk
  }
  let handle: StdioServerHandle | undefined

  const fail = (error: unknown): void => {
    host.log.error('the connection failed', { error })
    close()
  }

  // Tasks are followed from the acknowledgement on, which is the first that a client hears.
  const wanted = new Map<unknown, { readonly tasks: WantedTasks; readonly caller: Caller }>()
  const sendFor = (message: object): void => {
    for (const [id, { tasks, caller }] of wanted) {
      const acknowledgement = acknowledging(message, tasks)
      if (!acknowledgement) continue
      wanted.delete(id)
      send(acknowledgement)
      const stop = followed.get(id)
      const stopTasks = followTasks(host, options.clock, caller, tasks, send)
      followed.set(id, () => {
        stop?.()
        stopTasks()
      })
      return
    }
    send(message)
  }

  const followed = new Map<unknown, () => void>()
  const listener = callerOf({ era: 'modern', entrant }, undefined, undefined)
  const handOn = (message: Message): void => void loadSdk().then(({ deliver }) => deliver(message), fail)
  const listen = (message: Message): void => {
    const { id } = message
    const caller = claims.of(listener, message.params?.['_meta'])
    const tasks = tasksWanted(message)
    if (tasks) wanted.set(id, { tasks, caller })
    const { begun, stop } = follow(host, options.clock, caller, followedBy(message))
    followed.get(id)?.()
    followed.set(id, stop)
    // It is acknowledged as soon as it is handed on, and with what it names then.
    void begun.then((uris) => {
      if (gone || followed.get(id) !== stop) return
      const read = withFollowed(message, uris)
      handOn(tasks ? holdOpen(read) : read)
    })
  }
  const unlisten = ({ params }: Message): void => {
    const id = params?.['requestId']
    followed.get(id)?.()
    followed.delete(id)
    wanted.delete(id)
  }

  // Once the client spoke the newer protocol, everything is the SDK's.
  let modern = false
  const receive = (message: Message): void => {
    if (message.method === 'notifications/cancelled') batches.cancelled(message.params?.['requestId'])
    if (!modern && lane.take(message)) {
      if (message.method === 'initialize') {
        // The full server, once there is one, tells of tasks itself.
        stopTelling = host.onUpstream({
          task(owner, task) {
            const params = taskStatus(host, { session, callers: lane.callers() }, owner, task)
            if (params) send({ jsonrpc: '2.0', method: 'notifications/tasks/status', params })
          },
        })
        stopNotifying = notifier.add({
          callers: lane.callers,
          notify: (method, params) => send({ jsonrpc: '2.0', method, params }),
          toolsChanged: lane.toolsChanged,
          promptsChanged: notice('notifications/prompts/list_changed'),
          resourcesChanged: notice('notifications/resources/list_changed'),
        })
      }
      return
    }
    if (!lane.opening()) modern = true
    if (modern && message.method === 'notifications/cancelled') unlisten(message)
    if (modern && message.method === 'subscriptions/listen') listen(message)
    else handOn(message)
  }

  const refused = ({
    id,
    code,
    message,
  }: {
    readonly id: unknown
    readonly code: number
    readonly message: string
  }) => {
    host.log.warn('a message was refused', { reason: message })
    return { jsonrpc: '2.0', id, error: { code, message } }
  }

  const takesBatches = (): boolean => {
    const opening = lane.opening()?.[0]
    return !modern && opening !== undefined && hasBatches(revisionFor(opening.params?.['protocolVersion']))
  }
  function receiveBatch(text: string): void {
    const messages = readBatch(text)
    if ('ok' in messages) {
      write(refused(messages))
      return
    }
    const entered = messages.filter((message) => inFlight.enters(message))
    const repeated = messages.filter((message) => !entered.includes(message))
    batches.open(
      entered.filter(({ id, method }) => id !== undefined && method !== undefined).map(({ id }) => id),
      repeated.map(({ id }) => refused({ id, code: -32600, message: IN_FLIGHT })),
    )
    for (const message of entered) receive(message)
  }

  const take = (line: string): void => {
    if (isBatch(line) && takesBatches()) {
      receiveBatch(line)
      return
    }
    const read = readMessage(line)
    if (read.ok && inFlight.enters(read.message)) receive(read.message)
    else write(read.ok ? refused({ id: read.message.id, code: -32600, message: IN_FLIGHT }) : refused(read))
  }
  const refuse = (id: string | number | null, code: number, message: string): void =>
    void lines.push(() => send({ jsonrpc: '2.0', id, error: { code, message } }))
  const cut = createFraming(MAX_LINE_BYTES, {
    line: (text) => void lines.push(() => take(text)),
    tooLong: (max, id) => refuse(id, -32600, `Invalid request: message exceeds ${max} bytes`),
    malformed: () => refuse(null, -32700, 'Parse error: the line is not UTF-8'),
  })
  const feed = (chunk: Buffer): void => {
    cut(chunk)
    if (!held) takeLines()
  }

  let gone = false
  const close = (): void => {
    if (gone) return
    gone = true
    options.input.off('data', feed)
    stopNotifying?.()
    stopTelling?.()
    for (const stop of followed.values()) stop()
    notifier.close()
    lane.close()
    flush()
    // Failures while going have nobody left to be told to.
    void handle?.close().catch(() => undefined)
    finish()
  }
  options.input.on('data', feed)
  options.input.once('end', close)
  options.input.once('close', close)
  options.input.once('error', close)
  output.once('error', close)

  return { closed, close }
}

interface Sdk {
  readonly handle: StdioServerHandle
  deliver(message: Message): void
  instance(): McpInstance | undefined
}

interface SdkOptions {
  readonly host: ServerHost
  readonly entrant: Entrant
  readonly claims: Claims
  readonly session: string
  readonly opening: readonly Message[] | undefined
  readonly send: (message: object) => void
  /** Called when it listens. */
  readonly begun: () => void
}

async function startSdk({ host, entrant, claims, session, opening, send, begun }: SdkOptions): Promise<Sdk> {
  const [{ serveStdio }, { createMcpInstance }] = await Promise.all([
    import('@modelcontextprotocol/server/stdio'),
    import('./server.ts'),
  ])
  let instance: McpInstance | undefined
  const replayed = opening?.[0]?.id
  let swallowed: (() => void) | undefined
  const opened = replayed === undefined ? Promise.resolve() : new Promise<void>((resolve) => (swallowed = resolve))
  const wire: SdkWire = {
    start: async () => undefined,
    close: async () => wire.onclose?.(),
    async send(message) {
      if (swallowed && (message as Message).id === replayed && !('method' in message)) {
        swallowed()
        swallowed = undefined
        return
      }
      send(message)
    },
  }
  const handle = serveStdio(
    ({ era }) => {
      instance?.dispose()
      instance = createMcpInstance(host, { era, entrant, ...(era === 'legacy' ? { session } : {}) }, claims)
      begun()
      return instance.server
    },
    { transport: wire as never, onerror: (error) => host.log.debug('protocol', { error: error.message }) },
  )
  // serveStdio attaches its handlers in a later turn.
  while (!wire.onmessage) await new Promise((resolve) => setImmediate(resolve))
  const deliver = (message: Message): void => wire.onmessage?.(message as never)
  for (const message of opening ?? []) {
    deliver(message)
    if (message.method === 'initialize') await opened
  }
  return { handle, deliver, instance: () => instance }
}
