import { availableParallelism } from 'node:os'
import type { Catalog } from '../catalog/catalog.ts'
import { type Clock, systemClock } from '../core/clock.ts'
import type { Stop } from '../core/ending.ts'
import { PegboardError } from '../core/errors.ts'
import { createLater } from '../core/later.ts'
import type { Log } from '../core/log.ts'
import type { Observer } from '../core/observer.ts'
import type { Environment } from '../programs/spawn.ts'
import { createStrays } from '../programs/strays.ts'
import { createWatchdog } from '../programs/watchdog.ts'
import type { Trust } from '../trust/trust.ts'
import { createNames } from './adapt.ts'
import type { ManifestStore } from './manifest.ts'
import type { TokenStore } from './oauth/store.ts'
import type { LostRules } from './publish.ts'
import type { ServerSettings } from './settings.ts'
import type { UpstreamHooks, UpstreamShared } from './shared.ts'
import { createStarts } from './starts.ts'
import { createTurns } from './turns.ts'
import { createUpstream, type Upstream, type UpstreamStatus } from './upstream.ts'

/** @internal */
export interface UpstreamsOptions {
  readonly catalog: Catalog
  readonly log: Log
  /** By the keys of `mcpServers`. */
  readonly servers: Readonly<Record<string, ServerSettings>>
  /** Our environment; children get a short list out of it. */
  readonly environment: Environment
  /** How we introduce ourselves to servers. */
  readonly clientInfo: { readonly name: string; readonly version: string }
  /** Our own id among Pegboards: servers that lead back to it are refused. */
  readonly gateway?: () => string
  readonly clock?: Clock
  readonly manifests?: ManifestStore
  /** Opens the logins of this installation; without it no server is logged in to. */
  readonly tokens?: () => Promise<TokenStore>
  readonly hooks?: UpstreamHooks
  readonly observer?: Observer | undefined
  /** Decides which tools are let in; without it all are. */
  readonly trust?: Trust
  readonly lostRules?: LostRules
  /** Longest call for servers that set none; default 600,000. Callers' signals end most earlier. */
  readonly callTimeoutMs?: number
  /** Default 30,000. */
  readonly connectTimeoutMs?: number
  /** Instead, for programs that may be downloading themselves; default 180,000, or `connectTimeoutMs` where that is given. */
  readonly installTimeoutMs?: number
  /**
   * How long `start` waits before it connects servers never seen (default 0) and servers known from a manifest
   * (default 1,000), so that the first list is out before children take the processor. A call does not wait for it.
   */
  readonly delayMs?: { readonly cold?: number; readonly known?: number }
  /** Longest message of a stdio server; default 16 MiB. */
  readonly maxFrameBytes?: number
  /** The same while nothing but results of calls is waited for; default the same. */
  readonly maxAnswerBytes?: number
  readonly platform?: string
}

type Sees = (module: string) => boolean

/** All configured MCP servers. None waits for another. */
export interface Upstreams {
  /** Returns at once: what manifests know is in the catalogue, connections follow. */
  start(): void
  /** Servers never seen are looked at from now on, however much is left of `delayMs.cold`. */
  begin(): void
  /** Servers are being seen for the first time just now. */
  readonly arriving: boolean
  /** Tools of servers that have come are still to be looked at: whoever asks for a list now has it done at once. */
  readonly unread: boolean
  /** Ends all in parallel, children and their children included, within three seconds. */
  stop(): Promise<void>
  status(): readonly UpstreamStatus[]
  /** Where a server stands in the file; one that does not, its id. */
  where(id: string): string
  /** Settings of tools that have no effect, as sentences for the operator. */
  problems(): readonly string[]
  /** All tools of a server by its own names, those left out too; none of one that is switched off. */
  offered(id: string): readonly string[]
  /** Reads the lists of one server, starting it if need be, or of all that run. @throws PegboardError E_NOT_FOUND, E_UPSTREAM_UNAVAILABLE */
  refresh(id?: string): Promise<void>
  /** Connects one, also one that was disconnected. @throws PegboardError E_NOT_FOUND, E_UPSTREAM_UNAVAILABLE, E_CIRCUIT_OPEN, E_CANCELLED */
  connect(id: string, signal?: Stop): Promise<void>
  /** Ends one until it is connected: no call starts it. @throws PegboardError E_NOT_FOUND */
  disconnect(id: string): Promise<void>
  /** Ids of the Pegboards behind this one, as far as their lists said. */
  gateways(): readonly string[]
  /** A session of a client is over: what servers run for it alone is stopped. */
  ended(session: string): void
  /** How long one takes to answer, in milliseconds; undefined where it is not connected. @throws PegboardError E_NOT_FOUND, E_UPSTREAM_UNAVAILABLE, E_TIMEOUT */
  ping(id: string, signal?: Stop): Promise<number | undefined>
  /**
   * A tool of this name is not known. A server never seen that the name begins with is started now and waited for, as
   * long as connecting may take. Else reads the lists of all that run once more, at most once a minute, and of a server
   * at rest that the name begins with. Answers whether it is worth looking again.
   * @param options.signal nobody waits any more
   * @param options.sees which servers are there for who asks, by their modules; default all
   */
  missed(name: string, options?: { readonly signal?: Stop | undefined; readonly sees?: Sees }): Promise<boolean>
  /**
   * Makes the servers these: starts new ones, stops those gone, restarts those with another target, login or
   * permission to ask; the others keep running and take their settings over.
   */
  configure(servers: Readonly<Record<string, ServerSettings>>): void
}

/** Servers never seen before are started so many at a time, and one that is slow gives way after a while. */
const looksAtOnce = (): number => Math.max(4, 2 * availableParallelism())
const LOOK_TURN_MS = 3_000
/** A call waits so long for others to be started before its server is. */
const LOOK_PATIENCE_MS = 300
/** What servers offer is kept when none has come for so long, after the second time at the latest. */
const KEEP_QUIET_MS = 500
const KEEP_LONGEST_MS = 5_000
/** What came while calls waited is looked at when no server is coming for so long, after the second time at the latest. */
const READ_QUIET_MS = 150
const READ_LONGEST_MS = 5_000
/** One that is slow to come keeps nobody waiting for the tools of those that came. */
const READ_BUSY_MS = 500
/** A timer this late means that the machine slept, or that we did. */
const BEAT_MS = 30_000
const LATE_MS = 15_000
/** An unknown name makes us look for new tools this seldom, and its call wait this long. */
const MISS_EVERY_MS = 60_000
const MISS_WAIT_MS = 8_000
interface Running {
  readonly upstream: Upstream
  readonly module: string
  /** What another process or address is needed for. */
  readonly reach: string
  readonly text: string
}

const STOP_MS = 3_000
const GRACE_MS = 700

/** @internal */
export function createUpstreams(options: UpstreamsOptions): Upstreams {
  const clock = options.clock ?? systemClock
  const platform = options.platform ?? process.platform
  const { environment } = options
  const watchdog = createWatchdog({ platform, environment, warn: (message) => options.log.warn(message) })
  const turns = createTurns(clock, { places: looksAtOnce(), longestMs: LOOK_TURN_MS, impatientMs: LOOK_PATIENCE_MS })
  const shared: UpstreamShared = {
    catalog: options.catalog,
    log: options.log,
    clock,
    environment,
    platform,
    clientInfo: options.clientInfo,
    gateway: options.gateway,
    manifests: options.manifests,
    tokens: once(options.tokens),
    hooks: options.hooks ?? {},
    observer: options.observer,
    trust: options.trust,
    lostRules: options.lostRules,
    callTimeoutMs: options.callTimeoutMs ?? 600_000,
    connectTimeoutMs: options.connectTimeoutMs ?? 30_000,
    installTimeoutMs: options.installTimeoutMs ?? options.connectTimeoutMs ?? 180_000,
    maxFrameBytes: options.maxFrameBytes,
    maxAnswerBytes: options.maxAnswerBytes,
    reapers: new Set(),
    starts: createStarts(),
    strays: createStrays(platform),
    flood: { waiting: 0 },
    watchdog,
    later: createLater(clock, KEEP_QUIET_MS, KEEP_LONGEST_MS),
    unread: createLater(clock, READ_QUIET_MS, READ_LONGEST_MS, () => turns.busy, READ_BUSY_MS),
    turns,
  }
  const delays = { cold: 0, known: 1_000, ...options.delayMs }
  let configured = options.servers
  let running = new Map<string, Running>()
  const leaving = new Set<Promise<void>>()
  let cancelBeat = (): void => undefined
  let looking: Promise<void> | undefined
  let lookedAt = Number.NEGATIVE_INFINITY
  let started = false
  let unlisten: (() => void) | undefined

  // The last chance to take children along, whatever ends this process but SIGKILL.
  const reap = (): void => {
    for (const end of shared.reapers) end()
  }

  const retire = (upstream: Upstream, why?: string): Promise<void> => {
    const gone = upstream.stop(GRACE_MS, why).finally(() => leaving.delete(gone))
    leaving.add(gone)
    return gone
  }

  const runningAs = (id: string): Running => {
    const one = running.get(id)
    if (!one) throw new PegboardError('E_NOT_FOUND', `There is no running server "${id}".`)
    return one
  }

  function run(): void {
    // One that is started again under other settings begins with it.
    shared.unread.flush()
    shared.later.flush()
    const modules = moduleIds(Object.keys(configured))
    const next: typeof running = new Map()
    for (const [id, settings] of Object.entries(configured)) {
      if (!settings.enabled) continue
      const module = modules.get(id) as string
      const text = JSON.stringify(settings)
      const reach = reachOf(settings)
      const before = running.get(id)
      const stays = before && before.reach === reach && before.module === module ? before.upstream : undefined
      next.set(id, { upstream: stays ?? createUpstream(id, module, settings, shared), module, reach, text })
      if (stays && before?.text !== text) stays.apply(settings)
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

  function beat(): void {
    const due = clock.now() + BEAT_MS
    cancelBeat = clock.after(BEAT_MS, () => {
      if (clock.now() - due > LATE_MS) for (const { upstream } of running.values()) void upstream.recheck()
      beat()
    })
  }

  /** Servers worth asking for a tool nobody knows: those that run, and the one that is named though it does not. */
  async function lookFor(name: string, sees: Sees): Promise<void> {
    const asked = [...running].filter(([id, { upstream, module }]) => {
      if (!sees(module)) return false
      const { state } = upstream.status()
      const named = (): boolean => isNamed(name, [id, module, configured[id]?.prefix ?? id])
      return state === 'ready' || (state === 'known' && named())
    })
    const refreshed = Promise.allSettled(asked.map(([, { upstream }]) => upstream.refresh()))
    await Promise.race([refreshed, new Promise<void>((resolve) => clock.after(MISS_WAIT_MS, resolve))])
  }

  /** Servers that nothing is known of yet and that are not known to be ill, the one that is named best. */
  function unseen(name: string, sees: Sees): Upstream | undefined {
    let best: Upstream | undefined
    let longest = 0
    for (const [id, { upstream, module }] of running) {
      const length = namedBy(name, [id, module, configured[id]?.prefix ?? id])
      if (length <= longest) continue
      if (!upstream.unseen || !sees(module)) continue
      best = upstream
      longest = length
    }
    return best
  }

  return {
    start() {
      if (started) return
      started = true
      process.on('exit', reap)
      beat()
      unlisten = options.trust?.onChange(() => {
        for (const { upstream } of running.values()) upstream.reviewed()
      })
      run()
    },
    begin() {
      for (const { upstream } of running.values()) upstream.begin()
    },
    get arriving() {
      return shared.turns.busy || shared.unread.busy
    },
    get unread() {
      return shared.unread.busy
    },
    async stop() {
      if (!started) return
      started = false
      cancelBeat()
      unlisten?.()
      shared.unread.flush()
      shared.later.flush()
      for (const { upstream } of running.values()) void retire(upstream)
      running = new Map()
      await Promise.race([
        Promise.allSettled([...leaving]),
        new Promise((resolve) => setTimeout(resolve, STOP_MS).unref()),
      ])
      reap()
      watchdog.stop()
      process.off('exit', reap)
    },
    status: () => {
      // Asked for each tool that needs a server, and nearly always all are running.
      let modules: ReadonlyMap<string, string> | undefined
      const moduleOf = (id: string): string => {
        modules ??= moduleIds(Object.keys(configured))
        return modules.get(id) as string
      }
      return Object.entries(configured).map(
        ([id, { target, start }]) =>
          running.get(id)?.upstream.status() ?? {
            id,
            module: moduleOf(id),
            state: 'stopped',
            reason: configured[id]?.enabled === false ? 'disabled' : 'not started',
            tools: 0,
            transport: target.kind,
            start,
            pending: false,
            instance: configured[id]?.instance ?? 'shared',
          },
      )
    },
    where: (id) => configured[id]?.where ?? id,
    offered: (id) => running.get(id)?.upstream.offered() ?? [],
    problems: () => [...running.values()].flatMap(({ upstream }) => upstream.problems()),
    async refresh(id) {
      if (id === undefined) {
        const live = [...running.values()].filter(({ upstream }) => upstream.status().state === 'ready')
        await Promise.all(live.map(({ upstream }) => upstream.refresh()))
        return
      }
      await runningAs(id).upstream.refresh()
    },
    async connect(id, signal) {
      const one = runningAs(id)
      if (one.upstream.status().state === 'stopped') {
        const settings = configured[id] as ServerSettings
        const upstream = createUpstream(id, one.module, settings, shared)
        running.set(id, { ...one, upstream })
        upstream.start({ cold: 0, known: 0 })
      }
      await runningAs(id).upstream.meet(signal)
    },
    async disconnect(id) {
      const { upstream } = runningAs(id)
      if (upstream.status().state !== 'stopped') await retire(upstream, 'it was disconnected')
    },
    gateways: () => [...new Set([...running.values()].flatMap(({ upstream }) => upstream.gateways))],
    ended(session) {
      for (const { upstream } of running.values()) upstream.ended(session)
    },
    ping: async (id, signal) => await runningAs(id).upstream.ping(signal),
    async missed(name, { signal, sees = () => true } = {}) {
      const wanted = unseen(name, sees)
      if (wanted) {
        // Why it did not come is told by its state.
        await wanted.meet(signal).catch(() => undefined)
        return true
      }
      // Whoever comes while we look waits for the same look.
      if (looking) {
        await looking
        return true
      }
      if (running.size === 0 || clock.now() - lookedAt < MISS_EVERY_MS) return false
      lookedAt = clock.now()
      looking = lookFor(name, sees).finally(() => {
        looking = undefined
      })
      await looking
      return true
    },
    configure(servers) {
      configured = servers
      if (started) run()
    },
  }
}

/** Everything that a running process or an open session depends on. Attribution is fixed when a connection is made. */
const reachOf = ({ target, auth, allowPrivate, relay, prefix, instance }: ServerSettings): string =>
  JSON.stringify([target, auth, allowPrivate, relay, prefix === '', instance])

/** Whether the name of a tool begins with one of these. */
export const isNamed = (name: string, names: readonly string[]): boolean => namedBy(name, names) > 0

/** The length of the longest of these that the name of a tool begins with; 0 for none. */
function namedBy(name: string, names: readonly string[]): number {
  const wanted = name.toLowerCase()
  let longest = 0
  for (const one of names) {
    const { length } = one
    if (length > longest && wanted.startsWith(one.toLowerCase()) && /^[^a-z0-9]/.test(wanted.slice(length)))
      longest = length
  }
  return longest
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

/** The same promise for everyone who asks; one that failed is made again. */
function once<T>(open: (() => Promise<T>) | undefined): (() => Promise<T>) | undefined {
  let opened: Promise<T> | undefined
  return (
    open &&
    (() => {
      opened ??= open().catch((error: unknown) => {
        opened = undefined
        throw error
      })
      return opened
    })
  )
}
