import type { Client, Transport, TransportSendOptions } from '@modelcontextprotocol/client'
import { beginning } from '../core/beginning.ts'
import type { Countdown } from '../core/countdown.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import { askingForGateways, gatewaysIn } from '../core/gateways.ts'
import type { Message } from '../core/jsonrpc.ts'
import { isRecord } from '../core/record.ts'
import { type Asks, createAsks } from './asks.ts'
import type { Connection, ConnectOptions } from './connection.ts'
import { withoutDeep } from './entry.ts'
import { createEnvelope, type Envelope, ownCapabilities } from './envelope.ts'
import { type Greeting, greet } from './greet.ts'
import { checkedFailure, checkedInput, type InputRules } from './input.ts'
import { createLane, type Lane } from './lane.ts'
import { keepListening } from './listen.ts'
import { notMcp, statusOf } from './reasons.ts'
import type { Wire } from './wire.ts'

type Json = Readonly<Record<string, unknown>>

/** An era known beforehand, as the SDK takes it. */
export type Prior = { readonly kind: 'legacy' } | { readonly kind: 'modern'; readonly discover: never }

// Long enough for a server on a loaded machine, short enough for one that never answers what it does not know.
const PROBE_MS = 2_000
// Over HTTP nobody ignores a request, and a server that spoke the newer era before only takes its time.
const PATIENT_PROBE_MS = 10_000
/** The deadline of the whole attempt comes first. */
const LATER_MS = 1_000
/** As the SDK says it. */
const DIED_PROBED = 'ERA_NEGOTIATION_FAILED'

/** What a failed attempt teaches the next. */
export interface Seen {
  /** An answer to the probe that came after we had stopped waiting for it. */
  discover?: Json
  /** The process ended while it was being probed. */
  probeFatal?: boolean
}

/** One try at one channel. Leaves nothing open when it fails. */
export async function openConnection(
  options: ConnectOptions,
  wire: Wire,
  prior: Prior | undefined,
  seen: Seen,
): Promise<Connection> {
  const { id, settings, clock, log } = options
  let state: 'opening' | 'open' | 'closed' = 'opening'
  let era: 'legacy' | 'modern' | undefined
  let logLevel: string | undefined
  let deadReason = ''
  let spokenTo = false
  let probe: Connection['probe'] = 'none'
  let flooded = false
  let envelope: Envelope | undefined
  /** Waits for the answer to a probe of our own. */
  let probing: { answered(message: Message): void; closed(): void } | undefined

  const reply = (response: Message): void => {
    const failed = (error: unknown): void => log.debug('answer not sent', { error: messageOf(error) })
    // A question may be answered after the server has gone.
    if (state === 'closed') return
    try {
      lane.send(response)?.catch(failed)
    } catch (error) {
      failed(error)
    }
  }
  const asks: Asks = createAsks(settings.relay, id, reply, {
    habits: options.habits ?? { asks: false },
    clock,
    // Many ask for roots as they start, whoever is there.
    refused: (method, why) => log[method === 'roots/list' ? 'debug' : 'warn'](`${method} declined: ${why}`),
  })
  const lane: Lane = createLane(
    id,
    wire,
    clock,
    {
      notification(method, params) {
        if (method === 'notifications/cancelled') return asks.cancelled(params['requestId'])
        const attributed = method === 'notifications/message' && asks.notify(method, params)
        if (method === 'notifications/elicitation/complete') asks.notify(method, params)
        options.onNotification(method, params, attributed)
      },
      request(message) {
        if (era !== 'modern' && asks.request(message)) return
        // A server of the newer era asks by answering, and has no stream over HTTP that an answer could go to.
        if (era === 'modern' && wire.streamPerRequest) return
        const { id, method } = message
        const body =
          method === 'ping'
            ? { result: {} }
            : { error: { code: -32601, message: `${method?.slice(0, 100)} is not known` } }
        reply({ jsonrpc: '2.0', id, ...body } as Message)
      },
      flooded(dropped) {
        log[flooded ? 'debug' : 'warn']('it sends more than can be read; what is too much is left out', { dropped })
        flooded = true
      },
      closed(reason) {
        const was = state
        state = 'closed'
        deadReason = reason
        probing?.closed()
        outer.onclose?.()
        if (was === 'open') options.onClosed(reason)
      },
      rest(message) {
        if (isProbeId(message)) {
          // Whatever the answer is, it was not silence.
          if (state === 'opening') probe = 'answered'
          if (isProbeAnswer(message)) {
            seen.discover = message.result as Json
            if (state === 'open') options.onModern()
          }
          probing?.answered(message)
        }
        outer.onmessage?.(message as never)
      },
      error: (error) => log.debug('upstream', { error: messageOf(error) }),
    },
    () => envelope?.meta(undefined),
  )

  // What the SDK client takes for its transport. With `pid` and `stderr` it takes it for a child process that must be
  // probed in place.
  const outer: Transport & { pid?: null; stderr?: null } = {
    ...(wire.kind === 'stdio' ? { pid: null, stderr: null } : {}),
    hasPerRequestStream: wire.streamPerRequest,
    start: () => opening,
    send: async (message, sendOptions?: TransportSendOptions) => {
      spokenTo = true
      const isProbe = isProbeId(message as Message)
      if (isProbe) probe = 'silent'
      try {
        await lane.send(message as Message, sendOptions as never)
      } catch (error) {
        if (isProbe && statusOf(error) !== undefined) probe = 'answered'
        throw error
      }
    },
    close: () => wire.close(0),
    setProtocolVersion: (negotiated) => wire.setProtocolVersion?.(negotiated),
  }
  Object.defineProperty(outer, 'sessionId', { get: () => wire.sessionId, enumerable: true })

  // A child starts while the SDK is still being loaded; `start` above reports its failure.
  const opening = lane.open()
  opening.catch(() => undefined)
  const longestMs = Math.max(options.connectTimeoutMs, options.silentTimeoutMs ?? 0)
  const giveUp = deadline(options, longestMs, () => wire.noise?.())
  let client: Client | undefined
  let greeting: Greeting | undefined

  async function open(): Promise<void> {
    const patient = wire.kind !== 'stdio' || options.verdict?.era === 'modern'
    if (!patient && prior?.kind !== 'modern') {
      await opening
      const probeMs = prior ? undefined : PROBE_MS
      const { clientInfo } = options
      greeting = await greet({
        lane,
        clientInfo,
        relay: settings.relay,
        timeoutMs: longestMs + LATER_MS,
        probeMs,
        probe: ask,
      })
      if (greeting) return
    }
    const { Client } = await import('@modelcontextprotocol/client')
    client = new Client(options.clientInfo, {
      capabilities: ownCapabilities(settings.relay) as never,
      versionNegotiation: { mode: 'auto', probe: { timeoutMs: patient ? PATIENT_PROBE_MS : PROBE_MS } },
      jsonSchemaValidator: noValidator,
    })
    client.onerror = (error) => log.debug('upstream', { error: messageOf(error) })
    await client.connect(outer, { timeout: longestMs, ...(prior ? { prior: prior as never } : {}) })
  }

  async function ask(message: Message): Promise<Message> {
    const answer = new Promise<Message>((answered, failed) => {
      const closed = (): void => failed(Object.assign(new Error('it ended when it was probed'), { code: DIED_PROBED }))
      probing = { answered, closed }
    })
    const [said] = await Promise.all([answer, outer.send(message as never)])
    return said
  }

  try {
    const opened = open()
    // Whoever is late fails alone.
    opened.catch(() => undefined)
    await Promise.race([opened, giveUp.passed])
  } catch (error) {
    seen.probeFatal =
      prior === undefined && spokenTo && deadReason !== '' && (error as { code?: unknown }).code === DIED_PROBED
    const tail = wire.tail().trim()
    if (tail) log.debug('stderr', { tail })
    const died = wire.kind === 'stdio' && deadReason !== '' && deadReason !== 'closed' ? deadReason : undefined
    await wire.close(0)
    throw died === undefined ? error : new PegboardError('E_UPSTREAM_UNAVAILABLE', died, { cause: error })
  } finally {
    giveUp.stop()
  }
  era = client?.getProtocolEra() ?? 'legacy'
  const version = era === 'modern' ? client?.getNegotiatedProtocolVersion() : undefined
  envelope = createEnvelope(version, options.clientInfo, settings.relay, () => logLevel)
  state = 'open'
  // An answer that came between giving up on it and here.
  if (era === 'legacy' && seen.discover) options.onModern()
  const meta = envelope.meta
  const capabilities: Json = withoutDeep((greeting?.capabilities ?? client?.getServerCapabilities() ?? {}) as Json)
  const rules: InputRules = { id, where: settings.where, era, allowed: settings.relay }
  const listening =
    era === 'modern' && client
      ? keepListening(client, capabilities, clock, log, () => state === 'open', options.onNotification)
      : undefined

  let gateways: readonly string[] = []
  const withoutLoop = (result: Json): Json => {
    gateways = gatewaysIn(result)
    if (options.gateway !== undefined && gateways.includes(options.gateway()))
      throw new PegboardError('E_LOOP_DETECTED', `${id} leads back to this Pegboard`, {
        hint: `The operator takes ${settings.where} out, or this Pegboard out of the servers of the other one.`,
      })
    return result
  }

  return {
    get gateways() {
      return gateways
    },
    transport: wire.kind,
    era,
    probe,
    capabilities,
    server: nameOf(greeting?.server ?? client?.getServerVersion()),
    request(method, params, { relay, ...rest }) {
      const asksLists = method === 'tools/list' && options.gateway !== undefined
      const _meta = asksLists ? { ...meta(relay), ...askingForGateways } : meta(relay)
      const body = _meta ? { ...params, _meta } : params
      if (asksLists) return lane.request(method, body, rest).then(withoutLoop)
      if (!relay) return lane.request(method, body, rest)
      const task = method === 'tasks/result' ? String(params['taskId']) : undefined
      const wait = asks.enter(relay, rest.signal, task)
      const onLimit = (limit: Countdown): void => asks.limit(relay, limit)
      const sent = (): Promise<Json> =>
        lane
          .request(method, body, { ...rest, onLimit })
          .then(
            (result) => checkedInput(result, rules),
            (error: unknown) => {
              throw checkedFailure(error, rules)
            },
          )
          .finally(() => asks.leave(relay, task))
      return wait ? wait.then(sent) : sent()
    },
    watch: async (uris) => await listening?.watch(uris),
    setLogLevel(level) {
      logLevel = level
    },
    tail: () => wire.tail(),
    async close(graceMs) {
      state = 'closed'
      listening?.stop()
      await wire.close(graceMs)
    },
  }
}

const nameOf = (server: { readonly name: string; readonly version: string } | undefined) =>
  server && { name: beginning(server.name, 256), version: versionOf(server.version) }

/** Models read it in the list of servers: it has room for a number and no room for a sentence. */
const versionOf = (said: string): string => /^[\w.+~-]{1,40}(?![\w.+~-])/.exec(said)?.[0] ?? ''

const isProbeId = ({ id }: Message): boolean => typeof id === 'string' && id.startsWith('server-discover-probe')

const isProbeAnswer = ({ result }: Message): boolean => isRecord(result) && Array.isArray(result['supportedVersions'])

// Results are passed on unchecked, so the SDK's validator is never needed; making one loads a compiler.
const noValidator = {
  getValidator: () => (input: unknown) => ({ valid: true as const, data: input as never, errorMessage: undefined }),
}

/** Many servers greet whoever starts them on stdout, and answer then. */
const BANNER_MS = 2_000

/** The longer limit is for those that have printed nothing. */
function deadline(
  { clock, signal, connectTimeoutMs: shortMs, onNoise }: ConnectOptions,
  longestMs: number,
  noise: () => string | undefined,
): { readonly passed: Promise<never>; stop(): void } {
  let stop = (): void => undefined
  const passed = new Promise<never>((_, reject) => {
    const end = (reason: string): void => reject(new PegboardError('E_UPSTREAM_UNAVAILABLE', reason))
    const onAbort = (): void => end('it was stopped')
    const late = (ms: number): void => {
      const printed = noise()
      if (printed !== undefined) end(`no answer within ${ms / 1_000} s; ${notMcp(printed)}`)
      else if (ms < longestMs) cancelTimer = clock.after(longestMs - ms, () => late(longestMs))
      else end(`no answer within ${ms / 1_000} s`)
    }
    const look = (): void => {
      const printed = noise()
      if (printed === undefined) cancelLook = clock.after(BANNER_MS, look)
      else onNoise?.(`no answer yet; ${notMcp(printed)}`)
    }
    let cancelTimer = clock.after(shortMs, () => late(shortMs))
    let cancelLook = clock.after(BANNER_MS, look)
    signal.addEventListener('abort', onAbort, { once: true })
    if (signal.aborted) onAbort()
    stop = () => {
      cancelTimer()
      cancelLook()
      signal.removeEventListener('abort', onAbort)
    }
  })
  return { passed, stop: () => stop() }
}
