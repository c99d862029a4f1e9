import type { ToolSource } from '../catalog/tool-source.ts'
import { waitAtMost } from '../core/wait-at-most.ts'
import type { Api, ApiShared, ApiStatus } from './api.ts'
import type { ApiSettings } from './openapi-options.ts'

/** All configured APIs. They start independently. */
export interface Apis extends ToolSource<Readonly<Record<string, ApiSettings>>, readonly ApiStatus[]> {
  /**
   * Applies a new configuration: new and changed APIs start, removed ones stop, the others check their document
   * again.
   */
  configure(apis: Readonly<Record<string, ApiSettings>>): Promise<void>
  /** Checks all documents again now. Never rejects. */
  refresh(): Promise<void>
  /** Tool settings without effect, as sentences for the operator. */
  problems(): readonly string[]
}

export interface ApisOptions extends ApiShared {
  /** By the keys of `openapi`. */
  readonly apis: Readonly<Record<string, ApiSettings>>
  /** Delay before documents are checked, in milliseconds; default 250. */
  readonly delayMs?: number
}

/** Longest time that the start waits for documents on disk. */
const READING_WAIT_MS = 5_000

export function createApis(options: ApisOptions): Apis {
  const { catalog, log, delayMs = 250 } = options
  let configured = options.apis
  let running = new Map<string, { readonly api: Api; readonly text: string }>()
  let started = false
  let unlisten: (() => void) | undefined
  let queue: Promise<void> = Promise.resolve()
  /** Resolves when the APIs that were started last have their tools. */
  let reading: Promise<unknown> = Promise.resolve()

  const stopApi = (api: Api): Promise<void> =>
    api.stop().catch((error: unknown) => log.error('an API could not be stopped', { error }))

  async function applyConfiguration(): Promise<void> {
    const enabledApis = Object.entries(configured).filter(([, { enabled }]) => enabled)
    if (!started || (enabledApis.length === 0 && running.size === 0)) return
    // Loaded on demand, because most configurations name no API.
    const { createApi } = await import('./api.ts')
    const nextRunning: typeof running = new Map()
    for (const [id, settings] of enabledApis) {
      const text = JSON.stringify(settings)
      const existing = running.get(id)
      nextRunning.set(
        id,
        existing?.text === text ? existing : { api: createApi(id, moduleOf(id), settings, options), text },
      )
    }
    for (const [id, { api }] of running) {
      if (nextRunning.get(id)?.api === api) void api.refresh()
      else {
        void stopApi(api)
        catalog.delete(moduleOf(id))
      }
    }
    const added = [...nextRunning].filter(([id, { api }]) => running.get(id)?.api !== api)
    running = nextRunning
    reading = Promise.all(added.map(([, { api }]) => api.start(delayMs))).catch((error: unknown) =>
      log.error('APIs could not be started', { error }),
    )
  }

  /** One at a time, so that no change works with what another is about to change. */
  function enqueueRun(): Promise<void> {
    queue = queue
      .then(applyConfiguration)
      .catch((error: unknown) => log.error('APIs could not be configured', { error }))
    return queue
  }

  return {
    async start() {
      if (started) return
      started = true
      unlisten = options.approval.onChange(() => {
        for (const { api } of running.values()) api.applyReview()
      })
      await enqueueRun()
      await waitAtMost(READING_WAIT_MS, reading, undefined, options.clock)
    },
    async configure(apis) {
      configured = apis
      if (started) await enqueueRun()
    },
    status: () =>
      Object.entries(configured).flatMap(([id, { enabled }]) =>
        enabled
          ? [running.get(id)?.api.status() ?? { id, module: moduleOf(id), state: 'connecting' as const, tools: 0 }]
          : [],
      ),
    async refresh() {
      await queue
      await Promise.all([...running.values()].map(({ api }) => api.refresh()))
    },
    problems: () => [...running.values()].flatMap(({ api }) => api.problems()),
    async stop() {
      started = false
      unlisten?.()
      await queue
      const stops = [...running.values()].map(({ api }) => stopApi(api))
      running = new Map()
      await Promise.all(stops)
    },
  }
}

/** Catalog owner of an API; the configuration accepts only valid keys. */
export const moduleOf = (id: string): string => `api_${id}`
