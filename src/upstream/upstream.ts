import type { OwnerInfo, OwnerState } from '../catalog/catalog.ts'
import type { Caller } from '../core/context.ts'
import type { Stop } from '../core/ending.ts'
import { isPegboardError, messageOf } from '../core/errors.ts'
import { isProtocolFailure } from '../core/failure.ts'
import { slotsOf } from '../core/slots.ts'
import { newerTask } from '../core/tasks.ts'
import type { Capacity, Relay, Who } from '../core/tool.ts'
import { createServerCalls, retryOf } from './calls.ts'
import { createClaims } from './claims.ts'
import type { Connection } from './connection.ts'
import { type Credentials, createCredentials } from './credentials.ts'
import type { ToolRecord } from './definition.ts'
import { createEndpoints, type EndpointsHost } from './endpoints.ts'
import { createFirstLook } from './first-look.ts'
import { createIdle } from './idle.ts'
import { mayInstall } from './install.ts'
import { createInstances, nameOfPrincipal } from './instances.ts'
import { createKeeper } from './keep.ts'
import { createLink, type Link } from './link.ts'
import { emptyListing, type Listing, type ListKind, type Read, readListing } from './listing.ts'
import { manifestKey } from './manifest.ts'
import { createOpenTasks } from './open-tasks.ts'
import { inPlace } from './places.ts'
import { createPrincipals } from './principals.ts'
import { createPrivateLists, type OwnList } from './private-lists.ts'
import { createPublisher, type PublisherOptions } from './publish.ts'
import { ALL, createRefresh } from './refresh.ts'
import type { ServerSettings } from './settings.ts'
import type { UpstreamShared } from './shared.ts'
import { type InstanceKind, isStateful } from './stateful.ts'
import { createTaskRelay } from './task-relay.ts'
import { hasTasks, runsAsTask } from './tasks.ts'

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
  /** Tools that were skipped, and what of the others is not enforced. */
  readonly notes?: readonly string[]
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
  /** Its program may be downloading it. */
  readonly installs?: true
  /** Who shares one running copy of it. */
  readonly instance: InstanceKind
  /** How many run; absent where all share one. */
  readonly instances?: number
}

/** One MCP server as an owner in the catalogue. Never gives up. */
export interface Upstream {
  /**
   * Lists what is known from before at once. Lazy servers that are known wait to be called, unknown ones are looked at
   * once; the others connect after `delayMs` and stay.
   */
  start(delayMs: { readonly cold: number; readonly known: number }): void
  /** Makes the first connection to a server never seen without waiting any longer. */
  begin(): void
  /** A live connection to one never seen, for a call that waits for it. @throws PegboardError E_UPSTREAM_UNAVAILABLE, E_CIRCUIT_OPEN, E_CANCELLED */
  meet(signal?: Stop): Promise<void>
  /** Reads all its lists again, connecting first if need be. @throws PegboardError E_UPSTREAM_UNAVAILABLE, E_CIRCUIT_OPEN */
  refresh(): Promise<void>
  /** Ids of the Pegboards its tools come through. */
  readonly gateways: readonly string[]
  /** Nothing is known of it yet, and it is not known to be ill. */
  readonly unseen: boolean
  /** How long it takes to answer, in milliseconds; undefined where it is not connected. @throws PegboardError E_UPSTREAM_UNAVAILABLE, E_TIMEOUT */
  ping(signal?: Stop): Promise<number | undefined>
  /** Finds out whether a connection still is one, as after this machine slept. */
  recheck(): Promise<void>
  /** Takes over settings that do not concern the process or address, which keeps running. */
  apply(settings: ServerSettings): void
  /** Somebody decided which of its tools are let in. */
  reviewed(): void
  /** A session of a client is over: what runs for it alone is stopped. */
  ended(session: string): void
  status(): UpstreamStatus
  /** Settings of its tools that have no effect. */
  problems(): readonly string[]
  /** All its tools by its own names, those left out too. */
  offered(): readonly string[]
  /** @param why as callers read it: "it was …" */
  stop(graceMs: number, why?: string): Promise<void>
}

const LISTS: Readonly<Record<string, ListKind>> = {
  'notifications/tools/list_changed': 'tools',
  'notifications/resources/list_changed': 'resources',
  'notifications/prompts/list_changed': 'prompts',
}
/** A server that needs longer for nothing is not well. */
const PING_MS = 5_000
/** Time for an idle server to end by itself. */
const REST_MS = 2_000

/** @internal */
export function createUpstream(id: string, module: string, given: ServerSettings, shared: UpstreamShared): Upstream {
  const { catalog, clock, hooks } = shared
  const log = shared.log.scoped(module)
  let settings = given
  const timeoutMs = (): number => settings.timeoutMs ?? shared.callTimeoutMs
  const limitOf = (method: string): number => (method === 'tasks/result' ? TASK_MS : timeoutMs())
  const keeper = createKeeper(manifestKey(settings), shared.manifests, shared.later, log)
  const warn = (message: string): void => log.warn(message)

  let state: OwnerState = 'configured'
  let reason: string | undefined
  let detail: string | undefined
  let version: string | undefined
  let serverName: string | undefined
  let capabilities: Json = {}
  let gateways: readonly string[] = []
  let startMs: number | undefined
  let told = ''
  let listing: Listing = emptyListing

  // Where everyone logs in for themselves, the tools of a list are for the login it came from alone, unless the server says otherwise.
  let listIsPrivate = given.auth?.perPrincipal === true
  const loggedIn = (): void => {
    catalog.touch()
    if (link.live) become('ready')
    else if (state === 'failing') link.later(0)
  }
  const principals = given.auth?.perPrincipal
    ? createPrincipals(id, given, shared, log, (isOtherFirst) => {
        if (listIsPrivate && link.live) ownLists?.keep(principals?.known ?? [])
        if (isOtherFirst) {
          link.rest(REST_MS)
          link.later(0)
        }
        loggedIn()
      })
    : undefined
  const ownLists =
    principals &&
    createPrivateLists({
      clock,
      log,
      read: (principal) =>
        instances.using({ principal }, async (via) => {
          const before = via.live
          const connection = await via.ready()
          if (!before) return undefined
          const heard = createHeard()
          const { tools } = await readListing(connection, new Set(['tools']), emptyListing, warn, heard.page)
          return ownList(tools, heard)
        }),
      changed(principal) {
        if (principal === principals.first) refresh.changed('tools')
        catalog.touch()
      },
      refused: principals.refused,
    })
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
      refresh.begin()
      const read = await readLists(connection, ALL, emptyListing, firstLook.awaited && publisher.canWait)
      startMs = clock.now() - beganAt
      show(read, connection)
      idle.begin()
      endpoints.restore('', connection)
      refresh.resume()
      log.info('connected', {
        transport: connection.transport,
        era: connection.era,
        tools: read.unread?.sent.length ?? publisher.tools,
      })
    },
    keeps: () => settings.start !== 'lazy' || endpoints.follows(''),
    changed(next, why, more) {
      idle.end()
      become(next, why, more)
    },
    notification: (method, params, attributed) => onNotification(method, params, attributed),
    relearnt: keep,
  })
  const firstLook = createFirstLook({
    clock,
    turns: shared.turns,
    link,
    isNew: () => state === 'configured',
    stays: () => settings.start === 'background',
  })
  const openTasks = createOpenTasks(clock)
  const idle = createIdle(clock, {
    limitMs: () => (settings.start === 'lazy' ? settings.idleStopMs : 0),
    busy: () => endpoints.follows('') || refresh.busy || openTasks.any(),
    idle() {
      log.info('stopped, because nobody uses it')
      link.rest(REST_MS)
      instances.released()
    },
  })
  const kind = (): InstanceKind => {
    if (settings.instance !== undefined) return settings.instance
    if (principals) return 'principal'
    return asks || isStateful(settings, serverName) ? 'session' : 'shared'
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
    mayShare: () => settings.instance === undefined && !principals && !isStateful(settings, serverName),
    mainIsOf: () => (principals ? principals.first && nameOfPrincipal(principals.first) : null),
    credentials: (principal, loggedIn) =>
      principals ? createCredentials(id, settings, shared, log, loggedIn, principal) : lent(credentials),
    follows: (key) => endpoints.follows(key),
    opened(key, { principal }, connection, tools, pages) {
      endpoints.restore(key, connection)
      if (principal === undefined || !listIsPrivate) return
      const heard = createHeard()
      for (const page of pages) heard.page(page)
      ownLists?.set(principal, ownList(tools, heard))
    },
    notification: (who, method, params, attributed) => onNotification(method, params, attributed, who),
    freeMain() {
      idle.end()
      link.rest(REST_MS)
      if (settings.start !== 'lazy') link.later(0)
    },
    dropped: (key) => endpoints.dropped(key),
  })
  const { by, used, request, call } = createServerCalls({
    id,
    module,
    log,
    link,
    instances,
    ownLogins: principals !== undefined,
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
    refusedTo: (principal) => principals?.refused(principal),
  })
  const placed: EndpointsHost['placed'] = (method, relay, signal, work) => {
    const what = `${method} of ${id}`
    return inPlace({ slots: slotsOf(capacity), what, relay, signal, timeoutMs: timeoutMs(), clock }, work)
  }
  /** Requests about a task go where it was begun. Where everyone logs in for themselves, who asks for one is not known. */
  const byTask = <T>(params: Json, relay: Relay, work: (via: Link) => Promise<T>): Promise<T> => {
    if (principals) return by({}, work)
    const at = instances.ofTask(params['taskId'])
    return at ? work(at) : by(relay, work)
  }
  const forEndpoints: Pick<EndpointsHost, 'ready' | 'request'> = {
    ready: (signal, who) => by(who, (via) => used(() => via.ready(signal))),
    request(method, params, relay, signal) {
      const ask = (via: Link): Promise<Json> => {
        const asking = instances.asking(relay, via, relay)
        return request(
          method,
          { ...params, ...retryOf(relay) },
          { timeoutMs: limitOf(method), relay: asking, signal },
          via,
        )
      }
      return method.startsWith('tasks/') ? byTask(params, relay, ask) : by(relay, ask)
    },
  }
  const endpoints: ReturnType<typeof createEndpoints> = createEndpoints({
    id,
    ...forEndpoints,
    live: (who) => instances.liveOf(who),
    keyOf: (who) => instances.keyOf(who),
    placed,
    tasks: createTaskRelay({ ...forEndpoints, clock, saw: openTasks.saw }),
    hasTasks: () => !principals && hasTasks((link.live ?? link.verdict)?.era ?? 'legacy', capabilities),
    get timeoutMs() {
      return timeoutMs()
    },
    log,
    promptNamed: (exposed) => publisher.promptNamed(exposed),
  })
  const claim = createClaims(catalog, module, endpoints, log)
  const refresh = createRefresh(clock, log, {
    isReady: () => state === 'ready',
    read(kinds) {
      const connection = link.live
      return connection !== undefined && again(connection, kinds)
    },
  })
  let capacity = capacityOf(settings)
  let publisher = createPublisher(forPublisher())

  function forPublisher(): PublisherOptions {
    const { trust, lostRules } = shared
    const host = { id, module, settings, capacity, available, call, runsAsTask: asTask }
    return { ...host, catalog, endpoints, log, trust, lostRules }
  }

  function asTask(record: ToolRecord): boolean {
    return !principals && runsAsTask(link.verdict?.era ?? 'legacy', capabilities, record)
  }

  function become(next: OwnerState, why?: string, more?: string): void {
    state = next
    // What a server printed last follows the first colon.
    reason = why !== undefined && publisher.isQuarantined ? why.split(': ')[0] : why
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
    if (state === 'stopped') return reason === undefined ? `${id} is stopped` : `${id} is stopped (${reason})`
    if (!principals) return true
    if (!principals.has(principal)) return `run \`pegboard auth ${id} --principal ${principal}\``
    if (!listIsPrivate) return true
    // Its own list has to name it, word for word.
    if (record ? ownLists?.has(principal, record.text) : principal === principals.first) return true
    return `what ${id} lists is private to another login`
  }

  // --- lists --------------------------------------------------------------------------------------------------------

  async function readLists(
    connection: Connection,
    kinds: ReadonlySet<ListKind>,
    before: Listing,
    later = false,
  ): Promise<Read> {
    const heard = createHeard()
    const reading = readListing(connection, kinds, before, warn, heard.page, later && !principals)
    const read = await reading.catch((error: unknown) => {
      if (isPegboardError(error) && error.code === 'E_LOOP_DETECTED') leadsBack()
      throw error
    })
    if (!principals || !ownLists) return read
    if (kinds.has('tools')) {
      listIsPrivate = !heard.isPublic
      const { first } = principals
      if (first !== undefined && listIsPrivate) ownLists.set(first, ownList(read.tools, heard), true)
      ownLists.keep(listIsPrivate ? principals.known : [])
    }
    // What one login lists is shown to nobody. A resource that a call was told of is read with the caller's own.
    return { ...read, resources: [], templates: [], prompts: [] }
  }

  /** What it lists is our own, once more. */
  function leadsBack(): void {
    listing = emptyListing
    gateways = []
    publisher.publish(listing, standing())
    const connection = link.live
    if (connection) link.lost(connection, 'it leads back to this Pegboard')
  }

  async function again(connection: Connection, kinds: ReadonlySet<ListKind>): Promise<void> {
    const read = await readLists(connection, kinds, listing)
    if (connection === link.live) show(read, connection)
  }

  function show(read: Read, connection: Connection): void {
    const { definitions, unread, ...next } = isBare(read) ? read : looked(read)
    claim(next.resources)
    listing = next
    state = 'ready'
    reason = undefined
    detail = undefined
    version = connection.server?.version
    serverName = connection.server?.name
    capabilities = connection.capabilities
    gateways = connection.gateways
    const now = standing()
    const text = JSON.stringify(now)
    if (unread) {
      listing = publisher.publishUnread(next, unread, now)
      shared.unread.add(id, () => void listing.tools)
    } else if (!publisher.publish(next, now, definitions) && text !== told) catalog.describe(module, now)
    told = text
    keep(connection)
  }

  /** For the next start. */
  function keep({ capabilities, server }: Connection): void {
    const { verdict } = link
    if (listIsPrivate || !verdict) return
    keeper.keep(() => ({
      verdict,
      capabilities,
      ...(server ? { server } : {}),
      ...(startMs === undefined ? {} : { startMs }),
      ...(asks ? { asks } : {}),
      ...(gateways.length > 0 ? { gateways } : {}),
      ...listing,
      brief: publisher.brief(listing),
    }))
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

  /** @param whose connection it came on; absent: the first */
  function onNotification(method: string, params: Json, attributed: boolean, whose?: Who): void {
    const list = LISTS[method]
    if (list) {
      refresh.changed(list)
    } else if (method === 'notifications/message') {
      if (attributed || publisher.isQuarantined) return
      if (kind() === 'shared') hooks.onLog?.(module, params)
      else {
        // What a server says to one of its callers is nobody else's.
        const who = whose ?? instances.holder
        if (who) hooks.onLog?.(module, params, who)
      }
    } else if (method === 'notifications/resources/updated' && typeof params['uri'] === 'string')
      hooks.onResourceUpdated?.(module, params['uri'], params)
    else if (method === 'notifications/tasks/status') {
      const task = newerTask(params)
      openTasks.saw(task)
      hooks.onTask?.(module, task)
    }
  }

  return {
    start(delayMs) {
      const known = keeper.recall(relearn)
      link.verdict = known?.verdict
      asks = known?.asks === true
      gateways = known?.gateways ?? []
      startMs = typeof known?.startMs === 'number' ? known.startMs : undefined
      listing = known ?? emptyListing
      claim(listing.resources)
      version = known?.server?.version
      serverName = known?.server?.name
      capabilities = known?.capabilities ?? {}
      state = known ? 'known' : 'configured'
      publisher.publish(listing, standing())
      if (settings.start === 'eager') link.later(0)
      else if (known) {
        if (settings.start === 'background') link.later(delayMs.known)
      } else firstLook.plan(delayMs.cold)
    },
    begin: firstLook.begin,
    meet: firstLook.meet,
    get gateways() {
      return gateways
    },
    get unseen() {
      return (state === 'configured' || state === 'connecting') && publisher.tools === 0
    },
    async refresh() {
      const had = link.live
      await link.ready()
      // A new connection has just read them.
      if (!had) return
      await refresh.all()
    },
    async ping(signal) {
      const connection = link.live
      if (!connection) return undefined
      const beganAt = performance.now()
      // The newer era has no ping; what it begins with costs as little.
      const method = connection.era === 'modern' ? 'server/discover' : 'ping'
      await connection.request(method, {}, { timeoutMs: PING_MS, signal }).catch((error: unknown) => {
        // That it does not know the word is an answer.
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
      capacity = capacityOf(settings)
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
      ...(listing.notes?.length && !publisher.isQuarantined ? { notes: listing.notes } : {}),
      transport: link.live?.transport ?? link.verdict?.transport ?? settings.target.kind,
      ...eraOf(link),
      ...(version === undefined || version === '' || publisher.isQuarantined ? {} : { version }),
      start: settings.start,
      pending:
        (link.patient && state !== 'ready') ||
        state === 'configured' ||
        state === 'connecting' ||
        (state === 'known' && link.nextAttemptAt !== undefined),
      ...(startMs === undefined ? {} : { startMs }),
      ...(mayInstall(settings) ? { installs: true as const } : {}),
      instance: kind(),
      ...(kind() === 'shared' ? {} : { instances: instances.running }),
    }),
    ended: (session) => instances.ended(session),
    problems: () => publisher.problems(),
    offered: () => listing.tools.map(({ name }) => name),
    async stop(graceMs, why) {
      firstLook.cancel()
      refresh.stop()
      idle.end()
      become('stopped', why)
      ownLists?.stop()
      credentials.close()
      principals?.close()
      await Promise.all([link.stop(graceMs), instances.close(graceMs)])
    },
  }
}

const isBare = ({ resources, templates, prompts }: Read): boolean =>
  resources.length + templates.length + prompts.length === 0

/** Whether resources and prompts are shown depends on what the tools turn out to be. */
const looked = ({ unread, ...rest }: Read): Read => (unread ? { ...rest, ...unread.read() } : rest)

const capacityOf = ({ maxConcurrent, maxQueued, where }: ServerSettings): Capacity => ({
  maxConcurrent,
  maxQueued,
  setting: `${where}.maxQueued`,
})

/** What the pages of a list say of who may keep it: the strictest holds. */
function createHeard() {
  let isPublic = true
  let ttlMs: number | undefined
  return {
    page({ cacheScope, ttlMs: ttl }: Json): void {
      isPublic &&= cacheScope === 'public'
      if (typeof ttl === 'number') ttlMs = Math.min(ttlMs ?? ttl, ttl)
    },
    get isPublic() {
      return isPublic
    },
    get ttlMs(): OwnList['ttlMs'] {
      return ttlMs
    },
  }
}

const ownList = (tools: Listing['tools'], { ttlMs }: Pick<OwnList, 'ttlMs'>): OwnList => ({
  texts: new Set(tools.map(({ text }) => text)),
  ttlMs,
})

/** The login of a server entry is that of all its connections, and none of them ends it. */
const lent = (credentials: Credentials): Credentials => ({ open: () => credentials.open(), close: () => undefined })

function eraOf({ live, verdict }: Link): Pick<UpstreamStatus, 'era'> {
  const era = live?.era ?? verdict?.era
  return era === undefined ? {} : { era }
}

/** Waiting for the result of a task takes as long as the task. */
const TASK_MS = 24 * 60 * 60_000
