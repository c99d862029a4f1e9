import type { Catalog } from '../catalog/catalog.ts'
import { type Clock, systemClock } from '../core/clock.ts'
import { PegboardError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { createNames } from './adapt.ts'
import type { ManifestStore } from './manifest.ts'
import type { ServerSettings } from './settings.ts'
import type { UpstreamHooks, UpstreamShared } from './shared.ts'
import type { Environment } from './spawn.ts'
import { createUpstream, type Upstream, type UpstreamStatus } from './upstream.ts'

export interface UpstreamsOptions {
  readonly catalog: Catalog
  readonly log: Log
  /** By the keys of `mcpServers`. */
  readonly servers: Readonly<Record<string, ServerSettings>>
  /** Our environment; children get a short list out of it. */
  readonly environment: Environment
  /** How we introduce ourselves to servers. */
  readonly clientInfo: { readonly name: string; readonly version: string }
  readonly clock?: Clock
  readonly manifests?: ManifestStore
  readonly hooks?: UpstreamHooks
  /** Longest call for servers that set none; default 600,000. Callers' signals end most earlier. */
  readonly callTimeoutMs?: number
  /** Default 30,000. */
  readonly connectTimeoutMs?: number
  /**
   * How long `start` waits before it connects servers never seen (default 0) and servers known from a manifest
   * (default 1,000), so that the first list is out before children take the processor. A call does not wait for it.
   */
  readonly delayMs?: { readonly cold?: number; readonly known?: number }
  /** Longest message of a stdio server; default 16 MiB. */
  readonly maxFrameBytes?: number
  readonly platform?: string
}

/** All configured MCP servers. None waits for another. */
export interface Upstreams {
  /** Returns at once: what manifests know is in the catalogue, connections follow. */
  start(): void
  /** Ends all in parallel, children and their children included, within three seconds. */
  stop(): Promise<void>
  status(): readonly UpstreamStatus[]
  /** Settings of tools that have no effect, as sentences for the operator. */
  problems(): readonly string[]
  /** Reads the lists of one server, or all, again. @throws PegboardError E_NOT_FOUND, E_UPSTREAM_UNAVAILABLE */
  refresh(id?: string): Promise<void>
  /** Makes the servers these: starts new ones, stops those gone, restarts those that changed, leaves the rest alone. */
  configure(servers: Readonly<Record<string, ServerSettings>>): void
}

const STOP_MS = 3_000
const GRACE_MS = 700

export function createUpstreams(options: UpstreamsOptions): Upstreams {
  const shared: UpstreamShared = {
    catalog: options.catalog,
    log: options.log,
    clock: options.clock ?? systemClock,
    environment: options.environment,
    platform: options.platform ?? process.platform,
    clientInfo: options.clientInfo,
    manifests: options.manifests,
    hooks: options.hooks ?? {},
    callTimeoutMs: options.callTimeoutMs ?? 600_000,
    connectTimeoutMs: options.connectTimeoutMs ?? 30_000,
    maxFrameBytes: options.maxFrameBytes,
    reapers: new Set(),
  }
  const delays = { cold: 0, known: 1_000, ...options.delayMs }
  let configured = options.servers
  let running = new Map<string, { readonly upstream: Upstream; readonly text: string; readonly module: string }>()
  const leaving = new Set<Promise<void>>()
  let started = false

  // The last chance to take children along, whatever ends this process but SIGKILL.
  const reap = (): void => {
    for (const end of shared.reapers) end()
  }

  const retire = (upstream: Upstream): Promise<void> => {
    const gone = upstream.stop(GRACE_MS).finally(() => leaving.delete(gone))
    leaving.add(gone)
    return gone
  }

  function run(): void {
    const modules = moduleIds(Object.keys(configured))
    const next: typeof running = new Map()
    for (const [id, settings] of Object.entries(configured)) {
      if (!settings.enabled) continue
      const module = modules.get(id) as string
      const text = JSON.stringify(settings)
      const before = running.get(id)
      if (before && before.text === text && before.module === module) next.set(id, before)
      else next.set(id, { upstream: createUpstream(id, module, settings, shared), text, module })
    }
    const added = [...next].filter(([id, { upstream }]) => running.get(id)?.upstream !== upstream)
    for (const [id, { upstream, module }] of running) {
      if (next.get(id)?.upstream === upstream) continue
      void retire(upstream)
      options.catalog.delete(module)
    }
    running = next
    for (const [, { upstream }] of added) upstream.start(delays)
  }

  return {
    start() {
      if (started) return
      started = true
      process.on('exit', reap)
      run()
    },
    async stop() {
      if (!started) return
      started = false
      for (const { upstream } of running.values()) void retire(upstream)
      running = new Map()
      await Promise.race([
        Promise.allSettled([...leaving]),
        new Promise((resolve) => setTimeout(resolve, STOP_MS).unref()),
      ])
      reap()
      process.off('exit', reap)
    },
    status: () => {
      const modules = moduleIds(Object.keys(configured))
      return Object.entries(configured).map(
        ([id, { target }]) =>
          running.get(id)?.upstream.status() ?? {
            id,
            module: modules.get(id) as string,
            state: 'stopped',
            reason: configured[id]?.enabled === false ? 'disabled' : 'not started',
            tools: 0,
            transport: target.kind,
          },
      )
    },
    problems: () => [...running.values()].flatMap(({ upstream }) => upstream.problems()),
    async refresh(id) {
      if (id === undefined) {
        await Promise.all([...running.values()].map(({ upstream }) => upstream.refresh()))
        return
      }
      const one = running.get(id)
      if (!one) throw new PegboardError('E_NOT_FOUND', `There is no running server "${id}".`)
      await one.upstream.refresh()
    },
    configure(servers) {
      configured = servers
      if (started) run()
    },
  }
}

/** Catalogue owners for server ids: `GitHub (work)` → `mcp_github_work`. The same keys in the same order give the same. */
export function moduleIds(ids: readonly string[]): ReadonlyMap<string, string> {
  const distinct = createNames()
  return new Map(
    ids.map((id) => {
      const slug = id
        .toLowerCase()
        .replaceAll(/[^a-z0-9_-]+/g, '_')
        .replaceAll(/^_+|_+$/g, '')
      return [id, distinct(`mcp_${slug || 'server'}`.slice(0, 60))]
    }),
  )
}
