import type { OwnerInfo, OwnerState } from '../catalog/catalog.ts'
import type { CallContext, Caller } from '../core/context.ts'
import { stopOf } from '../core/ending.ts'
import { isPegboardError, messageOf, PegboardError } from '../core/errors.ts'
import { ProtocolFailure } from '../core/failure.ts'
import { rawBytes } from '../core/raw.ts'
import { isRecord } from '../core/record.ts'
import type { ToolResult } from '../core/result.ts'
import { newerTask, takesTasks } from '../core/tasks.ts'
import type { Relay } from '../core/tool.ts'
import { timeoutOf } from './adapt.ts'
import type { Connection, RequestOptions } from './connection.ts'
import { isContent, withoutUnseen } from './content.ts'
import { createCredentials } from './credentials.ts'
import type { ToolRecord } from './definition.ts'
import { createEndpoints, type EndpointsHost } from './endpoints.ts'
import { createIdle } from './idle.ts'
import { SESSION_LOST } from './lane.ts'
import { createLink, type Link } from './link.ts'
import { emptyListing, type Listing, type ListKind, readListing } from './listing.ts'
import { decodeManifest, type EraVerdict, encodeManifest, type Manifest, manifestKey } from './manifest.ts'
import { mirroredArguments, mirrorHeaders } from './mirror.ts'
import { createOpenTasks } from './open-tasks.ts'
import { createPrincipals } from './principals.ts'
import { createPublisher, type PublisherOptions } from './publish.ts'
import type { ServerSettings } from './settings.ts'
import type { UpstreamShared } from './shared.ts'
import { createTaskRelay, takingTasks } from './task-relay.ts'
import { callAsTask, hasTasks, runsAsTask, runsTasks } from './tasks.ts'

type Json = Readonly<Record<string, unknown>>

type Standing = Pick<OwnerInfo, 'state' | 'reason' | 'nextAttemptAt' | 'startsInMs'>

export interface UpstreamStatus {
  readonly id: string
  /** Its category in the catalogue. */
  readonly module: string
  readonly state: OwnerState
  /** Fit for clients. */
  readonly reason?: string
  /** The same for operators, where that is more: paths. */
  readonly detail?: string
  readonly tools: number
  readonly transport: 'stdio' | 'http' | 'sse'
  readonly era?: 'legacy' | 'modern'
  /** What the server said its version is, now or when last seen. */
  readonly version?: string
  readonly start: ServerSettings['start']
  /** Its first answer, or the next, is on its way; `false` for a lazy server that waits to be called. */
  readonly pending: boolean
  /** Milliseconds since the epoch, while an attempt is planned. */
  readonly nextAttemptAt?: number
  /** How long it took to start last time, in milliseconds. */
  readonly startMs?: number
}

/** One MCP server as an owner in the catalogue. Never gives up. */
export interface Upstream {
  /**
   * Lists what is known from before at once. Lazy servers that are known wait to be called, unknown ones are looked at
   * once; the others connect after `delayMs` and stay.
   */
  start(delayMs: { readonly cold: number; readonly known: number }): void
  /** Reads all its lists again, connecting first if need be. @throws PegboardError E_UPSTREAM_UNAVAILABLE, E_CIRCUIT_OPEN */
  refresh(): Promise<void>
  /** Finds out whether a connection still is one, as after this machine slept. */
  recheck(): Promise<void>
  /** Takes over settings that do not concern the process or address, which keeps running. */
  apply(settings: ServerSettings): void
  /** Somebody decided which of its tools are let in. */
  reviewed(): void
  status(): UpstreamStatus
  /** Settings of its tools that have no effect. */
  problems(): readonly string[]
  stop(graceMs: number): Promise<void>
}

const LISTS: Readonly<Record<string, ListKind>> = {
  'notifications/tools/list_changed': 'tools',
  'notifications/resources/list_changed': 'resources',
  'notifications/prompts/list_changed': 'prompts',
}
const isFlag = (value: unknown): boolean => value === undefined || typeof value === 'boolean'
/** How long what nobody waits for may take. */
const SHORT_MS = 5_000
const ALL: ReadonlySet<ListKind> = new Set<ListKind>(['tools', 'resources', 'prompts'])
/** A change is read at once; from the fifth within ten seconds on, only every two seconds. */
const REFRESH = { soonMs: 50, calm: 5, withinMs: 10_000, stormMs: 2_000 }

/** Resources of others that it lists, of which operators are told. */
const MAX_DISPUTED = 20
/** Time for an idle server to end by itself. */
const REST_MS = 2_000

export function createUpstream(id: string, module: string, given: ServerSettings, shared: UpstreamShared): Upstream {
  const { catalog, clock, hooks, manifests } = shared
  const log = shared.log.scoped(module)
  let settings = given
  const timeoutMs = (): number => settings.timeoutMs ?? shared.callTimeoutMs
  const limitOf = (method: string): number => (method === 'tasks/result' ? TASK_MS : timeoutMs())
  const key = manifestKey(settings)
  const warn = (message: string): void => log.warn(message)

  let state: OwnerState = 'configured'
  let reason: string | undefined
  let detail: string | undefined
  let version: string | undefined
  let capabilities: Json = {}
  let startMs: number | undefined
  let told = ''
  let listing: Listing = emptyListing
  const dirty = new Set<ListKind>()
  let refreshing = false
  let refreshes: number[] = []
  let cancelRefresh: (() => void) | undefined
  let cancelLook: (() => void) | undefined

  // The tools of a private list are for the login it came from alone.
  let listIsPrivate = false
  const loggedIn = (): void => {
    catalog.touch()
    if (link.live) become('ready')
    else if (state === 'failing') link.later(0)
  }
  const principals = given.auth?.perPrincipal ? createPrincipals(id, given, shared, log, loggedIn) : undefined
  const credentials = principals?.credentials ?? createCredentials(id, settings, shared, log, loggedIn)
  let asks = false
  const habits = {
    get asks() {
      return asks
    },
    set asks(now) {
      if (asks === now) return
      asks = now
      if (link.live) keep(link.live)
    },
  }
  const link = createLink({
    credentials,
    habits,
    id,
    settings,
    shared,
    log,
    async opened(connection, beganAt) {
      dirty.clear()
      const read = await readLists(connection, ALL, emptyListing)
      startMs = clock.now() - beganAt
      show(read, connection)
      idle.begin()
      endpoints.restore(connection)
      if (dirty.size > 0) refreshSoon()
      log.info('connected', { transport: connection.transport, era: connection.era, tools: publisher.tools })
    },
    keeps: () => settings.start !== 'lazy' || endpoints.subscribed,
    changed(next, why, more) {
      idle.end()
      become(next, why, more)
    },
    notification: onNotification,
    relearnt: keep,
  })
  const openTasks = createOpenTasks(clock)
  const forEndpoints: Pick<EndpointsHost, 'ready' | 'request'> = {
    ready: (signal, principal) => by(principal, (via) => used(() => via.ready(signal))),
    request: (method, params, relay, signal) =>
      by(method.startsWith('tasks/') ? undefined : relay.principal, (via) =>
        request(method, { ...params, ...retryOf(relay) }, { timeoutMs: limitOf(method), relay, signal }, via),
      ),
  }
  const endpoints = createEndpoints({
    ...forEndpoints,
    tasks: createTaskRelay({ ...forEndpoints, clock, saw: openTasks.saw }),
    hasTasks: () => !principals && hasTasks((link.live ?? link.verdict)?.era ?? 'legacy', capabilities),
    get timeoutMs() {
      return timeoutMs()
    },
    log,
    promptNamed: (exposed) => publisher.promptNamed(exposed),
  })
  const idle = createIdle(clock, {
    limitMs: () => (settings.start === 'lazy' ? settings.idleStopMs : 0),
    busy: () => endpoints.subscribed || refreshing || openTasks.any(),
    idle() {
      log.info('stopped, because nobody uses it')
      link.rest(REST_MS)
    },
  })
  let publisher = createPublisher(forPublisher())

  function forPublisher(): PublisherOptions {
    const { maxConcurrent, maxQueued } = settings
    const capacity = { maxConcurrent, maxQueued, setting: `mcpServers.${id}.maxQueued` }
    const { trust } = shared
    return { id, module, settings, catalog, endpoints, log, trust, capacity, available, call, runsAsTask: asTask }
  }

  function asTask(record: ToolRecord): boolean {
    return !principals && runsAsTask(link.verdict?.era ?? 'legacy', capabilities, record)
  }

  function become(next: OwnerState, why?: string, more?: string): void {
    state = next
    reason = why
    detail = more
    const now = standing()
    const text = JSON.stringify(now)
    if (text === told) return
    told = text
    catalog.describe(module, now)
  }

  /** What the catalogue says of it beside its tools. */
  function standing(): Standing {
    const { nextAttemptAt } = link
    const waits = state === 'known' || state === 'connecting'
    return {
      state,
      ...(reason === undefined ? {} : { reason }),
      ...(reason === undefined || nextAttemptAt === undefined ? {} : { nextAttemptAt }),
      ...(waits && startMs !== undefined ? { startsInMs: startMs } : {}),
    }
  }

  // Tools of a failing server stay: lists that come and go cost clients their caches, and a call tells the reason.
  function available({ principal }: Caller, record?: Pick<ToolRecord, 'text'>): true | string {
    if (state === 'stopped') return `${id} is stopped`
    if (!principals) return true
    if (!principals.has(principal)) return `run \`pegboard auth ${id} --principal ${principal}\``
    if (!listIsPrivate || principal === principals.first) return true
    // Its own list has to name it, word for word.
    return (record && principals.lists(principal, record.text)) || `what ${id} lists is private to another login`
  }

  // --- lists --------------------------------------------------------------------------------------------------------

  async function readLists(connection: Connection, kinds: ReadonlySet<ListKind>, before: Listing): Promise<Listing> {
    let scope: unknown
    const read = await readListing(connection, kinds, before, warn, (said) => {
      scope = said === 'private' ? said : scope
    })
    if (!principals) return read
    if (kinds.has('tools')) listIsPrivate = scope === 'private'
    if (listIsPrivate) principals.readOwn()
    // What one login lists is shown to nobody. A resource that a call was told of is read with the caller's own.
    return { ...read, resources: [], templates: [], prompts: [] }
  }

  const disputed = new Set<string>()

  /** What it lists is its own unless another had it before. */
  function claim(resources: Listing['resources']): void {
    const uris = resources.map(({ uri }) => String(uri))
    const fresh = uris.filter((uri) => endpoints.hadSince(uri) === undefined && !disputed.has(uri))
    endpoints.lists(uris)
    for (const { id: other, endpoints: theirs } of catalog.snapshot().owners.values())
      for (const uri of other === module ? [] : fresh) {
        if (disputed.size >= MAX_DISPUTED || theirs?.hadSince?.(uri) === undefined) continue
        disputed.add(uri)
        log.warn(`lists a resource that ${other} had before and goes on answering for`, { uri: uri.slice(0, 200) })
      }
  }

  function show(next: Listing, connection: Connection): void {
    claim(next.resources)
    listing = next
    state = 'ready'
    reason = undefined
    detail = undefined
    version = connection.server?.version
    capabilities = connection.capabilities
    const now = standing()
    const text = JSON.stringify(now)
    if (!publisher.publish(next, now) && text !== told) catalog.describe(module, now)
    told = text
    keep(connection)
  }

  /** For the next start. */
  function keep({ capabilities, server }: Connection): void {
    if (listIsPrivate) return
    try {
      manifests?.set(
        key,
        encodeManifest({
          verdict: link.verdict as EraVerdict,
          capabilities,
          ...(server ? { server } : {}),
          ...(startMs === undefined ? {} : { startMs }),
          ...(asks ? { asks } : {}),
          ...listing,
          brief: publisher.brief(listing),
        }),
      )
    } catch (error) {
      // It works all the same; the next start learns it again.
      log.warn(`what it offers cannot be kept: ${messageOf(error)}`)
    }
  }

  /** What was learnt the last time. */
  function recall(): Manifest | undefined {
    const line = manifests?.line(key)
    try {
      return line && decodeManifest(line, () => manifests?.get(key), relearn)
    } catch (error) {
      log.warn(`what is kept about it cannot be used and is learnt again: ${messageOf(error)}`)
      return undefined
    }
  }

  /** What is kept is not what we began with any more: the server says itself what it has. */
  function relearn(): void {
    const begun = listing
    // Whoever found out is in the middle of reading the tools.
    clock.after(0, () => {
      if (listing !== begun || state === 'stopped') return
      log.info('what is kept about it was changed and is learnt again')
      listing = emptyListing
      publisher.publish(listing, standing())
      link.later(0)
    })
  }

  function onNotification(method: string, params: Json, attributed: boolean): void {
    const kind = LISTS[method]
    if (kind) {
      dirty.add(kind)
      refreshSoon()
    } else if (method === 'notifications/message') {
      if (!attributed) hooks.onLog?.(id, params)
    } else if (method === 'notifications/resources/updated' && typeof params['uri'] === 'string')
      hooks.onResourceUpdated?.(id, params['uri'], params)
    else if (method === 'notifications/tasks/status') {
      const task = newerTask(params)
      openTasks.saw(task)
      hooks.onTask?.(module, task)
    }
  }

  function refreshSoon(): void {
    if (cancelRefresh || refreshing || state !== 'ready') return
    refreshes = refreshes.filter((at) => clock.now() - at < REFRESH.withinMs)
    const waitMs = refreshes.length < REFRESH.calm ? REFRESH.soonMs : REFRESH.stormMs
    cancelRefresh = clock.after(waitMs, () => {
      cancelRefresh = undefined
      refreshDirty().catch((error: unknown) => log.warn(`lists not read: ${messageOf(error)}`))
    })
  }

  async function refreshDirty(): Promise<void> {
    const connection = link.live
    if (!connection || refreshing) return
    refreshing = true
    refreshes.push(clock.now())
    const kinds = new Set(dirty)
    dirty.clear()
    try {
      const read = await readLists(connection, kinds, listing)
      if (connection === link.live) show(read, connection)
    } finally {
      refreshing = false
      if (dirty.size > 0) refreshSoon()
    }
  }

  // --- requests -----------------------------------------------------------------------------------------------------

  /** On the connection of whoever asks, where everyone has one. What does not say who asks runs with nobody's login. */
  function by<T>(principal: string | undefined, work: (via: Link) => Promise<T>): Promise<T> {
    if (!principals) return work(link)
    return principal === undefined ? refuse() : principals.using(principal, link, work)
  }

  async function used<T>(work: () => Promise<T>): Promise<T> {
    idle.enter()
    try {
      return await work()
    } finally {
      idle.leave()
    }
  }

  async function request(method: string, params: Json, options: RequestOptions, via: Link = link): Promise<Json> {
    idle.enter()
    try {
      const connection = via.live ?? (await via.ready(options.signal))
      try {
        const result = await connection.request(method, params, options)
        via.worked()
        if (via === link && state === 'failing') become('ready')
        return result
      } catch (error) {
        const why = loginWanted(error)
        if (via === link && why !== undefined) become('failing', why)
        if (!isPegboardError(error) || error.code !== 'E_UPSTREAM_UNAVAILABLE') throw error
        if (error.cause !== SESSION_LOST) {
          // Whether it ran is not known, so it is never sent again; a child's end is told by the child.
          if (error.retryable && connection.transport !== 'stdio') via.troubled(connection, error)
          throw error
        }
        // The server never saw the request, so it may be made again whatever it does.
        via.lost(connection, 'it forgot the session', 0)
        return await (await via.ready(options.signal)).request(method, params, options)
      }
    } finally {
      idle.leave()
    }
  }

  function call(record: ToolRecord, input: unknown, ctx: CallContext, relay: Relay): Promise<ToolResult> {
    return by(ctx.caller.principal, (via) => callBy(via, record, input, ctx, relay))
  }

  async function callBy(
    via: Link,
    record: ToolRecord,
    input: unknown,
    ctx: CallContext,
    relay: Relay,
  ): Promise<ToolResult> {
    const connection = via.live ?? (await used(() => via.ready(stopOf(ctx))))
    // What a new connection listed may not be what was approved.
    publisher.admit(record)
    const params = { name: record.name, arguments: input, ...(connection.era === 'modern' ? retryOf(relay) : {}) }
    // Where each logs in for itself, who asks for a task later is not known here.
    const may = !principals && runsAsTask(connection.era, connection.capabilities, record)
    if (relay.task && !may) throw new ProtocolFailure(-32601, `${record.name} does not run as a task`)
    const how = {
      timeoutMs: timeoutOf(id, settings, record.name).timeoutMs ?? timeoutMs(),
      signal: stopOf(ctx),
      relay: relay.task ? takingTasks(relay) : relay,
      // A server told that nobody listens need not count.
      onProgress: relay.wantsProgress === false ? undefined : (params: Json) => report(params, ctx),
      headers: record.mirrors && connection.era === 'modern' ? headersFor(record, input) : undefined,
    }
    if (connection.era === 'legacy' && may && (relay.task || takesTasks(relay.clientCapabilities))) {
      const created = await request('tools/call', { ...params, task: relay.task ?? {} }, how, via)
      if (isRecord(created['task'])) return started(newerTask(created['task']))
      return finished(created)
    }
    const result = onlyAsTask(record, connection)
      ? await callAsTask(
          params,
          (method, own) => request(method, own, how, via),
          (method, own) =>
            void connection
              .request(method, own, { timeoutMs: SHORT_MS })
              .catch((error: unknown) => log.debug(`${method}: ${messageOf(error)}`)),
        )
      : await request('tools/call', params, how, via)
    const type = result['resultType']
    if (type === 'input_required') return { kind: 'input_required', result }
    // Who asks for it later is not known here.
    if (type === 'task' && principals)
      throw new PegboardError(
        'E_UPSTREAM_PROTOCOL',
        `${id} answered with a task, which only one of its logins may see.`,
      )
    if (type === 'task' && takesTasks(how.relay.clientCapabilities) && typeof result['taskId'] === 'string')
      return started(result)
    return finished(result)
  }

  /** A task says which server it is of, for whoever asks for it later. */
  function started(task: Json): ToolResult {
    openTasks.saw(task)
    return { kind: 'mcp', result: { ...task, resultType: 'task', taskId: `${module}:${task['taskId']}` } }
  }

  function finished(result: Json): ToolResult {
    const type = result['resultType']
    if (type !== undefined && type !== 'complete')
      throw new PegboardError('E_UPSTREAM_PROTOCOL', `${id} answered with a result of an unknown type.`)
    // Bytes were looked at when they came.
    const fit = rawBytes(result) && 'content' in result && isFlag(result['isError']) ? result : fitted(result)
    endpoints.remember(fit)
    return { kind: 'mcp', result: fit }
  }

  /** What every client can read: content is there, and `isError` is a boolean if it is anything. */
  function fitted(result: Json): Json {
    const { content = [], isError } = result
    if (!isContent(content))
      throw new PegboardError('E_UPSTREAM_PROTOCOL', `${id} answered with content that no client can read.`)
    if (!isFlag(isError))
      throw new PegboardError('E_UPSTREAM_PROTOCOL', `${id} answered without saying whether it worked.`)
    const seen = withoutUnseen(content as readonly unknown[])
    return seen === result['content'] ? result : { ...result, content: seen }
  }

  return {
    start(delayMs) {
      const known = recall()
      link.verdict = known?.verdict
      asks = known?.asks === true
      startMs = typeof known?.startMs === 'number' ? known.startMs : undefined
      listing = known ?? emptyListing
      claim(listing.resources)
      version = known?.server?.version
      capabilities = known?.capabilities ?? {}
      state = known ? 'known' : 'configured'
      publisher.publish(listing, standing())
      if (settings.start === 'eager') link.later(0)
      else if (settings.start === 'background') link.later(known ? delayMs.known : delayMs.cold)
      else if (!known)
        cancelLook = clock.after(delayMs.cold, () =>
          shared.turns.take(link.connect, () => state !== 'configured' || link.nextAttemptAt !== undefined),
        )
    },
    async refresh() {
      const had = link.live
      await link.ready()
      // A new connection has just read them.
      if (!had) return
      for (const kind of ALL) dirty.add(kind)
      await refreshDirty()
    },
    async recheck() {
      const connection = link.live
      if (!connection || refreshing) return
      for (const kind of ALL) dirty.add(kind)
      await refreshDirty().catch((error: unknown) => {
        log.debug('checked after a pause', { error: messageOf(error) })
        link.lost(connection, 'it did not answer after a pause')
      })
    },
    apply(next) {
      settings = next
      publisher = createPublisher(forPublisher())
      publisher.publish(listing, standing())
      idle.end()
      if (state === 'ready') idle.begin()
      else if (settings.start !== 'lazy' && state === 'known') link.later(0)
    },
    reviewed: () => void publisher.publish(listing, standing()),
    status: () => ({
      id,
      module,
      ...standing(),
      ...(detail === undefined ? {} : { detail }),
      tools: publisher.tools,
      transport: link.live?.transport ?? link.verdict?.transport ?? settings.target.kind,
      ...eraOf(link),
      ...(version === undefined ? {} : { version }),
      start: settings.start,
      pending:
        (link.patient && state !== 'ready') ||
        state === 'configured' ||
        state === 'connecting' ||
        (state === 'known' && link.nextAttemptAt !== undefined),
      ...(startMs === undefined ? {} : { startMs }),
    }),
    problems: () => publisher.problems(),
    async stop(graceMs) {
      cancelLook?.()
      cancelRefresh?.()
      idle.end()
      become('stopped')
      credentials.close()
      await Promise.all([link.stop(graceMs), principals?.close(graceMs)])
    },
  }
}

function eraOf({ live, verdict }: Link): Pick<UpstreamStatus, 'era'> {
  const era = live?.era ?? verdict?.era
  return era === undefined ? {} : { era }
}

/** The server let us in before, and does not any more. A scope that is missing for one call says nothing of the others. */
function loginWanted(error: unknown): string | undefined {
  if (!isPegboardError(error) || error.code !== 'E_AUTH_REQUIRED') return undefined
  return isPegboardError(error.cause) && error.cause.data === undefined ? error.cause.message : undefined
}

/** Waiting for the result of a task takes as long as the task. */
const TASK_MS = 24 * 60 * 60_000

const onlyAsTask = ({ text }: ToolRecord, { era, capabilities }: Connection): boolean =>
  era === 'legacy' && runsTasks(capabilities) && text.includes('"taskSupport":"required"')

const refuse = (): Promise<never> =>
  Promise.reject(new ProtocolFailure(-32601, 'This is not passed on to servers where everyone logs in for themselves'))

const retryOf = ({ inputResponses, requestState }: Relay): Json => ({
  ...(inputResponses === undefined ? {} : { inputResponses }),
  ...(requestState === undefined ? {} : { requestState }),
})

function report({ progress, total, message }: Json, ctx: CallContext): void {
  if (typeof progress !== 'number') return
  ctx.progress(
    progress,
    typeof total === 'number' ? total : undefined,
    typeof message === 'string' ? message : undefined,
  )
}

function headersFor({ text }: Pick<ToolRecord, 'text'>, input: unknown): Record<string, string> | undefined {
  const mirrored = mirroredArguments((JSON.parse(text) as Json)['inputSchema'])
  return typeof mirrored === 'string' ? undefined : mirrorHeaders(mirrored, input)
}
