import type { OwnerInfo, OwnerState } from '../catalog/owner.ts'
import type { ServerStatus } from '../core/caller.ts'
import { changedList } from '../core/list-kinds.ts'
import { isProtocolFailure } from '../core/protocol-failure.ts'
import { toModernTask } from '../core/task-protocol.ts'
import type { Connection } from './connection.ts'
import { createFirstConnection } from './first-connection.ts'
import { createCredentials } from './http-credentials.ts'
import { createIdleTimer } from './idle-timer.ts'
import { ALL, createListRefresh } from './list-refresh.ts'
import { createPrincipalAccess } from './principal-access.ts'
import { emptyListing, readListing } from './read-listing.ts'
import { createReconnectingLink } from './reconnecting-link.ts'
import { createClaims } from './resource-claims.ts'
import { createServerCalls } from './server-calls.ts'
import { createEndpoints, type ServerEndpoints } from './server-endpoints.ts'
import { createServerInfo } from './server-info.ts'
import { createInstances, type InstancesOptions, nameOfPrincipal } from './server-instances.ts'
import { createServerOwner } from './server-owner.ts'
import { createOpenTasks, hasTasks } from './server-tasks.ts'
import { createInstanceSharing, type InstanceKind } from './stateful-servers.ts'
import { createTaskRelay } from './task-relay.ts'
import type { ServerSettings } from './upstream-settings.ts'
import type { ServerContext, UpstreamShared } from './upstream-shared.ts'

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
   * Publishes what is known at once. Eager servers connect at once. The others wait: unknown ones `delayMs.cold`, to read
   * their lists; known background servers `delayMs.known`; known lazy servers for a call. Lazy ones do not stay connected.
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

/** Time for an idle server to end by itself. */
const REST_MS = 2_000

/** @internal */
export function createUpstream(
  id: string,
  module: string,
  initialSettings: ServerSettings,
  shared: UpstreamShared,
): Upstream {
  const { catalog, clock, hooks } = shared
  const log = shared.log.scoped(module)
  let settings = initialSettings
  const server: ServerContext = {
    id,
    module,
    shared,
    log,
    settings: () => settings,
    timeoutMs: () => settings.timeoutMs ?? shared.callTimeoutMs,
  }
  const info = createServerInfo(server, () => {
    if (link.live()) owner.save()
  })
  const isSilent = (): boolean => owner.isSilent()
  const warn = (message: string): void => log.warn(message)

  const loggedIn = (): void => {
    catalog.touch()
    if (link.live()) owner.become('ready')
    else if (owner.state() === 'failing') link.later(0)
  }
  /** Only if each principal logs in. */
  const access = initialSettings.auth?.perPrincipal
    ? createPrincipalAccess(server, {
        isConnected: () => link.live() !== undefined,
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
            const wasConnected = via.live()
            const connection = await via.ready()
            return wasConnected && (await readListing(connection, new Set(['tools']), emptyListing, warn))
          }),
      })
    : undefined
  const ownLogins = access !== undefined
  const credentials = access?.credentials ?? createCredentials(server, loggedIn)
  const sharing = createInstanceSharing(server, info, ownLogins)
  const openTasks = createOpenTasks(clock)
  const onNotification: InstancesOptions['notification'] = (method, params, attributed, via, whose) => {
    const list = changedList(method)
    const { uri, taskId } = params
    if (list) refresh.changed(list)
    else if (method === 'notifications/message') {
      if (attributed || owner.publisher().isQuarantined()) return
      for (const who of instances.recipients(whose)) hooks.onLog?.(module, params, who)
    } else if (method === 'notifications/resources/updated') {
      if (typeof uri !== 'string') return
      for (const who of instances.recipients(whose)) hooks.onResourceUpdated?.(module, uri, who)
    } else if (method === 'notifications/tasks/status') {
      const isNamed = typeof taskId === 'string'
      const task = toModernTask(isNamed ? { ...params, taskId: instances.nameTask(taskId, via) } : params)
      openTasks.record(task)
      hooks.onTask?.(module, task)
    }
  }

  const link = createReconnectingLink({
    credentials,
    habits: info.habits,
    async opened(connection, beganAt) {
      const { transport, era } = connection
      if (transport === 'stdio') instances.restarted()
      refresh.begin()
      const read = await owner.read(connection, ALL)
      // Its owner may no longer be in the catalog.
      if (owner.state() === 'stopped') return
      owner.publish(read, connection, clock.now() - beganAt)
      idle.begin()
      endpoints.restore('', connection)
      refresh.resume()
      log.info('connected', { transport, era, tools: owner.publisher().tools() })
    },
    keeps: () => settings.start !== 'lazy' || endpoints.follows(''),
    changed(next, why, more) {
      idle.end()
      owner.become(next, why, more)
    },
    notification: (method, params, attributed) => onNotification(method, params, attributed, link),
    isSilent,
    eraChanged: () => owner.save(),
    ...server,
  })
  const idle = createIdleTimer(clock, {
    limitMs: () => (settings.start === 'lazy' ? settings.idleStopMs : 0),
    busy: () => endpoints.follows('') || refresh.busy || openTasks.mayRun(),
    idle() {
      log.info('stopped, because it is unused')
      link.rest(REST_MS)
      instances.released()
    },
  })
  const instances = createInstances({
    main: link,
    openTasks,
    habits: info.habits,
    isSilent,
    sharing,
    mainOwner: () => (access ? access.first && nameOfPrincipal(access.first) : null),
    credentials: (principal, loggedIn) =>
      access
        ? createCredentials(server, loggedIn, principal)
        : // Shared by all connections, so no connection closes them.
          { open: credentials.open, close: () => undefined },
    follows: (key) => endpoints.follows(key),
    opened(key, { principal }, connection, read) {
      endpoints.restore(key, connection)
      if (principal !== undefined) access?.keepListOf(principal, read)
    },
    notification: onNotification,
    freeMain() {
      link.rest(REST_MS)
      if (settings.start !== 'lazy') link.later(0)
    },
    dropped: (key) => endpoints.dropped(key),
    ...server,
  })
  const { call, ready, request } = createServerCalls({
    link,
    instances,
    access,
    idle,
    openTasks,
    admit: (record) => owner.publisher().admit(record),
    remember: (result) => endpoints.remember(result),
    recovered() {
      if (owner.state() === 'failing') owner.become('ready')
    },
    toolsChanged: () => refresh.changed('tools'),
    refused: (why) => owner.become('failing', why),
    ...server,
  })
  const claims = createClaims(server)
  const endpoints: ServerEndpoints = createEndpoints({
    claims,
    live: (who) => instances.liveOf(who),
    keyOf: (who) => instances.keyOf(who),
    slots: () => owner.slots(),
    ready,
    request,
    tasks: createTaskRelay({ clock, record: openTasks.record, ready, request }),
    hasTasks: () =>
      !ownLogins && hasTasks((link.live() ?? link.eras.verdict)?.era ?? 'legacy', info.known().capabilities),
    promptNamed: (exposed) => owner.publisher().promptNamed(exposed),
    ...server,
  })
  const owner = createServerOwner(server, { info, link, access, claims, endpoints, call })
  const refresh = createListRefresh(server, link, owner)
  const firstConnection = createFirstConnection(server, link, owner)

  return {
    restore: claims.restore,
    start(delayMs, startedTogetherAt) {
      const isKnown = owner.load(startedTogetherAt)
      if (settings.start === 'eager') link.later(0)
      else if (!isKnown) firstConnection.plan(delayMs.cold)
      else if (settings.start === 'background') link.later(delayMs.known)
    },
    begin: firstConnection.begin,
    waitForConnection: firstConnection.waitForConnection,
    refresh: refresh.all,
    gateways: () => info.known().gateways ?? [],
    isUnknown: () =>
      (owner.state() === 'configured' || owner.state() === 'connecting') && owner.publisher().tools() === 0,
    ping: (signal) => ping(link.live(), signal),
    recheck: refresh.recheck,
    apply(next) {
      settings = next
      owner.applySettings()
      owner.publishKnown()
      idle.end()
      if (owner.state() === 'ready') idle.resume()
      else if (settings.start !== 'lazy' && owner.state() === 'known') link.later(0)
    },
    reviewed: owner.publishKnown,
    status() {
      const instance = sharing.kind()
      return { ...owner.status(), instance, ...(instance === 'shared' ? {} : { instances: instances.running() }) }
    },
    ended: (session) => instances.ended(session),
    stderrTail: () => link.stderrTail(),
    problems: () => owner.publisher().problems(),
    offered: () => info.known().listing.tools.map(({ name }) => name),
    async stop(graceMs, why) {
      firstConnection.cancel()
      refresh.stop()
      idle.end()
      owner.become('stopped', why)
      credentials.close()
      access?.close()
      await Promise.all([link.stop(graceMs), instances.close(graceMs)])
    },
  }
}

/** A server that needs longer for a ping is not healthy. */
const PING_MS = 5_000

async function ping(connection: Connection | undefined, signal?: AbortSignal): Promise<number | undefined> {
  if (!connection) return undefined
  const beganAt = performance.now()
  // The newer era has no ping; its first request costs as little.
  const method = connection.era === 'modern' ? 'server/discover' : 'ping'
  await connection.request(method, {}, { timeoutMs: PING_MS, signal }).catch((error: unknown) => {
    // Not knowing the method is an answer too.
    if (!isProtocolFailure(error)) throw error
  })
  return Math.round(performance.now() - beganAt)
}
