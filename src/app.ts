import { realpathSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type Catalog, clashSentence, createCatalog, type Snapshot } from './catalog/catalog.ts'
import { shownState } from './catalog/state.ts'
import { type Config, policySettings } from './config/load.ts'
import { planReload } from './config/reload.ts'
import { type Clock, systemClock } from './core/clock.ts'
import { type Caller, localCaller, type Services } from './core/context.ts'
import { messageOf } from './core/errors.ts'
import { type Log, silentLog } from './core/log.ts'
import { createSignal } from './core/signal.ts'
import { estimateTokens } from './core/tokens.ts'
import { type CallRequest, type Calls, createCalls } from './exec/call.ts'
import { createLoader, type Loader } from './loader/load.ts'
import type { Host } from './meta/host.ts'
import { createSurface, META_NAMES, type Surface } from './meta/surface.ts'
import type { KeptList } from './openapi/api.ts'
import { type Apis, createApis } from './openapi/apis.ts'
import { embeddedTable, ownPackage } from './package.ts'
import { createPolicy, type Policy } from './policy/policy.ts'
import { laneFor } from './search/deferred.ts'
import type { LoadProgress } from './search/embedder.ts'
import { createToolSearch, type SearchStatus } from './search/index.ts'
import { sourcesOf } from './search/sources.ts'
import type { EmbeddingTable } from './search/table.ts'
import type { ServerHost } from './server/host.ts'
import { createResumes } from './server/resume.ts'
import { createTaskBook } from './server/task-book.ts'
import { createBytesStore, createFileStore } from './state/files.ts'
import { readSecret } from './state/secret.ts'
import { type LockDigests, lockFile } from './trust/lock.ts'
import { createTrust, type Kept } from './trust/trust.ts'
import type { UpstreamStatus } from './upstream/upstream.ts'
import { createUpstreams, type Upstreams } from './upstream/upstreams.ts'
import { decideExposure, type Exposure } from './view/exposure.ts'
import { createExposures } from './view/exposures.ts'
import { createViews } from './view/view.ts'

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
  /** Files that could not be loaded, and why. */
  failed(): readonly { readonly file: string; readonly error: string; readonly code: string }[]
  /** Names that clash, and settings of servers' tools that have no effect, as sentences. */
  nameProblems(): readonly string[]
  /** Constraint entries that name no tool. */
  unknownActions(): readonly { readonly owner: string; readonly action: string }[]
  /** Loads modules. Upstreams whose manifest is known are in the catalogue afterwards; connections follow on their own. */
  start(): Promise<void>
  /** Indexes for search ahead of the first query, and from now on after each change, in small slices. */
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
  const clock = options.clock ?? systemClock
  const own = ownPackage()
  let current = config

  let rules = createPolicy(policySettings(config))
  const policy: Policy = {
    decide: (tool) => rules.decide(tool),
    allowsAll: (owner) => rules.allowsAll(owner),
    unknownActions: (tools) => rules.unknownActions(tools),
  }
  const catalog = createCatalog(new Set(META_NAMES))
  const views = createViews({ catalog, policy, log, schema: () => current.exposure.schema })
  const exposures = createExposures(config.exposure)
  const { file, dirs } = config
  const logged = createSignal<[Readonly<Record<string, unknown>>]>()
  const indexes = createBytesStore(join(dirs.state, 'search'), (error) =>
    log.warn('the search index could not be kept or read', { error: messageOf(error) }),
  )
  let told = false
  const places = { cacheDir: dirs.cache, baseDir: file === undefined ? dirs.workspace : dirname(file) }
  const semantic = laneFor(config.search, places, {
    queryTimeoutMs: config.search.embedderOptions.queryTimeoutMs,
    log,
    clock,
    store: indexes,
    ...(options.onModelProgress && { onProgress: options.onModelProgress }),
    onChange({ state }) {
      if (state !== 'unavailable' || told) return
      told = true
      const data = 'The optional search model is unavailable; search goes on without it.'
      logged.emit({ level: 'warning', logger: 'search', data })
    },
  })
  const search = createToolSearch({
    log,
    store: indexes,
    fusion: config.search.fusion,
    ...(config.search.embedder !== 'none' && { table: options.table ?? embeddedTable }),
    ...(semantic && { semantic }),
  })
  const services: Services = {
    // The folder of a server in the catalogue is nobody's business.
    servers: {
      list: () =>
        upstreams.status().map(({ id, tools, transport, era, version, reason, nextAttemptAt, ...status }) => ({
          id,
          state: shownState({ ...status, ...(reason === undefined ? {} : { reason }) }, tools),
          tools,
          transport,
          ...(era === undefined ? {} : { era }),
          ...(version === undefined ? {} : { version }),
          ...(reason === undefined ? {} : { reason }),
          ...(nextAttemptAt === undefined
            ? {}
            : { nextAttemptMs: Math.max(0, Math.round(nextAttemptAt - clock.now())) }),
        })),
    },
  }
  const calls: Calls = createCalls({
    services,
    views,
    anyTool: (id) => catalog.snapshot().byId.get(id),
    settings: config.execution,
    log,
    shared: () => loader.shared,
    missing: (name) => upstreams.missed(name),
  })

  const loader = createLoader({
    catalog,
    log,
    clock,
    bundledDirs:
      config.modulesDir !== undefined && sameFolder(config.modulesDir, join(own.root, 'modules')) ? [] : [own.modules],
    ...(config.modulesDir === undefined ? {} : { modulesDir: config.modulesDir }),
    autoload: config.autoload,
    services,
    settings: config.modules,
    vars: {
      workspace: config.dirs.workspace,
      state_dir: config.dirs.state,
      cache_dir: config.dirs.cache,
      ...(config.file === undefined ? {} : { config_file: config.file }),
      env: options.env ?? {},
    },
    importTimeoutMs: config.loader.importTimeoutMs,
    startTimeoutMs: config.loader.startTimeoutMs,
    runStep: (id, input) => calls.call({ name: id, input, caller: localCaller, origin: 'setup' }),
  })

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
    ...(options.frozen === undefined ? {} : { frozen: options.frozen }),
  })
  const updated = createSignal<[string]>()
  const tasked = createSignal<[string, Readonly<Record<string, unknown>>]>()
  const upstreams = createUpstreams({
    catalog,
    log,
    clock,
    servers: config.servers,
    manifests: createBytesStore(join(config.dirs.state, 'manifests'), (error) =>
      log.warn('a manifest could not be kept or read', { error: messageOf(error) }),
    ),
    trust,
    environment: options.env ?? {},
    tokens: async () => {
      const { openTokenStore } = await import('./upstream/oauth/open.ts')
      return await openTokenStore(config.dirs.state, options.env ?? {}, (message) => log.warn(message))
    },
    clientInfo: { name: 'pegboard', version: own.version },
    callTimeoutMs: config.execution.timeoutMs,
    // A line also holds what is around the result, and lists may be longer than any result.
    maxFrameBytes: Math.max(16 * 1024 * 1024, 2 * config.execution.maxResultBytes),
    // The first list goes out before children take the processor.
    delayMs: { cold: 250, known: 1_000, ...options.connectDelayMs },
    hooks: {
      onLog: (_server, params) => logged.emit(params),
      onResourceUpdated: (_server, uri) => updated.emit(uri),
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
  })

  let indexed: Snapshot['tools'] | undefined
  const index = (): void => {
    const snapshot = catalog.snapshot()
    // That an owner is connecting or failing changes nothing for search.
    if (indexed === snapshot.tools) return
    indexed = snapshot.tools
    search.sync(sourcesOf(snapshot), snapshot.version)
  }
  let warming: (() => void) | undefined
  const warmSoon = (): void => {
    warming?.()
    warming = clock.after(WARM_DELAY_MS, () => {
      index()
      search.warm().then(views.warm, (error) => log.error('indexing failed', { error }))
    })
  }
  let stopWarming: (() => void) | undefined
  let stopWatchingNames: (() => void) | undefined
  const host: Host = {
    view: (caller) => views.viewFor(caller),
    exposure: (caller) => exposures.of(views.viewFor(caller), caller),
    search(query, caller, limit, how) {
      const view = views.viewFor(caller)
      index()
      return search.query(query, { ...how, limit, visible: (id) => view.byId.has(id), usage: calls.usage })
    },
    call: (request: CallRequest) => calls.call(request),
    now: () => clock.now(),
  }
  const surface = createSurface(host, { pinned: () => current.exposure.pinned })

  // Asked for one after the other: where there are no constraints, no tool is looked at.
  function* allTools() {
    yield* catalog.snapshot().tools
  }

  const resumes = createResumes({
    clock,
    key: () =>
      readSecret(join(config.dirs.state, 'state.key'), (error) =>
        log.warn('the key that signs states could not be kept', { error: messageOf(error) }),
      ),
  })
  const server: ServerHost = {
    name: config.server.name,
    version: own.version,
    instructions: config.server.instructions,
    catalog,
    surface,
    log,
    view: host.view,
    exposure: host.exposure,
    resumes,
    tasks: createTaskBook(clock),
    failed: () => loader.status().failed,
    searchStatus: () => search.status,
    onUpstream(listener) {
      const stops = [
        listener.log && logged.listen(listener.log),
        listener.resourceUpdated && updated.listen(listener.resourceUpdated),
        listener.task && tasked.listen(listener.task),
      ]
      return () => stops.forEach((stop) => void stop?.())
    },
  }

  return {
    ...host,
    catalog,
    log,
    surface,
    loader,
    upstreams,
    apis,
    server,
    explainExposure: (caller, change) => decideExposure(views.viewFor(caller), { ...current.exposure, ...change }),
    listedTokens: (caller, mode) => estimateTokens(JSON.stringify(surface.list(caller, mode))),
    forget: (session) => exposures.forget(session),
    failed: server.failed,
    searchStatus: server.searchStatus,
    nameProblems: () => [...catalog.snapshot().clashes.map(clashSentence), ...upstreams.problems(), ...apis.problems()],
    unknownActions: () => rules.unknownActions(allTools()),
    async start() {
      stopWatchingNames = warnOfClashes(catalog, log, clock)
      upstreams.start()
      const known = apis.start()
      await loader.loadAll()
      await known
      for (const { owner, action } of rules.unknownActions(allTools()))
        log.warn('a constraint names a tool that does not exist', { module: owner, action })
    },
    warm() {
      stopWarming ??= catalog.onChange(warmSoon)
      warmSoon()
    },
    async indexed() {
      index()
      await search.warm()
      await semantic?.settled()
    },
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
      }
      rules = createPolicy(policySettings(current))
      exposures.use(current.exposure)
      catalog.touch()
      upstreams.configure(current.servers)
      apis.configure(current.openapi)
      await loader.configure(current.modules)
      return plan
    },
    drain: (graceMs) => calls.drain(graceMs),
    async stop() {
      calls.stop()
      resumes.close()
      stopWarming?.()
      stopWatchingNames?.()
      warming?.()
      const parts = [upstreams.stop(), apis.stop(), loader.stop(), search.close(), trust.flush()].map((part) =>
        part.catch((error: unknown) => log.error('stopping failed', { error })),
      )
      // A module may hang in its import or its stop: the process ends all the same.
      await Promise.race([Promise.all(parts), new Promise<void>((resolve) => clock.after(STOP_MS, resolve))])
    },
  }
}

/** A clash is told once, whatever changes around it; after a moment, because finding it puts all tools in order. */
function warnOfClashes(catalog: Catalog, log: Log, clock: Clock): () => void {
  const told = new Set<string>()
  let cancel: (() => void) | undefined
  const look = (): void => {
    for (const sentence of catalog.snapshot().clashes.map(clashSentence)) {
      if (told.has(sentence)) continue
      told.add(sentence)
      log.warn(sentence, { code: 'E_NAME_TAKEN' })
    }
  }
  const stop = catalog.onChange(() => {
    cancel?.()
    cancel = clock.after(CLASH_DELAY_MS, look)
  })
  return () => {
    cancel?.()
    stop()
  }
}

const CLASH_DELAY_MS = 1_000

/** How long parts may take to stop. */
const STOP_MS = 3_500

/** A burst of changes, such as ten servers connecting, is indexed once. */
const WARM_DELAY_MS = 200

function sameFolder(a: string, b: string): boolean {
  try {
    return realpathSync(a) === realpathSync(b)
  } catch {
    // A folder that does not exist is no other folder.
    return false
  }
}
