import { createHmac } from 'node:crypto'
import { realpathSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { parseToolCalls } from './agent/parse.ts'
import { createApproval } from './approval.ts'
import { type Catalog, clashSentence, createCatalog } from './catalog/catalog.ts'
import { warnOfClashes } from './catalog/clashes.ts'
import { claimedNames, serverNamed, sharedNameSentence } from './claimed-names.ts'
import type { Config } from './config/load.ts'
import { planReload } from './config/reload.ts'
import { rootsOf } from './config/roots.ts'
import { awake } from './core/awake.ts'
import { type Clock, systemClock } from './core/clock.ts'
import { type Caller, localCaller } from './core/context.ts'
import { messageOf, PegboardError } from './core/errors.ts'
import { knownSecrets, secretsOf } from './core/known-secrets.ts'
import { type Log, silentLog } from './core/log.ts'
import { once } from './core/once.ts'
import { DEFAULT_PROFILE } from './core/profile.ts'
import { createSignal } from './core/signal.ts'
import { estimateTokens } from './core/tokens.ts'
import type { Who } from './core/tool.ts'
import { type CallRequest, type Calls, createCalls } from './exec/call.ts'
import { createCallLog } from './exec/call-log.ts'
import { createGate } from './exec/gate.ts'
import { createInspections, inspectObject, inspectQuestion } from './exec/inspect.ts'
import { createRepeats } from './exec/repeats.ts'
import { createLearnt } from './learnt.ts'
import { createLoader, type Loader } from './loader/load.ts'
import { OWN } from './loader/other-name.ts'
import { lostRulesOf } from './lost-rules.ts'
import type { Host } from './meta/host.ts'
import { createSurface, META_NAMES, type Surface } from './meta/surface.ts'
import { createTurns } from './meta/turns.ts'
import { createAudit } from './observe/audit.ts'
import { createLoopWatch } from './observe/loop-watch.ts'
import { createObserved } from './observed.ts'
import type { KeptList } from './openapi/api.ts'
import { type Apis, createApis } from './openapi/apis.ts'
import { ownFilesOf } from './own-files.ts'
import { embeddedTable, ownPackage } from './package.ts'
import { createPlanned } from './planned.ts'
import { protectOwnFiles } from './policy/own-files.ts'
import { cleanUnfinished } from './policy/unfinished.ts'
import { createPrograms } from './programs/programs.ts'
import { createReading } from './reading.ts'
import { createRules, type FlagChanges } from './rules.ts'
import type { LoadProgress } from './search/embedder.ts'
import type { SearchStatus } from './search/index.ts'
import type { EmbeddingTable } from './search/table.ts'
import { createSearching } from './searching.ts'
import { createElsewhere } from './server/elsewhere.ts'
import type { ServerHost } from './server/host.ts'
import { createLists } from './server/lists.ts'
import { createResumes } from './server/resume.ts'
import { rightsNow } from './server/rights.ts'
import { createTaskBook } from './server/task-book.ts'
import { serveTasks } from './server/tasks-elsewhere.ts'
import { createFileTokens, createSharedTokens } from './server/tokens.ts'
import { createServerList, createServers } from './servers.ts'
import { createOffer } from './services.ts'
import { createCommonClock } from './state/common-clock.ts'
import { createBytesStore, createFileStore } from './state/files.ts'
import { MAX_DEPTH, removeLeftovers } from './state/leftovers.ts'
import { readSecret } from './state/secret.ts'
import { createLocalShared, createRedisShared, type Shared } from './state/shared.ts'
import { shareDecisions } from './trust/decisions.ts'
import { type LockDigests, lockFile } from './trust/lock.ts'
import { createTrust, type Kept } from './trust/trust.ts'
import type { KeptUnmet } from './trust/unmet.ts'
import type { UpstreamStatus } from './upstream/upstream.ts'
import { createUpstreams, type Upstreams } from './upstream/upstreams.ts'
import { decideExposure, type Exposure } from './view/exposure.ts'
import { createExposures } from './view/exposures.ts'
import { createInjected } from './view/injected.ts'
import { createLimits } from './view/limits.ts'
import { createNotices } from './view/notices.ts'
import { createSections } from './view/sections.ts'
import { createViews, MERGE_FAILED } from './view/view.ts'

export interface AppOptions {
  readonly log?: Log
  readonly clock?: Clock
  /** The environment of the process; children get a small part of it. */
  readonly env?: Readonly<Record<string, string | undefined>>
  /** How long connecting waits after `start`, for servers never seen and for known ones. Default 250 and 1,000. */
  readonly connectDelayMs?: { readonly cold?: number; readonly known?: number }
  /** The embedded search model; default is the one of the package. */
  readonly table?: () => EmbeddingTable
  /** Lets in only upstream tools that the lock file has, and writes nothing to it. */
  readonly frozen?: boolean
  /** Told of secrets that come up while it runs, such as tokens of servers. */
  readonly know?: (secrets: readonly string[]) => void
  /** How many lines of the log nobody read. */
  readonly unwritten?: () => number
  /** Called before a drop-in is imported. */
  readonly beforeDropIns?: () => void
  /** Told how far an optional search model is loaded. */
  readonly onModelProgress?: (progress: LoadProgress) => void
}

/** Pegboard without a door: everything but a transport. */
export interface App extends Host {
  readonly catalog: Catalog
  readonly log: Log
  readonly surface: Surface
  readonly loader: Loader
  readonly upstreams: Upstreams
  readonly apis: Apis
  /** What a transport needs. */
  readonly server: ServerHost
  /** How tools would be shown to a caller who came now; nothing is remembered. */
  explainExposure(caller: Caller, change?: Partial<Config['exposure']>): Exposure
  /** Estimated tokens of what a client is really sent in a mode. */
  listedTokens(caller: Caller, mode: Exposure['mode']): number
  /** A 2025-era session ended. */
  forget(session: string): void
  /** Whether modules are still being loaded. */
  loading(): boolean
  /** Files that could not be loaded, and why. */
  failed(): readonly { readonly file: string; readonly error: string; readonly code: string }[]
  /** Names that clash, and settings of servers' tools that have no effect, as sentences. */
  nameProblems(): readonly string[]
  /** Constraint entries that name no tool. */
  unknownActions(): readonly { readonly owner: string; readonly action: string }[]
  /** Modules that the configuration names and of which a caller sees no tool, with what would change that, as sentences. */
  idleModules(caller: Caller): readonly string[]
  /** Connects to what several servers have in common, where the configuration names it. @throws PegboardError E_STATE */
  open(): Promise<void>
  /** Opens, and loads modules. Upstreams whose manifest is known are in the catalogue afterwards; connections follow on their own. */
  start(): Promise<void>
  /**
   * From now on does what clients have planned: calls that are scheduled or repeated. For a process that serves. Begins when
   * servers that are being looked at for the first time have come, after three seconds at the latest.
   */
  work(): Promise<void>
  /**
   * The first list is out: looks at servers never seen, and indexes for search ahead of the first query, from now on after
   * each change, in small slices.
   */
  warm(): void
  /** Resolves when all tools of this moment are indexed, an optional model's vectors included, or when that model failed. */
  indexed(): Promise<void>
  searchStatus(): SearchStatus
  /** The lock file was changed: lets in what is approved now, and keeps out what is not. */
  reviewed(): void
  /**
   * Resolves when every upstream has answered or failed, after `timeoutMs` at the latest.
   * @param awaited which are waited for, asked again after each change; default all
   */
  settled(
    timeoutMs: number,
    awaited?: (server: Pick<UpstreamStatus, 'id' | 'module' | 'tools'>) => boolean,
  ): Promise<void>
  /** Takes over what can change live. Answers which keys did and which wait for a restart. */
  reload(config: Config): Promise<{ readonly live: readonly string[]; readonly restart: readonly string[] }>
  /** Refuses new calls and waits for those that run, `graceMs` at most. */
  drain(graceMs: number): Promise<void>
  stop(): Promise<void>
}

/** Puts the parts together. Nothing runs until `start`. */
export function createApp(config: Config, options: AppOptions = {}): App {
  const log = options.log ?? silentLog
  const machine = options.clock ?? systemClock
  const common = config.state.url === undefined ? undefined : createCommonClock(machine)
  const clock = common ?? machine
  const own = ownPackage()
  let current = config
  // Nothing is looked up before a module uses a path.
  let ownFiles = once(() => ownFilesOf(current, options.env ?? {}, own.root))
  let stopProtecting: (() => void) | undefined

  let flags: FlagChanges = {}
  let rules = createRules(config)
  let limits = createLimits(config.clients)
  const catalog = createCatalog(new Set(META_NAMES), (error, server) =>
    log.error(server === undefined ? MERGE_FAILED : 'the tools of a server could not be made', {
      ...(server === undefined ? {} : { server }),
      error: messageOf(error),
    }),
  )
  const claim = (now: Config): void => catalog.claim(claimedNames(now, [own.modules, now.modulesDir]))
  claim(config)
  const views = createViews({
    catalog,
    rulesOf: (profile) => rules.of(profile),
    limitsOf: (client) => limits(client),
    log,
  })
  const exposures = createExposures(
    (profile) => rules.of(profile).exposure,
    (caller) => surface.beside(caller),
  )
  const { file, dirs } = config
  const logged = createSignal<[message: Readonly<Record<string, unknown>>, owner?: string, who?: Who]>()
  const listServers = createServerList({
    statuses: () => upstreams.status(),
    view: (caller) => views.viewFor(caller),
    version: () => catalog.snapshot().version,
    owners: () => catalog.snapshot().owners,
    clock,
  })
  const ofEnvironment = secretsOf(options.env ?? {})
  const inspections = createInspections([...config.secrets, ...ofEnvironment])
  const learnt = createLearnt((secrets) => {
    inspections.know([...config.secrets, ...current.secrets, ...ofEnvironment, ...secrets])
    options.know?.(secrets)
  })
  const ownSecrets = once(() => knownSecrets(ofEnvironment))
  function inspectAnswer<T extends object>(caller: Caller, owner: string, answer: T): T {
    const level = views.viewFor(caller).policy.tripwire({ module: owner, tripwire: 'warn' })
    const inspection = inspections.of(level, undefined)
    return inspection ? inspectObject(answer, inspection) : answer
  }
  function inspectAsked(caller: Caller, owner: string, params: unknown): unknown {
    const inspection = inspections.of(
      views.viewFor(caller).policy.tripwire({ module: owner, tripwire: 'warn' }),
      undefined,
    )
    return inspection ? inspectQuestion(params, inspection) : params
  }
  const audit = config.audit.enabled
    ? createAudit({
        ...config.audit,
        file: config.audit.file ?? join(dirs.state, 'audit.jsonl'),
        anchorDir: join(dirs.state, 'audit'),
        clock,
        log: log.scoped('audit'),
        key: () =>
          readSecret(join(dirs.state, 'audit.key'), (error) =>
            log.warn('the key of the audit log could not be kept: what is written now cannot be checked later', {
              error: messageOf(error),
            }),
          ),
        hide: inspections.hide,
      })
    : undefined
  const observed = createObserved({
    config,
    env: options.env ?? {},
    version: own.version,
    log: log.scoped('telemetry'),
    parts: {
      calls: () => calls.load(),
      upstreams: () => upstreams.status(),
      tasks: () => planned.tasks.running,
      kept: (kind) => (shared.hasPast ? shared.store().table(kind).count() : undefined),
      auditDropped: () => audit?.dropped ?? 0,
      logDropped: () => options.unwritten?.() ?? 0,
    },
  })
  const observer = observed?.observer
  const shared: Shared =
    config.state.url === undefined || !common
      ? createLocalShared(
          {
            database: join(dirs.state, 'state.db'),
            key: join(dirs.state, 'state.key'),
            ...(config.state.exclusive ? { lock: join(dirs.state, 'alone.db') } : {}),
          },
          clock,
          log,
        )
      : createRedisShared(config.state.url, config.state.prefix, common, log.scoped('state'))
  const injected = createInjected(clock, shared)
  const turns = createTurns()
  const { callLog } = config.services
  const records = callLog === 0 ? null : createCallLog({ size: callLog, clock })
  // Made for the first program: most configurations let tools start none.
  const programs = once(() => {
    usedPrograms = true
    return createPrograms({
      platform: process.platform,
      environment: options.env ?? {},
      warn: (message) => log.warn(message),
    })
  })
  let usedPrograms = false
  const offer = createOffer({
    processes: programs,
    config,
    catalog,
    clock,
    log,
    injected,
    servers: (user) =>
      createServers(
        {
          upstreams,
          list: listServers,
          view: (caller) => views.viewFor(caller),
          isAdmin: (caller) => offer.isAdmin(caller),
          inspect: inspectAnswer,
        },
        user,
      ),
    table: config.search.embedder === 'none' ? undefined : (options.table ?? embeddedTable),
    view: (caller) => views.viewFor(caller),
    profileOf: (caller) => views.viewFor(caller).profile,
    reload: (name) => loader.reload(name),
    store: () => shared.store(),
    facts: (caller) => planned.factsOf(caller),
    async task(owner, id) {
      const task = await planned.tasks.get(owner, id)
      if (!task) return null
      const { status, outcome } = task
      if (!outcome) return { status }
      return outcome.success ? { status, result: outcome.data } : { status, error: outcome.error }
    },
  })
  // Clients call what they know before modules of a slow machine are there.
  let loading: Promise<void> | undefined
  const serversRead = createReading({
    catalog,
    clock,
    view: (caller) => views.viewFor(caller),
    begin: () => upstreams.begin(),
  })
  async function missed(name: string, { caller, abort, signal, within }: CallRequest): Promise<boolean> {
    if (loading) {
      await loading
      if (views.viewFor(caller).resolve(name).kind !== 'unknown') return true
    }
    const files = loader.pending.filter((file) => views.viewFor(caller).policy.sees(stemOf(file), caller))
    if (files.length > 0)
      throw new PegboardError(
        'E_LOADING',
        `'${name}' is not known yet: ${files.slice(0, 5).join(', ')} is being loaded.`,
        {
          retryAfterMs: 2_000,
        },
      )
    const found = views.viewFor(caller).resolve(name)
    if (found.kind === 'unknown' && !found.down && found.sameModule.length === 0) {
      await serversRead(caller)
      if (views.viewFor(caller).resolve(name).kind !== 'unknown') return true
    }
    return upstreams.missed(name, {
      signal: abort ?? signal ?? within,
      sees: (owner) => views.viewFor(caller).policy.sees(owner, caller),
    })
  }
  const calls: Calls = createCalls({
    gate: createGate({ clock, hide: inspections.hide }),
    audit,
    observer,
    inspections,
    secrets: ownSecrets,
    servicesFor: offer.servicesFor,
    fetch: offer.fetch,
    onInjected: (caller, names) => offer.inject(caller, names).unknown,
    views,
    anyTool: (id) => catalog.snapshot().byId.get(id),
    settings: config.execution,
    roots: () => rootsOf(current),
    log,
    shared: () => loader.shared,
    missing: (name, request) => missed(name, request),
  })

  const servicesOf = (caller: Caller) =>
    offer.servicesFor({ module: 'context_builder', caller, profile: views.viewFor(caller).profile })
  const tokens = common
    ? createSharedTokens(shared, clock, log.scoped('tokens'))
    : createFileTokens(join(dirs.state, 'tokens'), clock, log.scoped('tokens'))
  async function open(): Promise<void> {
    await shared.open()
    await tokens.open()
  }
  const { execution } = config
  const planned = createPlanned({
    execution,
    shared,
    clock,
    log,
    rightsNow: rightsNow(config.server.http, (name) => rules.ids.includes(name), tokens, clock.now),
    calls,
    callAsClient: (request) => surface.call(request),
    view: (caller) => views.viewFor(caller),
    adapters: (caller) => servicesOf(caller).adapters,
    files: offer.files,
    hide(text) {
      const own = ownSecrets()
      return inspections.hide(own ? own.hide(text) : text)
    },
    arriving: () => upstreams.arriving,
  })
  let loaded = false
  const loadedFiles = createFileStore<string>(join(dirs.cache, 'modules'))

  const loader = createLoader({
    catalog,
    log,
    clock,
    bundledDirs:
      config.modulesDir !== undefined && sameFolder(config.modulesDir, join(own.root, 'modules')) ? [] : [own.modules],
    ...(config.modulesDir === undefined ? {} : { modulesDir: config.modulesDir }),
    isTaken: (id) => serverNamed(current, id) !== undefined,
    autoload: config.autoload,
    servicesFor: offer.servicesFor,
    settings: config.modules,
    vars: {
      workspace: config.dirs.workspace,
      state_dir: config.dirs.state,
      cache_dir: config.dirs.cache,
      ...(config.file === undefined ? {} : { config_file: config.file }),
      user_agent: config.services.fetch.userAgent,
      env: options.env ?? {},
    },
    importTimeoutMs: config.loader.importTimeoutMs,
    ...(options.beforeDropIns ? { beforeDropIns: options.beforeDropIns } : {}),
    loadedBefore: {
      get: () => loadedFiles.get('loaded'),
      set: (digest) => loadedFiles.set('loaded', digest),
    },
    startTimeoutMs: config.loader.startTimeoutMs,
    runStep: (id, input) => calls.call({ name: id, input, caller: localCaller, origin: 'setup' }),
  })

  /** What processes before this one left when they were killed in the middle of writing. */
  async function tidyUp(): Promise<void> {
    await Promise.all([dirs.state, dirs.cache].map((folder) => removeLeftovers(folder)))
    const lock = lockFile(file)
    if (lock !== undefined)
      await removeLeftovers(dirname(lock), (name) => name.startsWith(`${basename(lock)}.`), MAX_DEPTH)
  }
  const loop = createLoopWatch(clock, log, () => calls.load().running)
  const trust = createTrust({
    file: lockFile(file),
    reserved: new Set(META_NAMES),
    log: log.scoped('trust'),
    clock,
    kept: createFileStore<Kept>(join(dirs.state, 'trust'), (error) =>
      log.warn('approved definitions could not be kept', { error: messageOf(error) }),
    ),
    digests: createFileStore<LockDigests>(join(dirs.state, 'lock'), (error) =>
      log.warn('what the lock file has could not be kept', { error: messageOf(error) }),
    ),
    unmet: createFileStore<KeptUnmet>(join(dirs.state, 'trust'), (error) =>
      log.warn('what tools say of tools that are not there yet could not be kept', { error: messageOf(error) }),
    ),
    ...(options.frozen === undefined ? {} : { frozen: options.frozen }),
  })
  const decisions = common && shareDecisions(trust, shared, log.scoped('trust'))
  const updated = createSignal<[owner: string, uri: string]>()
  const tasked = createSignal<[string, Readonly<Record<string, unknown>>]>()
  // Processes that share a state serve one gateway; several configurations may share a state folder.
  const gateway = once(() =>
    createHmac('sha256', shared.key())
      .update(`gateway\n${file ?? dirs.workspace}`)
      .digest('hex')
      .slice(0, 32),
  )
  const upstreams = createUpstreams({
    catalog,
    log,
    clock,
    servers: config.servers,
    manifests: createBytesStore(join(config.dirs.state, 'manifests'), (error) =>
      log.warn('a manifest could not be kept or read', { error: messageOf(error) }),
    ),
    trust,
    lostRules: lostRulesOf(() => current),
    observer,
    environment: options.env ?? {},
    tokens: async () => {
      const { openTokenStore } = await import('./upstream/oauth/open.ts')
      const store = await openTokenStore(config.dirs.state, options.env ?? {}, (message) => log.warn(message))
      return { ...store, ...learnt.from(store) }
    },
    clientInfo: { name: 'pegboard', version: own.version },
    gateway,
    callTimeoutMs: config.execution.timeoutMs,
    // A line also holds what is around the result, and lists may be longer than any result.
    maxFrameBytes: Math.max(16 * 1024 * 1024, 3 * config.execution.maxResultBytes),
    // Characters may be written with three bytes for each that counts.
    maxAnswerBytes: 3 * config.execution.maxResultBytes + 64 * 1024,
    // The first list goes out before children take the processor.
    delayMs: { cold: 250, known: 1_000, ...options.connectDelayMs },
    hooks: {
      onLog: (owner, params, who) => logged.emit(params, owner, who),
      onResourceUpdated: (owner, uri) => updated.emit(owner, uri),
      onTask: (owner, task) => tasked.emit(owner, task),
    },
  })

  const documents = join(config.dirs.state, 'openapi')
  const lost = (error: unknown): void =>
    log.warn('the document of an API could not be kept', { error: messageOf(error) })
  const apis = createApis({
    catalog,
    log,
    clock,
    apis: config.openapi,
    lists: createFileStore<KeptList>(join(documents, 'lists'), lost),
    documents: createFileStore<Readonly<Record<string, unknown>>>(join(documents, 'documents'), lost),
    approval: createApproval(trust, catalog),
  })

  const searching = createSearching({
    catalog,
    settings: config.search,
    dirs,
    baseDir: file === undefined ? dirs.workspace : dirname(file),
    table: options.table ?? embeddedTable,
    clock,
    log,
    view: (caller) => views.viewFor(caller),
    usage: (principal) => calls.usage.of(principal),
    first: (caller) => injected.of(caller),
    arriving: () => upstreams.arriving,
    done: views.warm,
    beside: { sources: () => surface.unlisted.sources(), of: (caller) => surface.unlisted.of(caller) },
    onModelProgress: options.onModelProgress,
    onModelLost() {
      const data = 'The optional search model is unavailable; search goes on without it.'
      logged.emit({ level: 'warning', logger: 'search', data })
    },
  })
  let stopWatchingNames: (() => void) | undefined
  type Flag = Parameters<Host['context']['setFlag']>
  function setFlag(...[profile, flag, value]: Flag): void {
    flags = { ...flags, [profile]: { ...flags[profile], [flag]: value } }
    rules = createRules(current, flags)
    catalog.touch()
  }
  shared.hear('flag', (text) => setFlag(...(JSON.parse(text) as Flag)))
  const recordedCall = records ? (request: CallRequest) => records.run(request, calls.call) : calls.call
  const repeats =
    execution.repeatWarning > 0
      ? createRepeats({
          limit: execution.repeatWarning,
          clock,
          toolOf(caller, name) {
            const found = views.viewFor(caller).resolve(name)
            return found.kind === 'found' ? found.tool.tool : undefined
          },
        })
      : undefined
  const host: Host = {
    view: (caller) => views.viewFor(caller),
    exposure: (caller) => exposures.of(views.viewFor(caller), caller),
    search: observer
      ? (...asked) => observer.run({ kind: 'search', name: 'search', attributes: {} }, () => searching.find(...asked))
      : searching.find,
    call: repeats ? (request: CallRequest) => repeats.run(request, recordedCall) : recordedCall,
    tasks: planned.tasks,
    delivery: planned.delivery,
    checked: (request: CallRequest) => calls.check(request),
    together: (requests) => calls.together(requests),
    missed,
    serversRead,
    whileLoading: () => loading,
    now: () => clock.now(),
    lostAt() {
      const at = shared.hasPast ? shared.store().lostAt : undefined
      return at !== undefined && clock.now() - at < TOLD_MS ? at : undefined
    },
    context: {
      injected,
      records,
      turns,
      servicesOf,
      inject: offer.inject,
      isAdmin: offer.isAdmin,
      setFlag(profile, flag, value) {
        setFlag(profile, flag, value)
        shared.tell('flag', JSON.stringify([profile, flag, value]))
      },
    },
  }
  const surface = createSurface(host, {
    pinned: ({ profile }) => rules.of(profile).exposure.pinned,
    primitives: ({ profile }) => rules.of(profile).exposure.primitives,
    readCalls: (text, caller) => parseToolCalls(text, { tools: surface.list(caller, host.exposure(caller).mode) }),
    ...planned.tools,
  })

  // Asked for one after the other: where there are no constraints, no tool is looked at.
  function* allTools() {
    yield* catalog.snapshot().tools
  }
  const idleModules = (caller: Caller): string[] => {
    const view = views.viewFor(caller)
    const { owners } = catalog.snapshot()
    return Object.entries(config.modules).flatMap(([id, { enabled }]) => {
      const owner = owners.get(id)
      if (!enabled || owner?.origin !== 'module' || owner.tools.length === 0 || view.count(id) > 0) return []
      const reason = owner.tools.map((tool) => view.hidden.get(tool.id)?.reason).find(Boolean)
      return [`modules.${id} is configured and gives no tools${reason === undefined ? '' : `: ${reason}`}.`]
    })
  }
  const unknownActions = () => rules.of(DEFAULT_PROFILE).policy.unknownActions(allTools())

  const elsewhere = config.state.url === undefined ? undefined : createElsewhere(shared, clock)
  const resumes = createResumes({
    clock,
    patienceMs: longestAnswer(config),
    key: () => shared.key(),
    elsewhere,
  })
  const failed = () => loader.status().failed
  const sharedNames = (): string[] => {
    const { owners } = catalog.snapshot()
    return loader
      .status()
      .loaded.flatMap(({ id }) => (owners.has(`${OWN}${id}`) ? [sharedNameSentence(current, id)] : []))
  }
  const sectionsOf = createSections(log)
  const noticesOf = createNotices(log, clock)
  const server: ServerHost = {
    name: config.server.name,
    version: own.version,
    instructions: config.server.instructions,
    textTools: config.textTools,
    catalog,
    surface,
    lists: createLists(surface, host.exposure),
    gateways: () => [gateway(), ...upstreams.gateways()],
    log,
    trustMeta: config.server.trustMeta,
    hasProfile: (name) => rules.ids.includes(name),
    tokens,
    view: host.view,
    exposure: host.exposure,
    unread: () => upstreams.unread,
    sections: (caller) => sectionsOf(views.viewFor(caller)),
    notices: (caller) => noticesOf(views.viewFor(caller), caller),
    remembered: planned.remembered,
    resumes,
    clients: offer.clients,
    files: offer.files,
    onListChange: injected.onChange,
    tasks: createTaskBook(clock, common && (() => shared.store().table('begun')), (error) =>
      log.warn('others do not know of a task that was begun here', { error: messageOf(error) }),
    ),
    inbox: planned.inbox,
    inspect: inspectAnswer,
    inspectQuestion: inspectAsked,
    observer,
    metrics: config.telemetry.prometheus ? observed?.registry : undefined,
    clock,
    tasksHere: planned.tasks,
    ownTasks: planned.tasksOf,
    taskTtlMs: execution.tasks.resultTtlMs,
    autoBackgroundMs: execution.autoBackgroundAfterMs,
    failed: (caller) => failed().filter(({ file }) => views.viewFor(caller).policy.sees(stemOf(file), caller)),
    lagMs: () => loop.lagMs,
    async ready() {
      if (!loaded) return 'modules are being loaded'
      return (await shared.ready()) ? undefined : 'the state cannot be reached'
    },
    ...(elsewhere ? { shared, elsewhere } : {}),
    searchStatus: searching.status,
    counts: (principal) => calls.usage.counts(principal),
    onUpstream(listener) {
      const stops = [
        listener.log && logged.listen(listener.log),
        listener.resourceUpdated && updated.listen(listener.resourceUpdated),
        listener.task && tasked.listen(listener.task),
      ]
      return () => stops.forEach((stop) => void stop?.())
    },
  }

  if (elsewhere) serveTasks(server, elsewhere)

  const app: App = {
    ...host,
    catalog,
    log,
    surface,
    loader,
    upstreams,
    apis,
    server,
    explainExposure: (caller, change) =>
      decideExposure(
        views.viewFor(caller),
        { ...rules.of(caller.profile).exposure, ...change },
        surface.beside(caller),
      ),
    listedTokens: (caller, mode) => estimateTokens(JSON.stringify(surface.list(caller, mode))),
    forget(session) {
      exposures.forget(session)
      injected.forget(session)
      records?.forget(session)
      turns.forget(session)
      upstreams.ended(session)
    },
    failed,
    searchStatus: server.searchStatus,
    loading: () => !loaded,
    nameProblems: () => [
      ...sharedNames(),
      ...catalog.snapshot().clashes.map(clashSentence),
      ...upstreams.problems(),
      ...apis.problems(),
    ],
    unknownActions: () => unknownActions(),
    idleModules: (caller) => idleModules(caller),
    open,
    async start() {
      stopWatchingNames = warnOfClashes(catalog, log, clock)
      stopProtecting ??= protectOwnFiles(() => ownFiles())
      try {
        cleanUnfinished(join(dirs.state, 'unfinished'))
      } catch (error) {
        log.warn('temporary files of a process that was killed could not be removed', { error: messageOf(error) })
      }
      if (common) await open()
      await decisions?.()
      upstreams.start()
      const known = apis.start()
      const all = Promise.all([loader.loadAll(), known])
      loading = new Promise((resolve) => {
        const over = (): void => {
          cancel()
          loading = undefined
          resolve()
        }
        const cancel = clock.after(LOADING_WAIT_MS, over)
        all.then(over, over)
      })
      await all
      loaded = true
      if (execution.scheduler && !execution.watchers)
        log.warn('execution.scheduler needs execution.watchers, so neither is there')
      if (options.env?.['NODE_TLS_REJECT_UNAUTHORIZED'] === '0')
        log.warn(
          'NODE_TLS_REJECT_UNAUTHORIZED is 0: requests of modules check certificates all the same, other connections may not; unset it',
        )
      for (const sentence of sharedNames()) log.warn(sentence, { code: 'E_NAME_TAKEN' })
      for (const { owner, action } of unknownActions())
        log.warn('a constraint names a tool that does not exist', { module: owner, action })
      for (const sentence of idleModules(localCaller)) log.warn(sentence)
    },
    work() {
      loop.start()
      void tidyUp()
      return planned.work()
    },
    warm() {
      upstreams.begin()
      searching.follow()
      observed?.start()
    },
    indexed: searching.indexed,
    reviewed: () => trust.reread(),
    settled(timeoutMs, awaited = () => true) {
      const settledNow = (): boolean =>
        !upstreams.status().some((server) => server.pending && awaited(server)) &&
        !apis.status().some((api) => (api.state === 'connecting' || api.state === 'known') && awaited(api))
      return new Promise((resolve) => {
        const done = (): void => {
          cancel()
          stop()
          resolve()
        }
        const cancel = clock.after(timeoutMs, done)
        const stop = catalog.onChange(() => settledNow() && done())
        if (settledNow()) done()
      })
    },
    async reload(next) {
      const plan = planReload(current, next)
      current = {
        ...current,
        modules: next.modules,
        servers: next.servers,
        openapi: next.openapi,
        policy: next.policy,
        exposure: next.exposure,
        tools: next.tools,
        profiles: next.profiles,
        clients: next.clients,
        secrets: next.secrets,
      }
      ownFiles = once(() => ownFilesOf(current, options.env ?? {}, own.root))
      flags = {}
      rules = createRules(current)
      limits = createLimits(current.clients)
      // Servers that were started with the old ones may still say those.
      inspections.know([...config.secrets, ...next.secrets, ...ofEnvironment, ...learnt.secrets()])
      exposures.decideAnew()
      claim(current)
      upstreams.configure(current.servers)
      apis.configure(current.openapi)
      await loader.configure(current.modules)
      return plan
    },
    drain: (graceMs) => calls.drain(graceMs),
    async stop() {
      loop.stop()
      const ended = planned.stop()
      calls.stop()
      await ended
      await calls.usage.stop()
      await planned.leave()
      await shared.close()
      resumes.close()
      stopWatchingNames?.()
      stopProtecting?.()
      const parts = [
        upstreams.stop(),
        apis.stop(),
        loader.stop(),
        ...(usedPrograms ? [programs().stop()] : []),
        searching.stop(),
        trust.flush(),
        offer.close(),
        ...(audit ? [audit.flush()] : []),
        ...(observed ? [observed.stop()] : []),
      ].map((part) => part.catch((error: unknown) => log.error('stopping failed', { error })))
      // A module may hang in its import or its stop: the process ends all the same.
      await Promise.race([
        Promise.all(parts).then(() => audit?.flush()),
        new Promise<void>((resolve) => clock.after(STOP_MS, resolve)),
      ])
    },
  }
  return {
    ...app,
    call: (request) => awake(() => app.call(request)),
    open: () => awake(app.open),
    start: () => awake(app.start),
    indexed: () => awake(app.indexed),
    settled: (...how) => awake(() => app.settled(...how)),
    reload: (next) => awake(() => app.reload(next)),
    drain: (graceMs) => awake(() => app.drain(graceMs)),
    stop: () => awake(app.stop),
  }
}

/** How long a call is kept for a client that has to come back with the answer of its person. */
function longestAnswer({ policy, profiles }: Config): number {
  return Math.max(...[policy, ...Object.values(profiles).map((one) => one.policy)].map((one) => one.approvalTimeoutMs))
}

/** So long whoever looks is told that what was planned was lost. */
const TOLD_MS = 7 * 24 * 60 * 60_000

/** How long parts may take to stop. */
const STOP_MS = 3_500
/** Meta-tools, and calls of tools that nobody knows, wait this long for modules that are being loaded, from the start on. */
const LOADING_WAIT_MS = 5_000

/** What a file of modules is called, which is what its module is called nearly always. */
const stemOf = (file: string): string => /^(?:bundled\/)?_?([^./\\]*)/.exec(file)?.[1] ?? file

function sameFolder(a: string, b: string): boolean {
  try {
    return realpathSync(a) === realpathSync(b)
  } catch {
    // A folder that does not exist is no other folder.
    return false
  }
}
