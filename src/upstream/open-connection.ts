import type { Client, Transport, TransportSendOptions } from '@modelcontextprotocol/client'
import type { Countdown } from '../core/countdown.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import { askingForGateways, gatewaysIn } from '../core/gateways.ts'
import { isRecord, type Json } from '../core/is-record.ts'
import type { Message } from '../core/jsonrpc.ts'
import { truncate } from '../core/truncate.ts'
import { createChangeSubscriptions } from './change-subscriptions.ts'
import { checkedFailure, checkedInput, type InputRules } from './check-input.ts'
import type { Connection, ConnectOptions, Implementation } from './connection.ts'
import { notMcp, statusOf } from './error-reasons.ts'
import { createFastRequests, type FastRequests } from './fast-requests.ts'
import { type LegacyHandshake, legacyHandshake } from './legacy-handshake.ts'
import { withoutDeep } from './list-entry-limits.ts'
import { createRequestMeta, ownCapabilities, type RequestMeta } from './request-meta.ts'
import { createServerRequestRouter, type ServerRequestRouter } from './server-request-router.ts'
import { removeTaskId } from './server-tasks.ts'
import type { UpstreamTransport } from './transport.ts'

/** An era known in advance, in the SDK's format. */
export type Prior = { readonly kind: 'legacy' } | { readonly kind: 'modern'; readonly discover: never }

// Long enough for a server on a busy machine, short enough for one that ignores unknown requests.
const PROBE_MS = 2_000
// HTTP servers never ignore a request, and a server that was of the newer era before is only slow.
const PATIENT_PROBE_MS = 10_000
/** The timeout of the whole attempt fires first. */
const LATER_MS = 1_000
const DIED_PROBED = 'ERA_NEGOTIATION_FAILED'

/** What a failed attempt tells the next one. */
export interface AttemptOutcome {
  /** An answer to the probe that arrived after the timeout. */
  discover?: Json
  /** The process ended during the probe. */
  probeFatal?: boolean
}

/** One connection attempt. Leaves nothing open if it fails. */
export async function openConnection(
  options: ConnectOptions,
  transport: UpstreamTransport,
  prior: Prior | undefined,
  outcome: AttemptOutcome,
): Promise<Connection> {
  const { id, settings, clock, log } = options
  let state: 'opening' | 'open' | 'closed' = 'opening'
  let era: 'legacy' | 'modern' | undefined
  let logLevel: string | undefined
  let deadReason = ''
  let hasSent = false
  let probe: Connection['probe'] = 'none'
  let flooded = false
  let cancelMeta: RequestMeta | undefined
  /** Waits for the answer to Pegboard's own probe. */
  let probing: { answered(message: Message): void; closed(): void } | undefined

  options.onStart(() => transport.stderrTail())
  const reply = (response: Message): void => {
    const failed = (error: unknown): void => log.debug('answer not sent', { error: messageOf(error) })
    // A question may be answered after the server has exited.
    if (state === 'closed') return
    try {
      fastRequests.send(response)?.catch(failed)
    } catch (error) {
      failed(error)
    }
  }
  const declined = new Set<string>()
  const serverRequests: ServerRequestRouter = createServerRequestRouter(settings.relay, id, reply, {
    habits: options.habits,
    clock,
    // Many servers request roots at start, before any client has connected.
    refused(method, why) {
      const message = `${method} declined: ${why}`
      // A server may ask a thousand times a second.
      log[method === 'roots/list' || declined.has(message) ? 'debug' : 'warn'](message)
      declined.add(message)
    },
  })
  const fastRequests: FastRequests = createFastRequests(
    id,
    transport,
    clock,
    {
      notification(method, rawParams, origin) {
        const params =
          method === 'notifications/message' ? { ...rawParams, logger: loggerOf(id, rawParams['logger']) } : rawParams
        if (method === 'notifications/cancelled') return serverRequests.cancelled(params['requestId'])
        const attributed = method === 'notifications/message' && serverRequests.notify(method, params, origin)
        if (method === 'notifications/elicitation/complete') serverRequests.notify(method, params, origin)
        options.onNotification(method, removeTaskId(params), attributed)
      },
      request(message, origin) {
        if (era !== 'modern' && serverRequests.request(message, origin)) return
        // A newer-era server asks in its results, and over HTTP has no stream for answers.
        if (era === 'modern' && transport.kind === 'http') return
        const { id, method } = message
        const body =
          method === 'ping'
            ? { result: {} }
            : { error: { code: -32601, message: `${method?.slice(0, 100)} is not known` } }
        reply({ jsonrpc: '2.0', id, ...body } as Message)
      },
      flooded(dropped) {
        log[flooded ? 'debug' : 'warn']('it sends more than Pegboard can read; the rest is dropped', { dropped })
        flooded = true
      },
      closed(reason) {
        const was = state
        state = 'closed'
        deadReason = reason
        probing?.closed()
        sdkTransport.onclose?.()
        if (was === 'open') options.onClosed(reason)
      },
      rest(message) {
        if (isProbeId(message)) {
          // Any answer means that the server is not silent.
          if (state === 'opening') probe = 'answered'
          if (isProbeAnswer(message)) {
            outcome.discover = message.result as Json
            if (state === 'open') options.onModern()
          }
          probing?.answered(message)
        }
        sdkTransport.onmessage?.(message as never)
      },
      error: (error) => log.debug('upstream', { error: messageOf(error) }),
    },
    () => cancelMeta?.(),
    options.tell,
  )

  // The transport for the SDK client. With `pid` and `stderr` the SDK treats it as a child process and probes it in
  // place.
  const sdkTransport: Transport & { pid?: null; stderr?: null } = {
    ...(transport.kind === 'stdio' ? { pid: null, stderr: null } : {}),
    hasPerRequestStream: transport.kind === 'http',
    start: () => opening,
    send: async (message, sendOptions?: TransportSendOptions) => {
      hasSent = true
      const isProbe = isProbeId(message as Message)
      if (isProbe) probe = 'silent'
      try {
        await fastRequests.send(message as Message, sendOptions as never)
      } catch (error) {
        if (isProbe && statusOf(error) !== undefined) probe = 'answered'
        throw error
      }
    },
    close: () => transport.close(0),
    setProtocolVersion: (negotiated) => transport.setProtocolVersion?.(negotiated),
  }
  Object.defineProperty(sdkTransport, 'sessionId', { get: () => transport.sessionId, enumerable: true })

  // The child starts while the SDK is still loading; `start` above reports its failure.
  const opening = fastRequests.open()
  opening.catch(() => undefined)
  const longestMs = Math.max(options.connectTimeoutMs, options.silentTimeoutMs ?? 0)
  const timeLimit = deadline(options, longestMs, () => transport.noise?.())
  let client: Client | undefined
  let handshake: LegacyHandshake | undefined

  async function open(): Promise<void> {
    const patient = transport.kind !== 'stdio' || options.verdict?.era === 'modern'
    if (!patient && prior?.kind !== 'modern') {
      await opening
      const probeMs = prior ? undefined : PROBE_MS
      const { clientInfo } = options
      handshake = await legacyHandshake({
        fastRequests,
        clientInfo,
        relay: settings.relay,
        timeoutMs: longestMs + LATER_MS,
        probeMs,
        probe: ask,
      })
      if (handshake) return
    }
    const { Client } = await import('@modelcontextprotocol/client')
    client = new Client(options.clientInfo, {
      capabilities: ownCapabilities(settings.relay) as never,
      versionNegotiation: { mode: 'auto', probe: { timeoutMs: patient ? PATIENT_PROBE_MS : PROBE_MS } },
      jsonSchemaValidator: noValidator,
    })
    client.onerror = (error) => log.debug('upstream', { error: messageOf(error) })
    await client.connect(sdkTransport, { timeout: longestMs, ...(prior ? { prior: prior as never } : {}) })
  }

  async function ask(message: Message): Promise<Message> {
    const answer = new Promise<Message>((answered, failed) => {
      const closed = (): void =>
        failed(Object.assign(new Error('it exited when Pegboard probed it'), { code: DIED_PROBED }))
      probing = { answered, closed }
    })
    const [response] = await Promise.all([answer, sdkTransport.send(message as never)])
    return response
  }

  try {
    const opened = open()
    // A late failure has no listener any more.
    opened.catch(() => undefined)
    await Promise.race([opened, timeLimit.expired])
  } catch (error) {
    outcome.probeFatal =
      prior === undefined && hasSent && deadReason !== '' && (error as { code?: unknown }).code === DIED_PROBED
    const tail = transport.stderrTail().trim()
    if (tail) log.debug('stderr', { tail })
    const died = transport.kind === 'stdio' && deadReason !== '' && deadReason !== 'closed' ? deadReason : undefined
    await transport.close(0)
    throw died === undefined ? error : new PegboardError('E_UPSTREAM_UNAVAILABLE', died, { cause: error })
  } finally {
    timeLimit.stop()
  }
  era = client?.getProtocolEra() ?? 'legacy'
  const version = era === 'modern' ? client?.getNegotiatedProtocolVersion() : undefined
  const metaOf = createRequestMeta(version, options.clientInfo, settings.relay, () => logLevel)
  cancelMeta = metaOf
  state = 'open'
  // The answer arrived between the timeout and this line.
  if (era === 'legacy' && outcome.discover) options.onModern()
  const capabilities: Json = withoutDeep((handshake?.capabilities ?? client?.getServerCapabilities() ?? {}) as Json)
  const rules: InputRules = { id, where: settings.where, era, allowed: settings.relay }
  const listening =
    era === 'modern' && client
      ? createChangeSubscriptions(client, capabilities, clock, log, () => state === 'open', options.onNotification)
      : undefined

  let gateways: readonly string[] = []
  const withoutLoop = (result: Json): Json => {
    gateways = gatewaysIn(result)
    if (options.gateway !== undefined && gateways.includes(options.gateway()))
      throw new PegboardError('E_LOOP_DETECTED', `${id} leads back to this Pegboard`, {
        hint: `The operator removes ${settings.where}, or removes this Pegboard from the servers of the other one.`,
      })
    return result
  }

  return {
    get gateways() {
      return gateways
    },
    transport: transport.kind,
    era,
    probe,
    capabilities,
    implementation: implementationOf(
      handshake?.serverInfo ?? client?.getServerVersion(),
      handshake?.instructions ?? client?.getInstructions(),
    ),
    request(method, params, requestOptions) {
      const { relay, signal } = requestOptions
      const asksLists = method === 'tools/list' && options.gateway !== undefined
      const _meta = asksLists ? { ...metaOf(relay), ...askingForGateways } : metaOf(relay)
      const body = _meta ? { ...params, _meta } : params
      if (asksLists) return fastRequests.request(method, body, requestOptions).then(withoutLoop)
      if (!relay) return fastRequests.request(method, body, requestOptions)
      const task = method === 'tasks/result' ? String(params['taskId']) : undefined
      const wait = serverRequests.enter(relay, signal, task)
      const onLimit = (limit: Countdown): void => serverRequests.limit(relay, limit)
      // The spread is last, because members after it cost 4 µs on Node 20.
      const sent = (): Promise<Json> =>
        fastRequests
          .request(method, body, { onLimit, ...requestOptions })
          .then(
            (result) => checkedInput(result, rules),
            (error: unknown) => {
              throw checkedFailure(error, rules)
            },
          )
          .finally(() => serverRequests.leave(relay, task))
      return wait ? wait.then(sent) : sent()
    },
    watch: async (uris) => await listening?.watch(uris),
    setLogLevel(level) {
      logLevel = level
    },
    stderrTail: () => transport.stderrTail(),
    async close(graceMs) {
      state = 'closed'
      listening?.stop()
      await transport.close(graceMs)
    },
  }
}

/** The logger name, which clients show; a server must not write as someone else. */
const loggerOf = (id: string, theirs: unknown): string =>
  typeof theirs === 'string' && theirs !== '' ? `${id}/${truncate(theirs, 256)}` : id

const ABOUT_CHARACTERS = 512

function implementationOf(
  serverInfo: LegacyHandshake['serverInfo'] | undefined,
  instructions: unknown,
): Implementation | undefined {
  if (!serverInfo) return undefined
  const { name, version, description } = serverInfo
  const about = [description, instructions].find((text) => typeof text === 'string' && text.trim() !== '')
  return {
    name: truncate(name, 256),
    version: versionOf(version),
    ...(typeof about === 'string' && { about: truncate(about, ABOUT_CHARACTERS) }),
  }
}

/** Models see this, so it has room for a version number but not for a sentence. */
const versionOf = (text: string): string => /^[\w.+~-]{1,40}(?![\w.+~-])/.exec(text)?.[0] ?? ''

const isProbeId = ({ id }: Message): boolean => typeof id === 'string' && id.startsWith('server-discover-probe')

const isProbeAnswer = ({ result }: Message): boolean => isRecord(result) && Array.isArray(result['supportedVersions'])

// The SDK's validator is never used, because results are passed on unchecked; creating one would load a compiler.
const noValidator = {
  getValidator: () => (input: unknown) => ({ valid: true as const, data: input as never, errorMessage: undefined }),
}

/** Many servers print a banner on stdout before they answer. */
const BANNER_MS = 2_000

/** The longer limit applies while nothing has been printed. */
function deadline(
  { clock, signal, connectTimeoutMs: shortMs, onNoise }: ConnectOptions,
  longestMs: number,
  readNoise: () => string | undefined,
): { readonly expired: Promise<never>; stop(): void } {
  let stop = (): void => undefined
  const expired = new Promise<never>((_, reject) => {
    const end = (reason: string): void => reject(new PegboardError('E_UPSTREAM_UNAVAILABLE', reason))
    const onAbort = (): void => end('it was stopped')
    const onTimeout = (ms: number): void => {
      const printed = readNoise()
      if (printed !== undefined) end(`no answer within ${ms / 1_000} s; ${notMcp(printed)}`)
      else if (ms < longestMs) cancelTimer = clock.after(longestMs - ms, () => onTimeout(longestMs))
      else end(`no answer within ${ms / 1_000} s`)
    }
    const checkNoise = (): void => {
      const printed = readNoise()
      if (printed === undefined) cancelCheck = clock.after(BANNER_MS, checkNoise)
      else onNoise(`no answer yet; ${notMcp(printed)}`)
    }
    let cancelTimer = clock.after(shortMs, () => onTimeout(shortMs))
    let cancelCheck = clock.after(BANNER_MS, checkNoise)
    signal.addEventListener('abort', onAbort, { once: true })
    if (signal.aborted) onAbort()
    stop = () => {
      cancelTimer()
      cancelCheck()
      signal.removeEventListener('abort', onAbort)
    }
  })
  return { expired, stop: () => stop() }
}
