import type { OwnerState } from '../catalog/catalog.ts'
import type { CallContext } from '../core/context.ts'
import { isPegboardError, messageOf, PegboardError } from '../core/errors.ts'
import type { ToolResult } from '../core/result.ts'
import type { Relay } from '../core/tool.ts'
import { timeoutOf } from './adapt.ts'
import type { Connection, RequestOptions } from './connection.ts'
import type { ToolRecord } from './definition.ts'
import { createEndpoints } from './endpoints.ts'
import { SESSION_LOST } from './lane.ts'
import { createLink } from './link.ts'
import { emptyListing, type Listing, type ListKind, readListing } from './listing.ts'
import { decodeManifest, type EraVerdict, encodeManifest, type Manifest, manifestKey } from './manifest.ts'
import { mirroredArguments, mirrorHeaders } from './mirror.ts'
import { createPublisher } from './publish.ts'
import type { ServerSettings } from './settings.ts'
import type { UpstreamShared } from './shared.ts'

type Json = Readonly<Record<string, unknown>>

export interface UpstreamStatus {
  readonly id: string
  /** Its category in the catalogue. */
  readonly module: string
  readonly state: OwnerState
  readonly reason?: string
  readonly tools: number
  readonly transport: 'stdio' | 'http' | 'sse'
  readonly era?: 'legacy' | 'modern'
  /** What the server said its version is, now or when last seen. */
  readonly version?: string
  /** Until it is tried again by itself. */
  readonly nextAttemptMs?: number
}

/** One MCP server as an owner in the catalogue. Connects by itself and never gives up. */
export interface Upstream {
  /** Lists what is known from before at once; connects after `delayMs`, or when first called. */
  start(delayMs: { readonly cold: number; readonly known: number }): void
  /** Reads all its lists again, connecting first if need be. @throws PegboardError E_UPSTREAM_UNAVAILABLE */
  refresh(): Promise<void>
  status(): UpstreamStatus
  /** Settings of its tools that have no effect. */
  problems(): readonly string[]
  stop(graceMs: number): Promise<void>
}

const LISTS: Readonly<Record<string, ListKind>> = {
  'notifications/tools/list_changed': 'tools',
  'notifications/resources/list_changed': 'resources',
  'notifications/prompts/list_changed': 'prompts',
}
const ALL: ReadonlySet<ListKind> = new Set<ListKind>(['tools', 'resources', 'prompts'])
/** A change is read at once; from the fifth within ten seconds on, only every two seconds. */
const REFRESH = { soonMs: 50, calm: 5, withinMs: 10_000, stormMs: 2_000 }

export function createUpstream(id: string, module: string, settings: ServerSettings, shared: UpstreamShared): Upstream {
  const { catalog, clock, hooks, manifests } = shared
  const log = shared.log.scoped(module)
  const timeoutMs = settings.timeoutMs ?? shared.callTimeoutMs
  const key = manifestKey(settings)
  const warn = (message: string): void => log.warn(message)

  let state: OwnerState = 'configured'
  let reason: string | undefined
  let version: string | undefined
  let listing: Listing = emptyListing
  const dirty = new Set<ListKind>()
  let refreshing = false
  let refreshes: number[] = []
  let cancelRefresh: (() => void) | undefined

  const link = createLink({
    id,
    settings,
    shared,
    log,
    async opened(connection) {
      dirty.clear()
      show(await readListing(connection, ALL, emptyListing, warn), connection)
      endpoints.restore(connection)
      if (dirty.size > 0) refreshSoon()
      log.info('connected', { transport: connection.transport, era: connection.era, tools: publisher.tools })
    },
    changed: become,
    notification: onNotification,
  })
  const endpoints = createEndpoints({
    timeoutMs,
    log,
    ready: (signal) => link.ready(signal),
    request: (method, params, relay, signal) =>
      request(method, { ...params, ...retryOf(relay) }, { timeoutMs, relay, signal }),
    promptNamed: (exposed) => publisher.promptNamed(exposed),
  })
  const publisher = createPublisher({
    id,
    module,
    settings,
    catalog,
    endpoints,
    log,
    capacity: {
      maxConcurrent: settings.maxConcurrent,
      maxQueued: settings.maxQueued,
      setting: `mcpServers.${id}.maxQueued`,
    },
    available,
    call,
  })

  function become(next: OwnerState, why?: string): void {
    if (state === next && reason === why) return
    state = next
    reason = why
    catalog.describe(module, { state, ...(why === undefined ? {} : { reason: why }) })
  }

  function available(): true | string {
    if (state === 'stopped') return `${id} is stopped`
    return state === 'failing' ? `${id} is reconnecting (attempt ${link.attempt})` : true
  }

  // --- lists --------------------------------------------------------------------------------------------------------

  function show(next: Listing, connection: Connection): void {
    listing = next
    const changed = state !== 'ready' || reason !== undefined
    state = 'ready'
    reason = undefined
    version = connection.server?.version
    if (!publisher.publish(next, { state }) && changed) catalog.describe(module, { state })
    manifests?.set(
      key,
      encodeManifest({
        verdict: link.verdict as EraVerdict,
        capabilities: connection.capabilities,
        ...(connection.server ? { server: connection.server } : {}),
        ...(link.startMs === undefined ? {} : { startMs: link.startMs }),
        ...next,
      }),
    )
  }

  /** What was learnt the last time. */
  function recall(): Manifest | undefined {
    const line = manifests?.line(key)
    try {
      return line && decodeManifest(line, () => manifests?.get(key))
    } catch (error) {
      log.warn(`what is kept about it cannot be used and is learnt again: ${messageOf(error)}`)
      return undefined
    }
  }

  function onNotification(method: string, params: Json, attributed: boolean): void {
    const kind = LISTS[method]
    if (kind) {
      dirty.add(kind)
      refreshSoon()
    } else if (method === 'notifications/message') {
      if (!attributed) hooks.onLog?.(id, params)
    } else if (method === 'notifications/resources/updated' && typeof params['uri'] === 'string')
      hooks.onResourceUpdated?.(id, params['uri'], params)
  }

  function refreshSoon(): void {
    if (cancelRefresh || refreshing || state !== 'ready') return
    refreshes = refreshes.filter((at) => clock.now() - at < REFRESH.withinMs)
    const waitMs = refreshes.length < REFRESH.calm ? REFRESH.soonMs : REFRESH.stormMs
    cancelRefresh = clock.after(waitMs, () => {
      cancelRefresh = undefined
      refreshDirty().catch((error: unknown) => log.warn(`lists not read: ${messageOf(error)}`))
    })
  }

  async function refreshDirty(): Promise<void> {
    const connection = link.live
    if (!connection || refreshing) return
    refreshing = true
    refreshes.push(clock.now())
    const kinds = new Set(dirty)
    dirty.clear()
    try {
      const read = await readListing(connection, kinds, listing, warn)
      if (connection === link.live) show(read, connection)
    } finally {
      refreshing = false
      if (dirty.size > 0) refreshSoon()
    }
  }

  // --- requests -----------------------------------------------------------------------------------------------------

  async function request(method: string, params: Json, options: RequestOptions): Promise<Json> {
    const connection = link.live ?? (await link.ready(options.signal))
    try {
      return await connection.request(method, params, options)
    } catch (error) {
      if (!isPegboardError(error) || error.cause !== SESSION_LOST) throw error
      // The server never saw the request, so it may be made again whatever it does.
      link.lost(connection, 'it forgot the session')
      return await (await link.ready(options.signal)).request(method, params, options)
    }
  }

  async function call(record: ToolRecord, input: unknown, ctx: CallContext, relay: Relay): Promise<ToolResult> {
    const connection = link.live ?? (await link.ready(ctx.signal))
    const result = await request(
      'tools/call',
      { name: record.name, arguments: input, ...retryOf(relay) },
      {
        timeoutMs: timeoutOf(id, settings, record.name).timeoutMs ?? timeoutMs,
        signal: ctx.signal,
        relay,
        // A server told that nobody listens need not count.
        onProgress: relay.wantsProgress === false ? undefined : (params) => report(params, ctx),
        headers: record.mirrors && connection.era === 'modern' ? headersFor(record, input) : undefined,
      },
    )
    const type = result['resultType']
    if (type === 'input_required') return { kind: 'input_required', result }
    if (type !== undefined && type !== 'complete')
      throw new PegboardError('E_UPSTREAM_PROTOCOL', `${id} answered with a result of an unknown type.`)
    if (result['content'] !== undefined && !Array.isArray(result['content']))
      throw new PegboardError('E_UPSTREAM_PROTOCOL', `${id} answered with content that is not a list.`)
    return { kind: 'mcp', result }
  }

  return {
    start(delayMs) {
      const known = recall()
      link.verdict = known?.verdict
      listing = known ?? emptyListing
      version = known?.server?.version
      state = known ? 'known' : 'configured'
      publisher.publish(listing, { state })
      link.later(known ? delayMs.known : delayMs.cold)
    },
    async refresh() {
      const had = link.live
      await link.ready()
      // A new connection has just read them.
      if (!had) return
      for (const kind of ALL) dirty.add(kind)
      await refreshDirty()
    },
    status: () => ({
      id,
      module,
      state,
      tools: publisher.tools,
      transport: link.live?.transport ?? settings.target.kind,
      ...(reason === undefined ? {} : { reason }),
      ...(link.verdict ? { era: link.verdict.era } : {}),
      ...(version === undefined ? {} : { version }),
      ...(state === 'failing' && link.nextAttemptMs !== undefined ? { nextAttemptMs: link.nextAttemptMs } : {}),
    }),
    problems: () => publisher.problems(),
    async stop(graceMs) {
      cancelRefresh?.()
      become('stopped')
      await link.stop(graceMs)
    },
  }
}

const retryOf = ({ inputResponses, requestState }: Relay): Json => ({
  ...(inputResponses === undefined ? {} : { inputResponses }),
  ...(requestState === undefined ? {} : { requestState }),
})

function report({ progress, total, message }: Json, ctx: CallContext): void {
  if (typeof progress !== 'number') return
  ctx.progress(
    progress,
    typeof total === 'number' ? total : undefined,
    typeof message === 'string' ? message : undefined,
  )
}

function headersFor({ text }: Pick<ToolRecord, 'text'>, input: unknown): Record<string, string> | undefined {
  const mirrored = mirroredArguments((JSON.parse(text) as Json)['inputSchema'])
  return typeof mirrored === 'string' ? undefined : mirrorHeaders(mirrored, input)
}
