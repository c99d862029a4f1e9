import type { Config } from '../config/load-config.ts'
import type { Caller } from '../core/caller.ts'
import { messageOf } from '../core/errors.ts'
import type { MetaHost } from '../meta/meta-host.ts'
import type { Surface } from '../meta/surface.ts'
import type { Receipts } from '../receipts/receipts.ts'
import type { SearchStatus } from '../search/tool-search.ts'
import { serveRemoteTasks } from '../server/find-task.ts'
import { createListCache } from '../server/list-cache.ts'
import { createProcessRpc } from '../server/process-rpc.ts'
import { createResumedRequests } from '../server/resumed-requests.ts'
import type { ServerHost } from '../server/server-host.ts'
import { createTaskBook } from '../server/task-book.ts'
import { createPromptSections } from '../view/prompt-sections.ts'
import { createResultNotices } from '../view/result-notices.ts'
import type { AppBase } from './app-base.ts'
import type { RemoteSources } from './remote-sources.ts'
import type { createTelemetry } from './telemetry.ts'
import type { ToolRuntime } from './tool-runtime.ts'

export interface ServerHostOptions extends AppBase {
  readonly surface: Surface
  readonly host: MetaHost
  readonly runtime: ToolRuntime
  readonly remote: RemoteSources
  readonly telemetry: ReturnType<typeof createTelemetry>
  readonly receipts: Receipts | undefined
  searchStatus(): SearchStatus
  failed: ServerHost['failed']
  lagMs(): number
}

/** Collects what the transports need of the other parts. */
export function createServerHost(parts: ServerHostOptions): { readonly host: ServerHost; close(): void } {
  const { config, surface, host, log, state, remote, telemetry } = parts
  const { calls, deferred, injected, modules, provider } = parts.runtime
  const { clock, shared } = state
  const { server, execution, telemetry: telemetrySettings } = config
  const rpc = state.isShared ? createProcessRpc(shared, clock) : undefined
  const resumes = createResumedRequests({
    clock,
    patienceMs: longestApprovalMs(config),
    key: () => shared.key(),
    processes: rpc,
  })
  const sectionsOf = createPromptSections(log)
  const noticesOf = createResultNotices(log, clock)
  const serverHost: ServerHost = {
    name: server.name,
    version: parts.packageInfo.version,
    instructions: server.instructions,
    textTools: config.textTools,
    catalog: parts.catalog,
    surface,
    lists: createListCache(surface, host.exposure),
    gateways: () => [remote.gatewayId(), ...remote.upstreams.gateways()],
    log,
    trustMeta: server.trustMeta,
    hasProfile: parts.settings.hasProfile,
    tokens: state.tokens,
    view: host.view,
    exposure: host.exposure,
    sections: (caller) => sectionsOf(host.view(caller)),
    notices: (caller: Caller) => noticesOf(host.view(caller), caller),
    remembered: deferred.remembered,
    resumes,
    clients: provider.clients,
    files: provider.files,
    results: parts.runtime.results,
    onListChange(listener) {
      const stops = [injected.onChange(listener), parts.runtime.results.onChange(listener)]
      return () => {
        for (const stop of stops) stop()
      }
    },
    tasks: createTaskBook(clock, state.isShared ? () => shared.store().table('begun') : undefined, (error) =>
      log.warn('cannot tell other processes about a task that started here', { error: messageOf(error) }),
    ),
    inbox: deferred.inbox,
    inspect: parts.secrets.inspectAnswer,
    inspectQuestion: parts.secrets.inspectQuestion,
    observer: telemetry?.observer,
    receipts: parts.receipts,
    metrics: telemetrySettings.prometheus ? telemetry?.registry : undefined,
    clock,
    tasksHere: deferred.tasks,
    ownTasks: deferred.tasksOf,
    taskTtlMs: execution.tasks.resultTtlMs,
    autoBackgroundMs: execution.autoBackgroundAfterMs,
    failed: parts.failed,
    lagMs: parts.lagMs,
    async ready() {
      if (!modules.isLoaded) return 'modules are being loaded'
      return (await shared.ready()) ? undefined : 'the state cannot be reached'
    },
    ...(rpc ? { shared, processes: rpc } : {}),
    searchStatus: parts.searchStatus,
    counts: (principal) => calls.usage.counts(principal),
    onUpstream: remote.listen,
  }
  if (rpc) serveRemoteTasks(serverHost, rpc)
  return { host: serverHost, close: resumes.close }
}

/** How long Pegboard keeps a call whose client returns with the answer of its user, in milliseconds. */
const longestApprovalMs = ({ policy, profiles }: Config): number =>
  Math.max(...[policy, ...Object.values(profiles).map((profile) => profile.policy)].map((one) => one.approvalTimeoutMs))
