import { join } from 'node:path'
import { toolsNamed } from '../catalog/tools-named.ts'
import { rootsOf } from '../config/path-roots.ts'
import type { Caller, Services } from '../core/caller.ts'
import { isPegboardError } from '../core/errors.ts'
import { lazy } from '../core/once.ts'
import { createApprovalGate } from '../exec/approval-gate.ts'
import type { RecentCalls } from '../exec/recent-calls.ts'
import { refreshCaller } from '../exec/stored-caller.ts'
import { type CallRequest, type Calls, createCalls } from '../exec/tool-calls.ts'
import type { Audit } from '../observe/audit-log.ts'
import { checkFreeSpace } from '../policy/free-space.ts'
import { createPrograms } from '../programs/programs.ts'
import { createResultStore } from '../results/result-store.ts'
import { createRightsLookup } from '../server/current-rights.ts'
import { createInjectedTools } from '../view/injected-tools.ts'
import type { AppBase } from './app-base.ts'
import { createAppModules } from './app-modules.ts'
import { createDeferredWork } from './deferred-work.ts'
import { findLeftOut } from './explain-tool.ts'
import { createIneffectiveSettings } from './ineffective-settings.ts'
import { createAwaitTool, findInvalidServer } from './missing-tools.ts'
import type { RemoteSources } from './remote-sources.ts'
import { createServerList, createServers } from './server-list.ts'
import { createServiceProvider } from './service-provider.ts'
import { createWaitForServers } from './wait-for-servers.ts'

export interface ToolRuntimeOptions extends AppBase {
  readonly audit: Audit | undefined
  readonly remote: RemoteSources
  /** Calls a tool as a client would, meta-tools included. Not called before Pegboard has started. */
  callAsClient(request: CallRequest): ReturnType<Calls['call']>
  readonly beforeDropIns: (() => void) | undefined
  readonly everyModule: boolean
  readonly recent: RecentCalls | undefined
}

export type ToolRuntime = ReturnType<typeof createToolRuntime>

/**
 * Everything that runs tools.
 * Creates the parts that need each other: tools call tools and start tasks, and modules are loaded by calling tools. What a
 * part needs of a later one it receives as a function, which nothing calls before Pegboard starts.
 */
export function createToolRuntime(options: ToolRuntimeOptions) {
  const { config, settings, state, catalog, views, view, log, env, packageInfo: own, secrets, observer } = options
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
    hasOthers: state.isShared,
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
    hiddenTools: {
      named: (name) => toolsNamed(catalog.snapshot(), name),
      leftOut: (name) => findLeftOut(settings.config.servers, upstreams.offered, name),
    },
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
  const invalidServer = (name: string, caller: Caller): string | undefined =>
    findInvalidServer(settings.config, name, (owner) => view(caller).policy.allowsOwner(owner, caller))
  const awaitTool = createAwaitTool({
    view,
    whileLoading: modules.whileLoading,
    pendingFiles: () => modules.loader.pending,
    serversRead,
    upstreams,
    invalidServer,
    apis,
  })
  const deferred = createDeferredWork({
    ...options,
    lookUpRights: rights,
    calls,
    adapters: (caller) => servicesOf(caller).adapters,
    files: provider.files,
    arriving: () => upstreams.arriving,
    invalidServer,
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
    /** Waits a moment for servers that connect for the first time. */
    serversRead,
    deferred,
    problems,
  }
}
