import { readdir } from 'node:fs/promises'
import type { Config } from './config/load.ts'
import { messageOf } from './core/errors.ts'
import type { Log } from './core/log.ts'
import type { Observer } from './core/observer.ts'
import { createObserver } from './observe/observer.ts'
import type { Telemetry } from './observe/otel.ts'
import { createRegistry, type Point, type Registry } from './observe/registry.ts'

/** What is counted of this process, and whoever is told of it. */
export interface Observed {
  readonly observer: Observer
  readonly registry: Registry
  /** From now on: nobody need wait for it. */
  start(): void
  stop(): Promise<void>
}

/** What is asked of the parts when somebody looks. */
export interface Parts {
  calls(): { readonly running: number; readonly waiting: number }
  upstreams(): readonly { readonly id: string; readonly state: string }[]
  tasks(): number
  /** Documents of a kind that are kept; undefined where nothing was ever kept. */
  kept(kind: 'job' | 'watcher'): Promise<number> | undefined
  auditDropped(): number
  logDropped(): number
}

export interface ObservedOptions {
  readonly config: Pick<Config, 'telemetry' | 'server'>
  readonly env: Readonly<Record<string, string | undefined>>
  readonly version: string
  readonly log: Log
  readonly parts: Parts
}

/** `undefined` where the operator wants none of it, so that it costs nothing. */
export function createObserved({ config, env, version, log, parts }: ObservedOptions): Observed | undefined {
  const { telemetry: settings, server } = config
  const sends = (settings.traces || settings.metrics) && env['OTEL_SDK_DISABLED']?.toLowerCase() !== 'true'
  if (!sends && !settings.prometheus) return undefined
  const registry = createRegistry()
  gauges(registry, parts)
  let telemetry: Promise<Telemetry | undefined> | undefined
  let stopProcess: (() => void) | undefined
  const load = (): Promise<Telemetry | undefined> => {
    telemetry ??= import('./observe/otel.ts')
      .then(({ startTelemetry }) =>
        startTelemetry({ settings, serviceName: env['OTEL_SERVICE_NAME'] ?? server.name, version, registry, log }),
      )
      .catch(async (error: unknown) => {
        const { PACKAGES } = await import('./observe/otel.ts')
        log.error('telemetry is on, and its packages cannot be used', {
          error: messageOf(error).split('\n', 1)[0],
          hint: `npm install ${PACKAGES}`,
        })
        return undefined
      })
    return telemetry
  }
  const observer = createObserver({
    registry,
    ...(sends ? { tracer: async () => (await load())?.tracer } : {}),
    propagate: settings.propagate,
  })
  return {
    observer,
    registry,
    start() {
      if (sends) void load()
      stopProcess ??= ofProcess(registry)
    },
    async stop() {
      stopProcess?.()
      await (await telemetry)?.stop()
    },
  }
}

const one = (value: number): readonly Point[] => [{ labels: {}, value }]
const MAX_SERVERS = 200

function gauges(registry: Registry, parts: Parts): void {
  const gauge = (name: string, help: string, read: () => readonly Point[] | Promise<readonly Point[]>): void =>
    registry.observe({ name, help, type: 'gauge', unit: '' }, read)
  const counter = (name: string, help: string, read: () => number): void =>
    registry.observe({ name, help, type: 'counter', unit: '' }, () => one(read()))
  gauge('pegboard.calls.running', 'Calls that run now.', () => one(parts.calls().running))
  gauge('pegboard.calls.waiting', 'Calls that wait for a place to run.', () => one(parts.calls().waiting))
  gauge('pegboard.upstreams', 'Servers behind this one, by how they are.', () => {
    const states = new Map<string, number>()
    for (const { state } of parts.upstreams()) states.set(state, (states.get(state) ?? 0) + 1)
    return [...states].map(([state, value]) => ({ labels: { state }, value }))
  })
  gauge('pegboard.upstream.ready', 'Whether a server behind this one is connected.', () =>
    parts
      .upstreams()
      .slice(0, MAX_SERVERS)
      .map(({ id, state }) => ({ labels: { 'pegboard.server': id }, value: state === 'ready' ? 1 : 0 })),
  )
  gauge('pegboard.tasks.running', 'Tasks that run now.', () => one(parts.tasks()))
  gauge('pegboard.schedules', 'Schedules that are kept.', async () => one((await parts.kept('job')) ?? 0))
  gauge('pegboard.watchers', 'Watchers that are kept.', async () => one((await parts.kept('watcher')) ?? 0))
  counter('pegboard.log.dropped', 'Lines of the log that nobody read.', parts.logDropped)
  counter('pegboard.audit.dropped', 'Lines of the audit log that could not be kept.', parts.auditDropped)
}

const LAG_RESOLUTION_MS = 20

/** How the process itself is: the names are those that others look for. @returns how to stop measuring */
function ofProcess(registry: Registry): () => void {
  const s = { unit: 's' }
  registry.observe({ name: 'process.resident_memory', help: 'Memory of the process.', type: 'gauge', unit: 'By' }, () =>
    one(process.memoryUsage.rss()),
  )
  registry.observe({ name: 'nodejs.heap.used', help: 'Heap in use.', type: 'gauge', unit: 'By' }, () =>
    one(process.memoryUsage().heapUsed),
  )
  registry.observe({ name: 'process.cpu', help: 'Time on processors.', type: 'counter', ...s }, () => {
    const { user, system } = process.cpuUsage()
    return one((user + system) / 1_000_000)
  })
  const startedAt = Date.now() / 1_000 - process.uptime()
  registry.observe({ name: 'process.start_time', help: 'When it started.', type: 'gauge', ...s }, () => one(startedAt))
  if (process.platform === 'linux')
    registry.observe({ name: 'process.open_fds', help: 'Open files and sockets.', type: 'gauge', unit: '' }, async () =>
      one((await readdir('/proc/self/fd')).length),
    )
  let lag: import('node:perf_hooks').IntervalHistogram | undefined
  let over = false
  void import('node:perf_hooks').then(({ monitorEventLoopDelay }) => {
    if (over) return
    lag = monitorEventLoopDelay({ resolution: LAG_RESOLUTION_MS })
    lag.enable()
  })
  // A look from one reader must not take from another what it would have seen.
  for (const [name, read] of [
    ['p50', () => lag?.percentile(50)],
    ['p99', () => lag?.percentile(99)],
    ['max', () => lag?.max],
  ] as const)
    registry.observe(
      { name: `nodejs.eventloop.delay.${name}`, help: 'How late timers were, since the start.', type: 'gauge', ...s },
      () => one(Math.max(0, (read() ?? 0) / 1_000_000_000 - LAG_RESOLUTION_MS / 1_000)),
    )
  return () => {
    over = true
    lag?.disable()
  }
}
