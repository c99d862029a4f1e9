import { join } from 'node:path'
import { type Catalog, createCatalog } from '../catalog/catalog.ts'
import { warnOfClashes } from '../catalog/warn-of-clashes.ts'
import { warnWhenQuiet } from '../catalog/warn-when-quiet.ts'
import type { Config } from '../config/load-config.ts'
import type { ReloadPlan } from '../config/reload-config.ts'
import type { Caller } from '../core/caller.ts'
import { type Clock, systemClock } from '../core/clock.ts'
import { messageOf } from '../core/errors.ts'
import { estimateTokens } from '../core/estimate-tokens.ts'
import { keepProcessAlive } from '../core/keep-alive.ts'
import { type Log, silentLog } from '../core/log.ts'
import { once } from '../core/once.ts'
import { createRedactedLog } from '../core/redacted-log.ts'
import type { Tool } from '../core/tool.ts'
import { waitAtMost } from '../core/wait-at-most.ts'
import { createRecentCalls } from '../exec/recent-calls.ts'
import type { Calls } from '../exec/tool-calls.ts'
import type { Loader } from '../loader/loader-types.ts'
import type { MetaHost } from '../meta/meta-host.ts'
import { META_NAMES, type Surface } from '../meta/surface.ts'
import { createAudit } from '../observe/audit-log.ts'
import { createLoopWatch } from '../observe/loop-watch.ts'
import type { Apis } from '../openapi/apis.ts'
import { protectOwnFiles } from '../policy/own-files.ts'
import { pinFolders } from '../policy/pinned-folders.ts'
import { removeUnfinishedWrites } from '../policy/unfinished-writes.ts'
import { isDailyCounts } from '../receipts/daily-counts.ts'
import { createReceipts, type Receipts } from '../receipts/receipts.ts'
import { createTokenCounter } from '../receipts/token-counter.ts'
import type { UsageSums } from '../receipts/usage-report.ts'
import type { LoadProgress } from '../search/embedder.ts'
import type { EmbeddingTable } from '../search/embedding-table.ts'
import type { SearchStatus } from '../search/tool-search.ts'
import type { WrittenText } from '../search/written-requests.ts'
import type { ServerHost } from '../server/server-host.ts'
import { openSecretFile } from '../state/secret-file.ts'
import type { UiHost } from '../ui/ui-host.ts'
import type { UpstreamStatus } from '../upstream/upstream.ts'
import type { Upstreams } from '../upstream/upstreams.ts'
import { decideExposure, type Exposure } from '../view/exposure.ts'
import type { View } from '../view/view.ts'
import { createViews, MERGE_FAILED } from '../view/views.ts'
import type { AppBase } from './app-base.ts'
import { isSeenFile } from './app-modules.ts'
import { createAppState, removeAppLeftovers } from './app-state.ts'
import { nameHolderStore } from './claim-stores.ts'
import { claimedNames } from './claimed-names.ts'
import { createClientTools } from './client-tools.ts'
import { createServerHost } from './create-server-host.ts'
import { warnOfSettings } from './ineffective-settings.ts'
import { createLiveSettings } from './live-settings.ts'
import { embeddedTable, includedEncoderFiles, ownPackage } from './package-info.ts'
import { createOwnFiles, foldersOf } from './protected-files.ts'
import { createAppRecording, type RecordingOptions } from './record-and-replay.ts'
import { createRemoteSources } from './remote-sources.ts'
import { createSecretGuard } from './secret-guard.ts'
import { createTelemetry } from './telemetry.ts'
import { createToolRuntime } from './tool-runtime.ts'
import type { UnmatchedRule } from './unmatched-rules.ts'
import { waitUntilSettled } from './wait-for-servers.ts'

export interface AppOptions extends RecordingOptions {
  /** Receives the entries of the log, without secrets. Default logs nothing. */
  readonly log?: Log
  /** Default the system's. */
  readonly clock?: Clock
  /** The environment of the process, of which child processes get a small part; default empty. */
  readonly env?: Readonly<Record<string, string | undefined>>
  /**
   * Milliseconds between `start` and connecting: to servers that Pegboard has never connected to (default 250), and to
   * known ones (default 1,000).
   */
  readonly connectDelayMs?: { readonly cold?: number; readonly known?: number }
  /** An embedding table instead of the included search models. */
  readonly table?: () => EmbeddingTable
  /** Approve only upstream tools that are in the lock file, and write nothing to it; default false. */
  readonly frozen?: boolean
  /** Called with secrets that Pegboard learns while it runs, such as tokens of servers. */
  readonly onSecrets?: (secrets: readonly string[]) => void
  /** Number of lines of the log that could not be written. */
  readonly droppedLogLines?: () => number
  readonly beforeDropIns?: () => void
  /** Imports bundled modules that are off, too: to show their parameters. */
  readonly everyModule?: boolean
  /** Remembers the latest calls, and enables `App.openUi`; default false. */
  readonly page?: boolean
  /** Folder for the data of `pegboard undo`; default `dirs.state`. */
  readonly setupDir?: string
  /** Called while an optional search model is being loaded. */
  readonly onModelProgress?: (progress: LoadProgress) => void
}

/** Pegboard without a transport. */
export interface App extends MetaHost {
  readonly catalog: Catalog
  readonly log: Log
  readonly surface: Surface
  readonly loader: Loader
  readonly upstreams: Upstreams
  readonly apis: Apis
  readonly server: ServerHost
  /** What the page needs; undefined unless `AppOptions.page` is set. */
  openUi(): Promise<UiHost | undefined>
  /** The exposure for a caller that would connect now. Remembers nothing. @param change overrides settings */
  explainExposure(caller: Caller, change?: Partial<Config['exposure']>): Exposure
  /** Estimated tokens of the list that a client receives in a mode. */
  listedTokens(caller: Caller, mode: Exposure['mode']): number
  /** Forgets what belongs to a session of the 2025 protocol, because it has ended. */
  forget(session: string): void
  /** True while modules are being loaded for the first time. */
  loading(): boolean
  failed(): readonly { readonly file: string; readonly error: string; readonly code: string }[]
  /** Clashes of names, and settings of modules and of servers' tools without effect, as sentences. */
  nameProblems(): readonly string[]
  /** Entries of constraints that name no tool. */
  unmatchedConstraints(): readonly { readonly owner: string; readonly action: string }[]
  /**
   * Rules of the policy that match no tool, or name one tool and match several. Omits rules that may concern a server whose tools are not known yet.
   * @param also `off` includes rules about modules and servers that are switched off
   */
  unmatchedRules(also?: 'off'): readonly UnmatchedRule[]
  /** Configured modules of which a caller sees no tool, and why, as sentences. */
  idleModules(caller: Caller): readonly string[]
  /** Connects to the shared state, if the configuration names one. @throws PegboardError E_STATE */
  open(): Promise<void>
  /**
   * Opens the state, and loads modules. Tools of known servers are in the catalog when it resolves; connections follow.
   * @throws PegboardError E_STATE
   */
  start(): Promise<void>
  /** Begins to store token counts, for `pegboard usage`. `work` does it, too. */
  countUsage(): void
  /**
   * Starts work that clients have planned: schedules, watchers and background tasks. For a process that serves. Waits
   * up to three seconds for servers that connect for the first time.
   */
  work(): Promise<void>
  /**
   * Call it when the first list has been sent. Connects to servers that Pegboard has never connected to, and indexes
   * tools for search, now and after each change.
   */
  warm(): void
  /** Resolves when all current tools are indexed. That includes the vectors of an optional model, unless it failed. */
  indexed(): Promise<void>
  searchStatus(): SearchStatus
  /** What tools cost models; absent if tokens are not counted. */
  readonly usage: Receipts['report'] | undefined
  /** What the session of a caller has cost so far, or without one, all sessions since the start. */
  spent(caller?: Caller): UsageSums | undefined
  /** What a category is for, in plain words. */
  readonly categoryLine: MetaHost['categoryLine']
  /** The search text that a language model wrote for a tool; only with `search.expand`. */
  writtenText(tool: Tool): WrittenText | undefined
  /** Reads the lock file again, because a person has changed it. */
  reviewed(): void
  /**
   * Resolves when every server has answered or failed, after `timeoutMs` at the latest.
   * @param awaited selects the servers to wait for, and is called again after each change; default all
   */
  settled(
    timeoutMs: number,
    awaited?: (server: Pick<UpstreamStatus, 'id' | 'module' | 'tools'>) => boolean,
  ): Promise<void>
  /** Applies a changed configuration as far as that needs no restart. */
  reload(config: Config): Promise<ReloadPlan>
  /** Number of calls that run, and that wait for others. */
  readonly load: Calls['load']
  /** Rejects new calls, and waits up to `graceMs` for running ones. Then it ends those, and their clients get an error. */
  drain(graceMs: number): Promise<void>
  /** Stops everything. Takes at most a few seconds, even if a module hangs. */
  stop(): Promise<void>
}

/** Creates the parts, in order of dependency. Nothing runs until `start`. */
export function createApp(config: Config, options: AppOptions = {}): App {
  const { env = {}, table = embeddedTable } = options
  const encoder = options.table ? undefined : includedEncoderFiles()
  const { dirs } = config
  const packageInfo = ownPackage()
  const settings = createLiveSettings(config)
  const current = (): Config => settings.config
  const view = (caller: Caller): View => views.viewFor(caller)
  const secrets = createSecretGuard({ env, config: current, view, onLearned: options.onSecrets })
  const { inspections } = secrets
  const log = options.log ? createRedactedLog(options.log, secrets.hide) : silentLog
  const state = createAppState(config, options.clock ?? systemClock, log)
  const { clock, shared } = state

  // --- which tools there are, and who sees them

  const catalog = createCatalog(
    new Set(META_NAMES),
    (error, server) =>
      log.error(server === undefined ? MERGE_FAILED : 'cannot build the tools of a server', {
        ...(server === undefined ? {} : { server }),
        error: messageOf(error),
      }),
    nameHolderStore(dirs.state, config.file ?? dirs.workspace, (error) =>
      log.warn('cannot store or read the holders of tool names', { error: messageOf(error) }),
    ),
  )
  const claimNames = (): void => catalog.claim(claimedNames(current(), [packageInfo.modules, current().modulesDir]))
  claimNames()
  const { rulesOf, limitsOf, maxResultTokens, hasUnlimitedTool } = settings
  const views = createViews({ catalog, rulesOf, limitsOf, maxResultTokens, hasUnlimitedTool, log })
  const ownFiles = createOwnFiles(current, env, packageInfo.root)
  const auditKey = once(() =>
    openSecretFile(join(dirs.state, 'audit.key'), (error) =>
      log.warn('cannot store the key of the audit log: lines written now cannot be verified later', {
        error: messageOf(error),
      }),
    ),
  )
  const audit = config.audit.enabled
    ? createAudit({
        ...config.audit,
        file: config.audit.file ?? join(dirs.state, 'audit.jsonl'),
        anchorDir: join(dirs.state, 'audit'),
        clock,
        log: log.scoped('audit'),
        key: () => auditKey().value,
        storeKey: () => auditKey().store(),
        hide: inspections.hide,
      })
    : undefined
  const telemetry = createTelemetry({ config, env, version: packageInfo.version, log: log.scoped('telemetry') })
  const observer = telemetry?.observer
  const counting = config.telemetry.tokens
  const receipts =
    counting === 'off'
      ? undefined
      : createReceipts({
          clock,
          log: log.scoped('usage'),
          counter: counting === 'o200k' ? createTokenCounter(packageInfo.tokenThread) : undefined,
        })

  const base: AppBase = {
    config,
    settings,
    state,
    catalog,
    views,
    view,
    log,
    env,
    packageInfo,
    table,
    secrets,
    observer,
  }
  const recording = createAppRecording(options, { clock, log, hide: secrets.hide })
  const remote = createRemoteSources({
    ...base,
    recording,
    frozen: options.frozen,
    connectDelayMs: options.connectDelayMs,
  })
  const { upstreams, apis } = remote
  const recent = options.page ? createRecentCalls(clock) : undefined
  // Tools may start tasks that call tools as clients do. So the runtime gets `surface`, which is created later, as a function.
  const runtime = createToolRuntime({
    ...base,
    audit,
    remote,
    callAsClient: (request) => surface.call(request),
    beforeDropIns: options.beforeDropIns,
    everyModule: options.everyModule === true,
    recent,
  })
  const { calls, deferred, modules, problems, provider } = runtime
  const { loader } = modules
  telemetry?.observeParts({
    calls: calls.load,
    upstreams: upstreams.status,
    tasks: () => deferred.tasks.running,
    storedCount: (kind) => (shared.mayHaveData ? shared.store().table(kind).count() : undefined),
    auditDropped: () => audit?.dropped ?? 0,
    logDropped: () => options.droppedLogLines?.() ?? 0,
    tokens: () => receipts?.sums,
  })

  const clientTools = createClientTools({
    ...base,
    remote,
    runtime,
    encoder,
    receipts,
    onModelProgress: options.onModelProgress,
  })
  const { host, surface, search } = clientTools
  const failed = () => loader.status().failed
  const loop = createLoopWatch(clock, log, () => calls.load().running)
  const server = createServerHost({
    ...base,
    surface,
    host,
    runtime,
    remote,
    telemetry,
    receipts,
    searchStatus: search.status,
    failed: (caller) => failed().filter(({ file }) => isSeenFile(file, view(caller), caller)),
    lagMs: () => loop.lagMs,
  })

  // --- life cycle

  /** The parts that `start` and `warm` have started, in the order to stop them. */
  const stopFunctions: Array<() => void> = []
  let isWarm = false

  const app: App = {
    ...host,
    catalog,
    log,
    surface,
    loader,
    upstreams,
    apis,
    server: server.host,
    openUi: once(async () => {
      if (!recent) return undefined
      const { createUiHost } = await import('./create-ui-host.ts')
      return createUiHost({
        app,
        config: current,
        clock,
        log: log.scoped('page'),
        version: packageInfo.version,
        setupDir: options.setupDir ?? dirs.state,
        calls,
        recent,
        clients: provider.clients,
        deferred,
        shared,
        hide: secrets.hide,
        logins: remote.logins,
      })
    }),
    explainExposure(caller, change) {
      const exposure = { ...settings.rulesOf(caller.profile).exposure, ...change }
      return decideExposure(view(caller), exposure, surface.alwaysListed(caller))
    },
    listedTokens: (caller, mode) => estimateTokens(JSON.stringify(surface.list(caller, mode))),
    forget(session) {
      clientTools.forget(session)
      upstreams.ended(session)
    },
    failed,
    categoryLine: search.categoryLine,
    writtenText: search.writtenText,
    searchStatus: search.status,
    loading: () => !modules.isLoaded,
    nameProblems: problems.names,
    unmatchedConstraints: problems.unmatchedConstraints,
    unmatchedRules: problems.unmatchedRules,
    idleModules: problems.idleModules,
    open: state.open,
    async start() {
      stopFunctions.push(warnOfClashes(catalog, log, clock))
      pinFolders(foldersOf(current()))
      stopFunctions.push(protectOwnFiles(ownFiles))
      try {
        removeUnfinishedWrites(join(dirs.state, 'unfinished'))
      } catch (error) {
        log.warn('cannot remove temporary files of a killed process', { error: messageOf(error) })
      }
      if (state.isShared) await state.open()
      await remote.readDecisions()
      await upstreams.start()
      // The first list has all tools, when it is recorded and when it is replayed.
      if (recording.isOn) {
        upstreams.begin()
        await waitUntilSettled({ catalog, clock, upstreams, apis: { status: () => [] } }, RECORDING_MS)
      }
      await modules.load(apis.start())
      warnOfSettings(config, env, problems, log)
    },
    usage: receipts?.report,
    spent: (caller) => receipts?.soFar(caller),
    countUsage() {
      receipts?.start(() => shared.store().table('tokens', isDailyCounts))
    },
    work() {
      loop.start()
      app.countUsage()
      void removeAppLeftovers(config)
      return deferred.work()
    },
    warm() {
      upstreams.begin()
      if (!isWarm)
        stopFunctions.push(
          warnWhenQuiet({
            catalog,
            clock,
            quietMs: 2_000,
            startNow: true,
            find: () => problems.unmatchedRulesIfCalm()?.map(({ sentence }) => sentence),
            warn: (sentence) => log.warn(sentence),
          }),
        )
      isWarm = true
      search.follow()
      telemetry?.start()
    },
    indexed: search.indexed,
    reviewed: remote.trust.reread,
    settled: (timeoutMs, awaited) => waitUntilSettled({ catalog, clock, upstreams, apis }, timeoutMs, awaited),
    async reload(next) {
      const plan = settings.reload(next)
      pinFolders(foldersOf(current()))
      secrets.update()
      clientTools.exposures.decideAnew()
      claimNames()
      await Promise.all([
        upstreams.configure(recording.serversOf(current().servers)),
        apis.configure(current().openapi),
        loader.configure(current().modules),
      ])
      return plan
    },
    load: calls.load,
    async drain(graceMs) {
      deferred.drain().catch((error: unknown) => log.error('stopping failed', { error }))
      await calls.drain(graceMs)
      // Tasks first, so that they are interrupted and do not fail because their calls are aborted.
      await Promise.all([deferred.stop(), calls.stop()])
    },
    async stop() {
      loop.stop()
      await Promise.all([deferred.stop(), calls.stop()])
      await Promise.all([calls.usage.stop(), receipts?.stop()])
      await deferred.leave()
      await shared.close()
      server.close()
      for (const stop of stopFunctions.splice(0)) stop()
      runtime.results.close()
      const parts = [
        upstreams.stop().then(recording.close),
        apis.stop(),
        loader.stop(),
        runtime.programs.made?.stop(),
        clientTools.stop(),
        remote.trust.flush(),
        provider.close(),
        audit?.flush(),
        telemetry?.stop(),
      ].map((part) => Promise.resolve(part).catch((error: unknown) => log.error('stopping failed', { error })))
      // A module may hang in its import or its `stop`. The process exits anyway.
      const stopped = Promise.all(parts).then(() => audit?.flush())
      await waitAtMost(STOP_MS, stopped, undefined, clock)
    },
  }
  return {
    ...app,
    call: (request) => keepProcessAlive(() => app.call(request)),
    open: () => keepProcessAlive(app.open),
    start: () => keepProcessAlive(app.start),
    indexed: () => keepProcessAlive(app.indexed),
    settled: (...how) => keepProcessAlive(() => app.settled(...how)),
    reload: (next) => keepProcessAlive(() => app.reload(next)),
    drain: (graceMs) => keepProcessAlive(() => app.drain(graceMs)),
    stop: () => keepProcessAlive(app.stop),
  }
}

/** How long servers may take to start while they are recorded. A replay answers at once. */
const RECORDING_MS = 30_000
/** How long parts may take to stop. */
const STOP_MS = 3_500
