import { availableParallelism } from 'node:os'
import type { ToolSource } from '../catalog/tool-source.ts'
import { systemClock } from '../core/clock.ts'
import { createDebouncer } from '../core/debouncer.ts'
import { PegboardError } from '../core/errors.ts'
import { getOrInsert } from '../core/get-or-insert.ts'
import { createUniqueNames } from '../core/tool-names.ts'
import { waitAtMost } from '../core/wait-at-most.ts'
import { createOrphanProcesses } from '../programs/orphan-processes.ts'
import { createWatchdog } from '../programs/watchdog.ts'
import { createTimestamps } from './resource-claims.ts'
import { createSpawnQueue } from './spawn-queue.ts'
import { createStartQueue } from './start-queue.ts'
import {
  createUnknownToolSearch,
  isNamed,
  type RunningServer,
  type Sees,
  type UnknownToolSearch,
} from './unknown-tool-search.ts'
import { createUpstream, type Upstream, type UpstreamStatus } from './upstream.ts'
import { restartKeyOf, type ServerSettings } from './upstream-settings.ts'
import type { UpstreamServices, UpstreamShared } from './upstream-shared.ts'

type Needed = 'catalog' | 'log' | 'environment' | 'clientInfo'

/** @internal */
export interface UpstreamsOptions extends Pick<UpstreamServices, Needed>, Partial<Omit<UpstreamServices, Needed>> {
  /** By the keys of `mcpServers`. */
  readonly servers: Readonly<Record<string, ServerSettings>>
  /**
   * Delay before `start` connects unknown servers (default 0) and known ones (default 1,000), so that the first list
   * is sent before child processes need the processor. Calls do not wait for it.
   */
  readonly delayMs?: { readonly cold?: number; readonly known?: number }
}

/** All configured MCP servers. They connect independently. `Upstream` describes the members that both have. */
export interface Upstreams extends ToolSource<Readonly<Record<string, ServerSettings>>, readonly UpstreamStatus[]> {
  /** Connects unknown servers now, whatever is left of `delayMs.cold`. */
  begin(): void
  /** True while unknown servers are being connected. */
  readonly arriving: boolean
  /** Stops all servers in parallel, with all their processes, within three seconds. */
  stop(): Promise<void>
  /** Categories of all servers, disabled ones included. */
  modules(): readonly string[]
  /** Path of a server's entry in the configuration, or its id if it has none. */
  where(id: string): string
  /** May hold secrets. */
  stderrTail(id: string): string
  /** Tool settings without effect, as sentences for the operator. */
  problems(): readonly string[]
  /** Empty if the server is disabled. */
  offered(id: string): readonly string[]
  /** Of one server, or of all running servers. @throws PegboardError also E_NOT_FOUND */
  refresh(id?: string): Promise<void>
  /**
   * Connects a server, also one that was disconnected.
   * @throws PegboardError E_NOT_FOUND, E_UPSTREAM_UNAVAILABLE, E_CIRCUIT_OPEN, E_CANCELLED
   */
  connect(id: string, signal?: AbortSignal): Promise<void>
  /** Disconnects a server until `connect`; calls do not start it. @throws PegboardError E_NOT_FOUND */
  disconnect(id: string): Promise<void>
  /** Ids of the Pegboards behind this one, from their lists. */
  gateways(): readonly string[]
  ended(session: string): void
  /** @throws PegboardError also E_NOT_FOUND */
  ping(id: string, signal?: AbortSignal): Promise<number | undefined>
  /** Looks for the server of a tool name that the catalog does not have. */
  readonly missed: UnknownToolSearch
  /** Name of the disabled server that a tool name begins with. @param sees as for `missed` */
  disabledServer(name: string, sees: Sees): string | undefined
  /**
   * Applies a new configuration: starts new servers, stops removed ones, and restarts those whose
   * `restartKeyOf` changed; others keep running with their new settings.
   */
  configure(servers: Readonly<Record<string, ServerSettings>>): Promise<void>
}

/** Number of unknown servers that connect at once. A server that takes longer than `START_TURN_MS` no longer counts. */
const maxConcurrentStarts = (): number => Math.max(4, 2 * availableParallelism())
const START_TURN_MS = 3_000
/** How long a call waits for other servers to start before its own. */
const START_PATIENCE_MS = 300
/** Offers are saved after this much quiet, or at the second tick at the latest. */
const KEEP_QUIET_MS = 500
const KEEP_LONGEST_MS = 5_000
/** If a timer is later than this, the machine slept or this process was blocked. */
const CLOCK_CHECK_MS = 30_000
const LATE_MS = 15_000

const STOP_MS = 3_000
const GRACE_MS = 700

/** @internal */
export function createUpstreams(options: UpstreamsOptions): Upstreams {
  const { servers, delayMs, clock = systemClock, platform = process.platform, ...services } = options
  const { environment, log } = options
  const watchdog = createWatchdog({ platform, environment, warn: (message) => log.warn(message) })
  const shared: UpstreamShared = {
    hooks: {},
    callTimeoutMs: 600_000,
    connectTimeoutMs: 30_000,
    installTimeoutMs: options.connectTimeoutMs ?? 180_000,
    ...services,
    ...(options.tokens && { tokens: shareOpen(options.tokens) }),
    clock,
    platform,
    timestamps: createTimestamps(clock),
    reapers: new Set(),
    spawnTurn: createSpawnQueue(),
    orphans: createOrphanProcesses(platform),
    flood: { waiting: 0 },
    watchdog,
    saveLater: createDebouncer(clock, KEEP_QUIET_MS, KEEP_LONGEST_MS),
    startQueue: createStartQueue(clock, {
      maxConcurrent: maxConcurrentStarts(),
      longestMs: START_TURN_MS,
      impatientMs: START_PATIENCE_MS,
    }),
  }
  const delays = { cold: 0, known: 1_000, ...delayMs }
  let configured = servers
  let running = new Map<string, RunningServer>()
  const stopping = new Set<Promise<void>>()
  let cancelClockCheck = (): void => undefined
  let started = false
  let unlisten: (() => void) | undefined

  // Last chance to kill children, whatever ends this process except SIGKILL.
  const reap = (): void => {
    for (const end of shared.reapers) end()
  }

  const retire = (upstream: Upstream, why?: string): Promise<void> => {
    const stopped = upstream.stop(GRACE_MS, why).finally(() => stopping.delete(stopped))
    stopping.add(stopped)
    return stopped
  }

  const findRunning = (id: string): RunningServer => {
    const server = running.get(id)
    if (!server) throw new PegboardError('E_NOT_FOUND', `There is no running server "${id}".`)
    return server
  }

  function run(): void {
    // A server restarted with new settings begins with its saved manifest.
    shared.saveLater.flush()
    const modules = moduleIds(configured)
    const next = new Map<string, RunningServer>()
    for (const [id, settings] of Object.entries(configured)) {
      if (!settings.enabled) continue
      const module = modules.get(id) as string
      const previous = running.get(id)
      const stays = previous?.module === module && restartKeyOf(previous.settings) === restartKeyOf(settings)
      const upstream = stays ? previous.upstream : createUpstream(id, module, settings, shared)
      next.set(id, { upstream, module, settings })
      if (stays && JSON.stringify(previous.settings) !== JSON.stringify(settings)) upstream.apply(settings)
    }
    const added = [...next].filter(([id, { upstream }]) => running.get(id)?.upstream !== upstream)
    for (const [id, { upstream, module }] of running) {
      if (next.get(id)?.upstream === upstream) continue
      void retire(upstream)
      options.catalog.delete(module)
    }
    running = next
    for (const [, { upstream }] of added) upstream.restore()
    const startedTogetherAt = shared.timestamps.next()
    for (const [, { upstream }] of added) upstream.start(delays, startedTogetherAt)
  }

  function scheduleClockCheck(): void {
    const due = clock.now() + CLOCK_CHECK_MS
    cancelClockCheck = clock.after(CLOCK_CHECK_MS, () => {
      if (clock.now() - due > LATE_MS) for (const { upstream } of running.values()) void upstream.recheck()
      scheduleClockCheck()
    })
  }

  return {
    async start() {
      if (started) return
      started = true
      process.on('exit', reap)
      scheduleClockCheck()
      unlisten = options.trust?.onChange(() => {
        for (const { upstream } of running.values()) upstream.reviewed()
      })
      run()
    },
    begin() {
      for (const { upstream } of running.values()) upstream.begin()
    },
    get arriving() {
      return shared.startQueue.busy
    },
    async stop() {
      if (!started) return
      started = false
      cancelClockCheck()
      unlisten?.()
      shared.saveLater.flush()
      for (const { upstream } of running.values()) void retire(upstream)
      running = new Map()
      await waitAtMost(STOP_MS, Promise.allSettled([...stopping]))
      reap()
      watchdog.stop()
      process.off('exit', reap)
    },
    status() {
      const modules = moduleIds(configured)
      return Object.entries(configured).map(
        ([id, { target, start, enabled, instance = 'shared' }]) =>
          running.get(id)?.upstream.status() ?? {
            id,
            module: modules.get(id) as string,
            state: 'stopped',
            reason: enabled ? 'not started' : 'disabled',
            tools: 0,
            transport: target.kind,
            start,
            pending: false,
            instance,
          },
      )
    },
    modules: () => [...moduleIds(configured).values()],
    where: (id) => configured[id]?.where ?? id,
    offered: (id) => running.get(id)?.upstream.offered() ?? [],
    stderrTail: (id) => running.get(id)?.upstream.stderrTail() ?? '',
    problems: () => [...running.values()].flatMap(({ upstream }) => upstream.problems()),
    async refresh(id) {
      if (id === undefined) {
        const live = [...running.values()].filter(({ upstream }) => upstream.status().state === 'ready')
        await Promise.all(live.map(({ upstream }) => upstream.refresh()))
        return
      }
      await findRunning(id).upstream.refresh()
    },
    async connect(id, signal) {
      const server = findRunning(id)
      if (server.upstream.status().state === 'stopped') {
        const upstream = createUpstream(id, server.module, server.settings, shared)
        running.set(id, { ...server, upstream })
        upstream.restore()
        upstream.start({ cold: 0, known: 0 }, shared.timestamps.next())
      }
      await findRunning(id).upstream.waitForConnection(signal)
    },
    async disconnect(id) {
      const { upstream } = findRunning(id)
      // When it is connected again, it begins with its saved manifest.
      shared.saveLater.flush()
      if (upstream.status().state !== 'stopped') await retire(upstream, 'it was disconnected')
    },
    gateways: () => [...new Set([...running.values()].flatMap(({ upstream }) => upstream.gateways()))],
    ended(session) {
      for (const { upstream } of running.values()) upstream.ended(session)
    },
    ping: async (id, signal) => await findRunning(id).upstream.ping(signal),
    missed: createUnknownToolSearch(clock, () => running),
    disabledServer(name, sees) {
      const modules = moduleIds(configured)
      const disabled = Object.entries(configured).find(([id, { enabled, prefix }]) => {
        const module = modules.get(id) as string
        return !enabled && isNamed(name, [id, module, prefix]) && sees(module)
      })
      return disabled?.[0]
    },
    async configure(servers) {
      configured = servers
      if (started) run()
    },
  }
}

/**
 * Catalog owners by server id: `GitHub (work)` → `mcp_github_work`. The same ids in the same order give the same
 * owners.
 * @param servers by id
 */
export function moduleIds(servers: Readonly<Record<string, unknown>>): ReadonlyMap<string, string> {
  return getOrInsert(idsByServers, servers, () => {
    const uniqueName = createUniqueNames()
    const ids = new Map<string, string>()
    for (const id of Object.keys(servers)) {
      const slug = id
        .toLowerCase()
        .replaceAll(/[^a-z0-9_-]+/g, '_')
        .replaceAll(/^_+|_+$/g, '')
      ids.set(id, uniqueName(`mcp_${slug || 'server'}`.slice(0, 60)))
    }
    return ids
  })
}

/** A start asks for the ids of fifty servers once for each bundled module. */
const idsByServers = new WeakMap<object, ReadonlyMap<string, string>>()

/** Shares one promise among all callers; a failed one is replaced. */
function shareOpen<T>(open: () => Promise<T>): () => Promise<T> {
  let opened: Promise<T> | undefined
  return () => {
    opened ??= open().catch((error: unknown) => {
      opened = undefined
      throw error
    })
    return opened
  }
}
