import { parseToolCalls } from '../agent/parse-tool-calls.ts'
import type { Caller } from '../core/caller.ts'
import type { Tool } from '../core/tool.ts'
import { createCallLog } from '../exec/call-log.ts'
import { createCallOrder } from '../exec/call-order.ts'
import { createRepeatedCalls } from '../exec/repeated-calls.ts'
import type { CallRequest } from '../exec/tool-calls.ts'
import type { MetaHost } from '../meta/meta-host.ts'
import { createSessionTurns } from '../meta/session-turns.ts'
import { createSurface } from '../meta/surface.ts'
import type { Receipts } from '../receipts/receipts.ts'
import type { LoadProgress } from '../search/embedder.ts'
import type { EncoderFiles } from '../search/embedders/included-encoder.ts'
import { recordScriptCall } from '../server/record-usage.ts'
import { createRememberedExposures } from '../view/remembered-exposures.ts'
import type { AppBase } from './app-base.ts'
import { createCatalogSearch } from './catalog-search.ts'
import type { RemoteSources } from './remote-sources.ts'
import { createSearchMisses } from './search-misses.ts'
import type { ToolRuntime } from './tool-runtime.ts'

export interface ClientToolsOptions extends AppBase {
  readonly remote: RemoteSources
  readonly runtime: ToolRuntime
  readonly encoder: EncoderFiles | undefined
  readonly receipts: Receipts | undefined
  readonly onModelProgress: ((progress: LoadProgress) => void) | undefined
}

/** How long lists of planned work have a note that the state was damaged. */
const LOSS_NOTICE_MS = 7 * 24 * 60 * 60_000

/** Creates what clients see: the tools that are listed, the meta-tools, and search. */
export function createClientTools(options: ClientToolsOptions) {
  const { config, settings, state, catalog, views, view, log, observer, remote, runtime } = options
  const { clock, shared } = state
  const { calls, deferred, injected, modules, provider } = runtime
  const { dirs, execution } = config

  // The surface lists tools, so search and exposures get it as functions, which nothing calls before Pegboard starts.
  const exposures = createRememberedExposures(
    (profile) => settings.rulesOf(profile).exposure,
    (caller) => surface.alwaysListed(caller),
    () => !modules.isLoaded,
  )
  const callOrder = createCallOrder(clock)
  const search = createCatalogSearch({
    ...options,
    usage: (principal) => calls.usage.of(principal),
    around: callOrder.around,
    first: injected.of,
    llm: provider.llm,
    arriving: () => remote.upstreams.arriving,
    done: views.warm,
    unlisted: { sources: () => surface.unlisted.sources(), of: (caller) => surface.unlisted.of(caller) },
    onModelLost() {
      const data = 'The optional search model is unavailable. Search continues without it.'
      remote.emitLog({ level: 'warning', logger: 'pegboard/search', data })
    },
  })

  const callLog = config.services.callLog === 0 ? null : createCallLog({ size: config.services.callLog, clock })
  const recordedCall = callLog ? (request: CallRequest) => callLog.run(request, calls.call) : calls.call
  function toolOf(caller: Caller, name: string): Tool | undefined {
    const found = view(caller).resolve(name)
    return found.kind === 'found' ? found.tool.tool : undefined
  }
  const repeatedCalls =
    execution.repeatWarning > 0 ? createRepeatedCalls({ limit: execution.repeatWarning, clock, toolOf }) : undefined
  const warnedCall = repeatedCalls ? (request: CallRequest) => repeatedCalls.run(request, recordedCall) : recordedCall
  const misses = config.search.misses
    ? createSearchMisses({ stateDir: dirs.state, clock, log, hide: options.secrets.hide })
    : undefined

  type Flag = Parameters<MetaHost['context']['setFlag']>
  function setFlag(...flag: Flag): void {
    settings.setFlag(...flag)
    catalog.touch()
  }
  shared.subscribe('flag', (text) => setFlag(...(JSON.parse(text) as Flag)))

  const turns = createSessionTurns()
  const host: MetaHost = {
    view,
    exposure: (caller) => exposures.of(view(caller), caller),
    search: observer
      ? (...query) => observer.run({ kind: 'search', name: 'search', attributes: {} }, () => search.find(...query))
      : search.find,
    ...(misses && { recordSearch: misses.searched }),
    ...(search.writeText && { writeSearchText: search.writeText }),
    categoryLine: search.categoryLine,
    knownNeed: search.knownNeed,
    call(request) {
      const tool = toolOf(request.caller, request.name)?.id
      if (tool !== undefined) callOrder.add(request.caller, tool)
      if (tool !== undefined) misses?.called(request.caller, tool)
      return warnedCall(request)
    },
    tasks: deferred.tasks,
    delivery: deferred.delivery,
    check: calls.check,
    combineApprovals: calls.combineApprovals,
    results: runtime.results,
    awaitTool: runtime.awaitTool,
    serversRead: runtime.serversRead,
    whileLoading: modules.whileLoading,
    now: clock.now,
    scriptRead: (caller, name, data) => recordScriptCall({ receipts: options.receipts, view }, caller, name, data),
    lostAt() {
      const at = shared.mayHaveData ? shared.store().lostAt : undefined
      return at !== undefined && clock.now() - at < LOSS_NOTICE_MS ? at : undefined
    },
    context: {
      injected,
      records: callLog,
      turns,
      servicesOf: runtime.servicesOf,
      inject: provider.inject,
      isAdmin: provider.isAdmin,
      setFlag(...flag) {
        setFlag(...flag)
        shared.publish('flag', JSON.stringify(flag))
      },
    },
  }
  const surface = createSurface(host, {
    pinned: ({ profile }) => settings.rulesOf(profile).exposure.pinned,
    primitives: ({ profile }) => settings.rulesOf(profile).exposure.primitives,
    sandbox: { thread: options.packageInfo.codeThread, clock },
    readCalls: (text, caller) => parseToolCalls(text, { tools: surface.list(caller, host.exposure(caller).mode) }),
    ...deferred.tools,
  })
  return {
    host,
    surface,
    exposures,
    search,
    forget(session: string): void {
      // Receipts first: they read the exposure of the session, which would otherwise be remembered again.
      options.receipts?.end(session)
      exposures.forget(session)
      injected.forget(session)
      callLog?.forget(session)
      turns.forget(session)
      runtime.results.forget(session)
      misses?.forget(session)
    },
    async stop(): Promise<void> {
      misses?.close()
      await search.stop()
    },
  }
}
