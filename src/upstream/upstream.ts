import type { OwnerInfo, OwnerState } from '../catalog/owner.ts'
import type { Caller, ServerStatus } from '../core/caller.ts'
import { isPegboardError, messageOf } from '../core/errors.ts'
import type { Json } from '../core/is-record.ts'
import { changedList, type ListKind } from '../core/list-kinds.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import { once } from '../core/once.ts'
import { isProtocolFailure } from '../core/protocol-failure.ts'
import { semaphoreOf } from '../core/semaphore.ts'
import { toModernTask } from '../core/task-protocol.ts'
import type { Capacity, Relay, RequestOwner } from '../core/tool.ts'
import { withCallSlot } from './call-slots.ts'
import { createPublisher, namesOf, type OwnerStatus, type PublisherOptions } from './catalog-publisher.ts'
import type { Connection, ServerSelf } from './connection.ts'
import { withoutServerText } from './error-reasons.ts'
import { createFirstConnection } from './first-connection.ts'
import { createCredentials } from './http-credentials.ts'
import { createIdleTimer } from './idle-timer.ts'
import { ALL, createListRefresh } from './list-refresh.ts'
import { loadManifest, manifestKey, saveManifest } from './manifest.ts'
import { mayInstall } from './package-download.ts'
import { createPrincipalAccess } from './principal-access.ts'
import { emptyListing, type FreshListing, type Listing, readListing } from './read-listing.ts'
import { createReconnectingLink, type ReconnectingLink } from './reconnecting-link.ts'
import { createClaims } from './resource-claims.ts'
import { createServerCalls, retryOf } from './server-calls.ts'
import { createEndpoints, type EndpointsHost } from './server-endpoints.ts'
import { createInstances, nameOfPrincipal } from './server-instances.ts'
import { createOpenTasks, hasTasks, runsAsTask } from './server-tasks.ts'
import { type InstanceKind, isStateful } from './stateful-servers.ts'
import { createTaskRelay } from './task-relay.ts'
import type { ToolRecord } from './tool-definition.ts'
import type { ServerSettings } from './upstream-settings.ts'
import type { UpstreamShared } from './upstream-shared.ts'

export interface UpstreamStatus
  extends Pick<ServerStatus, 'id' | 'reason' | 'tools' | 'notes' | 'transport' | 'era' | 'version' | 'instances'> {
  /** Its category in the catalog. */
  readonly module: string
  readonly state: OwnerState
  readonly reasonFor?: OwnerInfo['reasonFor']
  /** The reason with paths, for operators, if it differs. */
  readonly detail?: string
  readonly start: ServerSettings['start']
  /** True while an answer is expected; `false` for a lazy server that waits for a call. */
  readonly pending: boolean
  /** Milliseconds since the epoch, if an attempt is planned. */
  readonly nextAttemptAt?: number
  /** Duration of the last start in milliseconds. */
  readonly startMs?: number
  /** Its program may be downloading the server. */
  readonly installs?: true
  /** Who shares one running instance. */
  readonly instance: InstanceKind
}

/** One MCP server as an owner in the catalog. It retries connections without end. */
export interface Upstream {
  /** Restores the state of an earlier run, before any server starts. */
  restore(): void
  /**
   * Publishes what is known at once. Known lazy servers wait for a call, unknown ones are connected once to read
   * their lists; the others connect after `delayMs` and stay connected.
   * @param startedTogetherAt the same time for all servers that start together; see `Claims.begin`
   */
  start(delayMs: { readonly cold: number; readonly known: number }, startedTogetherAt: number): void
  /** Connects an unknown server without further delay. */
  begin(): void
  /**
   * Waits for the first connection, for a call.
   * @throws PegboardError E_UPSTREAM_UNAVAILABLE, E_CIRCUIT_OPEN, E_CANCELLED
   */
  waitForConnection(signal?: AbortSignal): Promise<void>
  /** Reads all lists again, connecting if necessary. @throws PegboardError E_UPSTREAM_UNAVAILABLE, E_CIRCUIT_OPEN */
  refresh(): Promise<void>
  /** Ids of the Pegboards that its tools come through. */
  gateways(): readonly string[]
  /** True if nothing is known about the server and it has not failed. */
  isUnknown(): boolean
  /**
   * Round-trip time in milliseconds; undefined if it is not connected.
   * @throws PegboardError E_UPSTREAM_UNAVAILABLE, E_TIMEOUT
   */
  ping(signal?: AbortSignal): Promise<number | undefined>
  /** Checks whether the connection still works, for example after the machine slept. */
  recheck(): Promise<void>
  /** Applies settings that need no restart. */
  apply(settings: ServerSettings): void
  /** Called after a review decision. */
  reviewed(): void
  /** A client session has ended: stops what runs for it alone. */
  ended(session: string): void
  status(): UpstreamStatus
  /** The end of what its process wrote to stderr. */
  stderrTail(): string
  /** Tool settings without effect. */
  problems(): readonly string[]
  /** The own names of all its tools, including excluded ones. */
  offered(): readonly string[]
  /** @param why completes "it was …" for callers */
  stop(graceMs: number, why?: string): Promise<void>
}

/** A server that needs longer for a ping is not healthy. */
const PING_MS = 5_000
/** Time for an idle server to end by itself. */
const REST_MS = 2_000

/** @internal */
export function createUpstream(
  id: string,
  module: string,
  initialSettings: ServerSettings,
  shared: UpstreamShared,
): Upstream {
  const { catalog, clock, hooks, manifests } = shared
  const log = shared.log.scoped(module)
  let settings = initialSettings
  const timeoutMs = (): number => settings.timeoutMs ?? shared.callTimeoutMs
  const limitOf = (method: string): number => (method === 'tasks/result' ? TASK_MS : timeoutMs())
  const key = manifestKey(settings)
  const warn = (message: string): void => log.warn(message)

  let state: OwnerState = 'configured'
  let reason: string | undefined
  let detail: string | undefined
  let serverSelf: ServerSelf | undefined
  // Computed on first use, because a start does not need it.
  const checkStateful = (): boolean => isStateful(settings, serverSelf?.name)
  let stateful = once(checkStateful)
  let capabilities: Json = {}
  let gateways: readonly string[] = []
  let startMs: number | undefined
  let lastDescription = ''
  let listing: Listing = emptyListing

  const loggedIn = (): void => {
    catalog.touch()
    if (link.live) become('ready')
    else if (state === 'failing') link.later(0)
  }
  /** Only if each principal logs in. */
  const access = initialSettings.auth?.perPrincipal
    ? createPrincipalAccess({
        id,
        settings: initialSettings,
        shared,
        log,
        isConnected: () => link.live !== undefined,
        loginsChanged(isOtherFirst) {
          if (isOtherFirst) {
            link.rest(REST_MS)
            link.later(0)
          }
          loggedIn()
        },
        firstListChanged: () => refresh.changed('tools'),
        read: (principal) =>
          instances.using({ principal }, async (via) => {
            const wasConnected = via.live
            const connection = await via.ready()
            return wasConnected && (await readListing(connection, new Set(['tools']), emptyListing, warn))
          }),
      })
    : undefined
  const credentials = access?.credentials ?? createCredentials(id, settings, shared, log, loggedIn)
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
  const link = createReconnectingLink({
    credentials,
    habits,
    id,
    settings: () => settings,
    shared,
    log,
    async opened(connection, beganAt) {
      if (connection.transport === 'stdio') instances.restarted()
      refresh.begin()
      const read = await readLists(connection, ALL, emptyListing)
      // Its owner may no longer be in the catalog.
      if (state === 'stopped') return
      startMs = clock.now() - beganAt
      publishListing(read, connection)
      idle.begin()
      endpoints.restore('', connection)
      refresh.resume()
      log.info('connected', {
        transport: connection.transport,
        era: connection.era,
        tools: publisher.tools,
      })
    },
    keeps: () => settings.start !== 'lazy' || endpoints.follows(''),
    changed(next, why, more) {
      idle.end()
      become(next, why, more)
    },
    notification: (method, params, attributed) => onNotification(method, params, attributed),
    isSilent,
    eraChanged: keep,
  })
  const firstConnection = createFirstConnection({
    clock,
    startQueue: shared.startQueue,
    link,
    isNew: () => state === 'configured',
    staysConnected: () => settings.start === 'background',
  })
  const openTasks = createOpenTasks(clock)
  const idle = createIdleTimer(clock, {
    limitMs: () => (settings.start === 'lazy' ? settings.idleStopMs : 0),
    busy: () => endpoints.follows('') || refresh.busy || openTasks.mayRun(),
    idle() {
      log.info('stopped, because it is unused')
      link.rest(REST_MS)
      instances.released()
    },
  })
  const kind = (): InstanceKind => {
    if (settings.instance !== undefined) return settings.instance
    if (access) return 'principal'
    return asks || stateful() ? 'session' : 'shared'
  }
  const instances = createInstances({
    id,
    shared,
    log,
    main: link,
    openTasks,
    habits,
    settings: () => settings,
    kind,
    isSilent,
    keepsState: () => (settings.instance === undefined ? stateful() : settings.instance !== 'shared'),
    mayShare: () => settings.instance === undefined && !access && !stateful(),
    mainOwner: () => (access ? access.first && nameOfPrincipal(access.first) : null),
    credentials: (principal, loggedIn) =>
      access
        ? createCredentials(id, settings, shared, log, loggedIn, principal)
        : // Shared by all connections, so no connection closes them.
          { open: credentials.open, close: () => undefined },
    follows: (key) => endpoints.follows(key),
    opened(key, { principal }, connection, read) {
      endpoints.restore(key, connection)
      if (principal !== undefined) access?.keepListOf(principal, read)
    },
    notification: (who, method, params, attributed) => onNotification(method, params, attributed, who),
    freeMain() {
      idle.end()
      link.rest(REST_MS)
      if (settings.start !== 'lazy') link.later(0)
    },
    dropped: (key) => endpoints.dropped(key),
  })
  const { withConnectionOf, whileInUse, request, call } = createServerCalls({
    id,
    module,
    log,
    link,
    instances,
    ownLogins: access !== undefined,
    idle,
    openTasks,
    observer: shared.observer,
    settings: () => settings,
    timeoutMs,
    admit: (record) => publisher.admit(record),
    remember: (result) => endpoints.remember(result),
    recovered() {
      if (state === 'failing') become('ready')
    },
    changed: () => refresh.changed('tools'),
    refused: (why) => become('failing', why),
    refusedTo: (principal) => access?.refused(principal),
  })
  const inCallSlot: EndpointsHost['inCallSlot'] = (method, relay, signal, work) => {
    const what = `${method} of ${id}`
    return withCallSlot({ slots: semaphoreOf(capacity), what, relay, signal, timeoutMs: timeoutMs(), clock }, work)
  }
  type Ask = (via: ReconnectingLink, params: Json) => Promise<Json>
  /** Requests about a task go to its connection. With a login per principal the caller of a task request is unknown. */
  async function askByTask(params: Json, relay: Relay, ask: Ask): Promise<Json> {
    if (access) return await withConnectionOf({}, (via) => ask(via, params))
    const { taskId } = params
    const instanceTask = instances.ofTask(taskId)
    if (!instanceTask) return await withConnectionOf(relay, (via) => ask(via, params))
    const answer = await ask(instanceTask.link, { ...params, taskId: instanceTask.taskId })
    return instanceTask.taskId === taskId || answer['taskId'] !== instanceTask.taskId ? answer : { ...answer, taskId }
  }
  const forEndpoints: Pick<EndpointsHost, 'ready' | 'request'> = {
    ready: (signal, who) => withConnectionOf(who, (via) => whileInUse(() => via.ready(signal))),
    request(method, params, relay, signal) {
      const ask: Ask = (via, own) =>
        request(method, { ...own, ...retryOf(relay) }, { timeoutMs: limitOf(method), relay, signal }, via)
      return method.startsWith('tasks/')
        ? askByTask(params, relay, ask)
        : withConnectionOf(relay, (via) => ask(via, params))
    },
  }
  const claims = createClaims({
    id,
    module,
    catalog,
    clock,
    timestamps: shared.timestamps,
    store: shared.claims,
    log,
    later: (work) => shared.saveLater.schedule(`claims ${id}`, work),
  })
  const endpoints: ReturnType<typeof createEndpoints> = createEndpoints({
    id,
    claims,
    timestamps: shared.timestamps,
    live: (who) => instances.liveOf(who),
    keyOf: (who) => instances.keyOf(who),
    inCallSlot,
    tasks: createTaskRelay({ clock, record: openTasks.record, ...forEndpoints }),
    hasTasks: () => !access && hasTasks((link.live ?? link.verdict)?.era ?? 'legacy', capabilities),
    timeoutMs,
    log,
    promptNamed: (exposed) => publisher.promptNamed(exposed),
    ...forEndpoints,
  })
  const refresh = createListRefresh(clock, log, {
    isReady: () => state === 'ready',
    read(kinds) {
      const connection = link.live
      return connection !== undefined && rereadLists(connection, kinds)
    },
  })
  let capacity = capacityOf(settings)
  let publisher = createPublisher(forPublisher())

  function forPublisher(): PublisherOptions {
    const { trust, lostRules } = shared
    const beforePublish = (names: readonly string[]): void => claims.take(names, endpoints.returnedAt)
    const host = { catalog, endpoints, log, trust, lostRules, beforePublish, about: () => serverSelf?.about }
    // Spread last: Node 20 creates a hidden class for each property after a spread, again for each server.
    return { id, module, settings, capacity, available, call, runsAsTask: mayRunAsTask, ...host }
  }

  function mayRunAsTask(record: ToolRecord): boolean {
    return !access && runsAsTask(link.verdict?.era ?? 'legacy', capabilities, record)
  }

  /** No tool is approved, so clients see no text of the server. */
  function isSilent(): boolean {
    return publisher.isQuarantined || shared.trust?.approvesNothingOf(id, settings.trust) === true
  }

  function become(next: OwnerState, why?: string, more?: string): void {
    state = next
    reason = why
    detail = more
    describe(ownerStatus())
  }

  function describe(status: OwnerStatus): void {
    const text = JSON.stringify(status)
    if (text === lastDescription) return
    lastDescription = text
    catalog.describe(module, status)
  }

  /** What the catalog says about the server besides its tools. */
  function ownerStatus(): OwnerStatus {
    const { nextAttemptAt } = link
    const waits = state === 'known' || state === 'connecting'
    const shown = reason !== undefined && state !== 'stopped' && isSilent() ? withoutServerText(reason) : reason
    return {
      state,
      ...omitUndefined({ reason: shown, reasonFor: shown === undefined ? undefined : access?.reasonFor(shown) }),
      ...(reason === undefined || nextAttemptAt === undefined ? {} : { nextAttemptAt }),
      ...(waits && startMs !== undefined ? { startsInMs: startMs } : {}),
    }
  }

  // Tools of a failing server stay listed: changing lists cost clients their caches, and a call explains the failure.
  function available({ principal }: Caller, record?: Pick<ToolRecord, 'text'>): true | string {
    if (state === 'stopped') return reason === undefined ? `${id} is stopped` : `${id} is stopped (${reason})`
    return access?.refusal(principal, record?.text) ?? true
  }

  async function readLists(
    connection: Connection,
    kinds: ReadonlySet<ListKind>,
    before: Listing,
  ): Promise<FreshListing> {
    const read = await readListing(connection, kinds, before, warn).catch((error: unknown) => {
      if (isPegboardError(error) && error.code === 'E_LOOP_DETECTED') rejectLoop()
      throw error
    })
    return access ? access.filterLists(read, kinds) : read
  }

  /** Its list contains Pegboard's own tools. */
  function rejectLoop(): void {
    listing = emptyListing
    gateways = []
    publisher.publish(listing, ownerStatus())
    const connection = link.live
    if (connection) link.lost(connection, 'it leads back to this Pegboard')
  }

  async function rereadLists(connection: Connection, kinds: ReadonlySet<ListKind>): Promise<void> {
    const read = await readLists(connection, kinds, listing)
    if (connection === link.live) publishListing(read, connection)
  }

  function setServerInfo(from: Partial<Pick<Connection, 'server' | 'capabilities' | 'gateways'>> = {}): void {
    serverSelf = from.server
    stateful = once(checkStateful)
    capabilities = from.capabilities ?? {}
    gateways = from.gateways ?? []
  }

  function publishListing(read: FreshListing, connection: Connection): void {
    const { definitions, pages: _pages, ...next } = read
    listing = next
    state = 'ready'
    reason = undefined
    detail = undefined
    setServerInfo(connection)
    const status = ownerStatus()
    if (publisher.publish(next, status, definitions)) lastDescription = JSON.stringify(status)
    else describe(status)
    claims.begun()
    // A list that could not be read proves nothing.
    if (!next.missing && claims.keepOnly(namesOf(next))) catalog.touch()
    claims.logDisputed(next.resources.map(({ uri }) => String(uri)))
    keep(connection)
  }

  /** For the next start. */
  function keep({ capabilities, server }: Connection): void {
    const { verdict } = link
    if (access?.listIsPrivate || !verdict || !manifests) return
    // When the process is idle, because encoding costs as much as reading the lists did.
    shared.saveLater.schedule(key, () => {
      const make = () => ({
        verdict,
        capabilities,
        ...omitUndefined({ server, startMs }),
        ...(asks ? { asks } : {}),
        ...(gateways.length > 0 ? { gateways } : {}),
        ...listing,
        brief: publisher.brief(listing),
      })
      saveManifest(manifests, key, make, log)
    })
  }

  /** The stored manifest is outdated; the server lists its tools again. */
  function discardManifest(): void {
    const outdatedListing = listing
    // Delayed, because the caller is still reading the tools.
    clock.after(0, () => {
      if (listing !== outdatedListing || state === 'stopped') return
      log.info('its cached tool list was changed, so Pegboard reads it again')
      listing = emptyListing
      publisher.publish(listing, ownerStatus())
      link.later(0)
    })
  }

  /** @param whose caller of the connection it arrived on; absent: the first connection */
  function onNotification(method: string, params: Json, attributed: boolean, whose?: RequestOwner): void {
    const list = changedList(method)
    const { uri } = params
    if (list) refresh.changed(list)
    else if (method === 'notifications/message') {
      if (!attributed && !publisher.isQuarantined) tellCallers(whose, (who) => hooks.onLog?.(module, params, who))
    } else if (method === 'notifications/resources/updated') {
      if (typeof uri === 'string') tellCallers(whose, (who) => hooks.onResourceUpdated?.(module, uri, who))
    } else if (method === 'notifications/tasks/status') onTaskStatus(params, whose)
  }

  /** Calls `tell`: without a caller if the connection is shared, otherwise with the caller that has the connection, if any. */
  function tellCallers(whose: RequestOwner | undefined, tell: (who?: RequestOwner) => void): void {
    const who = whose ?? instances.holder
    if (kind() === 'shared') tell()
    else if (who) tell(who)
  }

  function onTaskStatus(params: Json, whose: RequestOwner | undefined): void {
    const { taskId } = params
    const isMain = whose === undefined && typeof taskId === 'string'
    const task = toModernTask(isMain ? { ...params, taskId: instances.nameTask(taskId, link) } : params)
    openTasks.record(task)
    hooks.onTask?.(module, task)
  }

  return {
    restore: claims.restore,
    start(delayMs, startedTogetherAt) {
      const manifest = manifests && loadManifest(manifests, key, log, discardManifest)
      link.verdict = manifest?.verdict
      asks = manifest?.asks === true
      startMs = manifest?.startMs
      listing = manifest ?? emptyListing
      claims.begin(startedTogetherAt)
      setServerInfo(manifest)
      state = manifest ? 'known' : 'configured'
      publisher.publish(listing, ownerStatus())
      if (manifest) claims.begun()
      claims.logDisputed(listing.resources.map(({ uri }) => String(uri)))
      if (settings.start === 'eager') link.later(0)
      else if (manifest) {
        if (settings.start === 'background') link.later(delayMs.known)
      } else firstConnection.plan(delayMs.cold)
    },
    begin: firstConnection.begin,
    waitForConnection: firstConnection.waitForConnection,
    gateways: () => gateways,
    isUnknown: () => (state === 'configured' || state === 'connecting') && publisher.tools === 0,
    async refresh() {
      const wasConnected = link.live
      await link.ready()
      // A new connection has just read them.
      if (!wasConnected) return
      await refresh.all()
    },
    async ping(signal) {
      const connection = link.live
      if (!connection) return undefined
      const beganAt = performance.now()
      // The newer era has no ping; its first request costs as little.
      const method = connection.era === 'modern' ? 'server/discover' : 'ping'
      await connection.request(method, {}, { timeoutMs: PING_MS, signal }).catch((error: unknown) => {
        // Not knowing the method is an answer too.
        if (!isProtocolFailure(error)) throw error
      })
      return Math.round(performance.now() - beganAt)
    },
    async recheck() {
      const connection = link.live
      if (!connection || refresh.busy) return
      await refresh.all().catch((error: unknown) => {
        log.debug('checked after a pause', { error: messageOf(error) })
        link.lost(connection, 'it did not answer after a pause')
      })
    },
    apply(next) {
      settings = next
      stateful = once(checkStateful)
      capacity = capacityOf(settings)
      publisher = createPublisher(forPublisher())
      publisher.publish(listing, ownerStatus())
      idle.end()
      if (state === 'ready') idle.resume()
      else if (settings.start !== 'lazy' && state === 'known') link.later(0)
    },
    reviewed: () => void publisher.publish(listing, ownerStatus()),
    status: () => ({
      id,
      module,
      ...ownerStatus(),
      tools: publisher.tools,
      ...(listing.notes?.length && !publisher.isQuarantined ? { notes: listing.notes } : {}),
      transport: link.live?.transport ?? link.verdict?.transport ?? settings.target.kind,
      ...(serverSelf?.version && !publisher.isQuarantined ? { version: serverSelf.version } : {}),
      start: settings.start,
      pending:
        (link.patient && state !== 'ready') ||
        state === 'configured' ||
        state === 'connecting' ||
        (state === 'known' && link.nextAttemptAt !== undefined),
      ...omitUndefined({ detail, startMs, era: link.live?.era ?? link.verdict?.era }),
      ...(mayInstall(settings) ? { installs: true as const } : {}),
      instance: kind(),
      ...(kind() === 'shared' ? {} : { instances: instances.running }),
    }),
    ended: (session) => instances.ended(session),
    stderrTail: () => link.stderrTail(),
    problems: () => publisher.problems(),
    offered: () => listing.tools.map(({ name }) => name),
    async stop(graceMs, why) {
      firstConnection.cancel()
      refresh.stop()
      idle.end()
      become('stopped', why)
      credentials.close()
      access?.close()
      await Promise.all([link.stop(graceMs), instances.close(graceMs)])
    },
  }
}

const capacityOf = ({ maxConcurrent, maxQueued, where }: ServerSettings): Capacity => ({
  maxConcurrent,
  maxQueued,
  setting: `${where}.maxQueued`,
})

/** Waiting for a task's result may take as long as the task. */
const TASK_MS = 24 * 60 * 60_000
