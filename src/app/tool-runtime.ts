import { join } from 'node:path'
import { rootsOf } from '../config/path-roots.ts'
import type { Caller, Services } from '../core/caller.ts'
import { isPegboardError } from '../core/errors.ts'
import { type Lazy, lazy } from '../core/once.ts'
import { createApprovalGate } from '../exec/approval-gate.ts'
import type { RecentCalls } from '../exec/recent-calls.ts'
import { refreshCaller } from '../exec/stored-caller.ts'
import { type CallRequest, type Calls, createCalls } from '../exec/tool-calls.ts'
import type { Audit } from '../observe/audit-log.ts'
import { checkFreeSpace } from '../policy/free-space.ts'
import { createPrograms, type Programs } from '../programs/programs.ts'
import { createResultStore, type ResultStore } from '../results/result-store.ts'
import { createRightsLookup } from '../server/current-rights.ts'
import { createInjectedTools, type InjectedTools } from '../view/injected-tools.ts'
import type { AppBase } from './app-base.ts'
import { type AppModules, createAppModules } from './app-modules.ts'
import { createDeferredWork, type DeferredWork } from './deferred-work.ts'
import { createIneffectiveSettings, type IneffectiveSettings } from './ineffective-settings.ts'
import { type AwaitTool, createAwaitTool } from './missing-tools.ts'
import type { RemoteSources } from './remote-sources.ts'
import { createServerList, createServers } from './server-list.ts'
import { createServiceProvider, type ServiceProvider } from './service-provider.ts'
import { createWaitForServers } from './wait-for-servers.ts'

/** Everything that runs tools. */
export interface ToolRuntime {
  readonly provider: ServiceProvider
  servicesOf(caller: Caller): Services
  readonly injected: InjectedTools
  readonly results: ResultStore
  readonly programs: Lazy<Programs>
  readonly calls: Calls
  readonly modules: AppModules
  readonly awaitTool: AwaitTool
  /** Waits a moment for servers that connect for the first time. */
  serversRead(caller: Caller): Promise<void>
  readonly deferred: DeferredWork
  readonly problems: IneffectiveSettings
}

export interface ToolRuntimeOptions extends AppBase {
  readonly audit: Audit | undefined
  readonly remote: RemoteSources
  /** Calls a tool as a client would, meta-tools included. Not called before Pegboard has started. */
  callAsClient(request: CallRequest): ReturnType<Calls['call']>
  readonly beforeDropIns: (() => void) | undefined
  readonly everyModule: boolean
  readonly recent: RecentCalls | undefined
}

/**
 * Creates the parts that need each other: tools call tools and start tasks, and modules are loaded by calling tools. What a
 * part needs of a later one it receives as a function, which nothing calls before Pegboard starts.
 */
export function createToolRuntime(options: ToolRuntimeOptions): ToolRuntime {
  const { config, settings, state, catalog, views, view, log, env, own, secrets, observer } = options
  const { upstreams, apis } = options.remote
  const { clock, shared } = state
  const { execution } = config
  const { inspections } = secrets
  const serversRead = createWaitForServers({ catalog, clock, view, begin: upstreams.begin })
  const rights = createRightsLookup(config.server.http, settings.hasProfile, state.tokens, clock.now)
  const injected = createInjectedTools(clock, shared)
  const results = createResultStore({
    checkFreeSpace,
    dir: join(config.dirs.state, 'results'),
    settings: execution.results,
    clock,
    log,
    thread: own.resultThread,
  })
  // Most configurations start no program.
  const programs = lazy(() =>
    createPrograms({ platform: process.platform, environment: env, warn: (message) => log.warn(message) }),
  )
  const listServers = createServerList({
    statuses: upstreams.status,
    view,
    owners: () => catalog.snapshot().owners,
    clock,
  })
  const provider = createServiceProvider({
    ...options,
    processes: programs.get,
    refreshCaller(caller) {
      try {
        return refreshCaller(caller, rights)
      } catch (error) {
        if (isPegboardError(error)) return undefined
        throw error
      }
    },
    injected,
    servers: (user) =>
      createServers(
        {
          upstreams,
          list: listServers,
          hasAny: (caller) => upstreams.modules().some((module) => view(caller).policy.allowsOwner(module, caller)),
          view,
          isAdmin: provider.isAdmin,
          unmatchedRules: (caller) => problems.unmatchedRulesFor(caller),
          inspect: secrets.inspectAnswer,
        },
        user,
      ),
    profileOf: (caller) => view(caller).profile,
    reload: (name) => modules.loader.reload(name),
    facts: (caller) => deferred.factsOf(caller),
    task: (owner, id) => deferred.taskState(owner, id),
  })
  const servicesOf = (caller: Caller): Services =>
    provider.servicesFor({ module: 'context_builder', caller, profile: view(caller).profile })

  const calls = createCalls({
    gate: createApprovalGate({ clock, hide: inspections.hide }),
    audit: options.audit,
    observer,
    recent: options.recent,
    inspections,
    secrets: secrets.ofEnvironment,
    servicesFor: provider.servicesFor,
    fetch: provider.fetch,
    onInjected: (caller, names) => provider.inject(caller, names).unknown,
    views,
    anyTool: (id) => catalog.snapshot().byId.get(id),
    settings: execution,
    roots: () => rootsOf(settings.config),
    dropIns: () => modules.loader.dropIns,
    log,
    shared: () => modules.loader.shared,
    awaitTool: (name, request) => awaitTool(name, request),
  })
  const modules = createAppModules({ ...options, servicesFor: provider.servicesFor, calls })
  const awaitTool = createAwaitTool({
    view,
    whileLoading: modules.whileLoading,
    pendingFiles: () => modules.loader.pending,
    serversRead,
    upstreams,
  })
  const deferred = createDeferredWork({
    ...options,
    lookUpRights: rights,
    calls,
    adapters: (caller) => servicesOf(caller).adapters,
    files: provider.files,
    arriving: () => upstreams.arriving,
  })
  const problems = createIneffectiveSettings({ ...options, upstreams, apis, modules })
  return {
    provider,
    servicesOf,
    injected,
    results,
    programs,
    calls,
    modules,
    awaitTool,
    serversRead,
    deferred,
    problems,
  }
}
