import type { OwnerState } from '../catalog/owner.ts'
import type { Caller } from '../core/caller.ts'
import { isPegboardError } from '../core/errors.ts'
import type { ListKind } from '../core/list-kinds.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import { type Semaphore, semaphoreOf } from '../core/semaphore.ts'
import type { Capacity } from '../core/tool.ts'
import {
  createPublisher,
  namesOf,
  type OwnerStatus,
  type Publisher,
  type PublisherOptions,
} from './catalog-publisher.ts'
import type { Connection } from './connection.ts'
import { withoutServerText } from './error-reasons.ts'
import { mayInstall } from './package-download.ts'
import type { PrincipalAccess } from './principal-access.ts'
import { emptyListing, type FreshListing, readListing } from './read-listing.ts'
import type { ReconnectingLink } from './reconnecting-link.ts'
import type { ServerInfo } from './server-info.ts'
import { runsAsTask } from './server-tasks.ts'
import type { ToolRecord } from './tool-definition.ts'
import type { UpstreamStatus } from './upstream.ts'
import type { ServerContext } from './upstream-shared.ts'

export interface OwnerParts extends Pick<PublisherOptions, 'call' | 'claims' | 'endpoints'> {
  readonly info: ServerInfo
  readonly link: ReconnectingLink
  /** Only if each principal logs in. */
  readonly access: PrincipalAccess | undefined
}

/** A server as an owner in the catalog: its state, and the lists that it had when they were last read. */
export function createServerOwner(
  { id, module, settings, shared, log }: ServerContext,
  { info, link, access, claims, endpoints, call }: OwnerParts,
) {
  const { catalog, clock, trust } = shared
  let state: OwnerState = 'configured'
  let reason: string | undefined
  let detail: string | undefined
  let capacity: Capacity
  let publisher: Publisher
  applySettings()

  /** The publisher has fixed settings. */
  function applySettings(): void {
    const { maxConcurrent, maxQueued, where } = settings()
    capacity = { maxConcurrent, maxQueued, setting: `${where}.maxQueued` }
    const about = (): string | undefined => info.known().implementation?.about
    const options = { id, module, settings: settings(), capacity, shared, log, endpoints, claims }
    // Spread last: Node 20 creates a hidden class for each property after a spread, again for each server.
    publisher = createPublisher({ call, available, runsAsTask: mayRunAsTask, about, ...options })
  }

  function mayRunAsTask(record: ToolRecord): boolean {
    return !access && runsAsTask(link.eras.verdict?.era ?? 'legacy', info.known().capabilities, record)
  }

  /** No tool is approved, so clients see no text of the server. */
  const isSilent = (): boolean => publisher.isQuarantined() || trust?.approvesNothingOf(id, settings().trust) === true

  // Tools of a failing server stay listed: changing lists cost clients their caches, and a call explains the failure.
  function available({ principal }: Caller, record?: Pick<ToolRecord, 'text'>): true | string {
    if (state === 'stopped') return reason === undefined ? `${id} is stopped` : `${id} is stopped (${reason})`
    return access?.refusal(principal, record?.text) ?? true
  }

  /** What the catalog says about the server besides its tools. */
  function ownerStatus(): OwnerStatus {
    const nextAttemptAt = link.status.nextAttemptAt()
    const { startMs } = info.known()
    const waits = state === 'known' || state === 'connecting'
    const shown = reason !== undefined && state !== 'stopped' && isSilent() ? withoutServerText(reason) : reason
    return {
      state,
      ...omitUndefined({ reason: shown, reasonFor: shown === undefined ? undefined : access?.reasonFor(shown) }),
      ...(reason === undefined || nextAttemptAt === undefined ? {} : { nextAttemptAt }),
      ...(waits && startMs !== undefined ? { startsInMs: startMs } : {}),
    }
  }

  /** Publishes the known lists with the current approvals and settings. */
  const publishKnown = (): void => publisher.publish(info.known().listing, ownerStatus())

  /** Saves what is known for the next start. */
  function save(): void {
    const { verdict } = link.eras
    if (verdict && !access?.listIsPrivate) info.save(verdict, (listing) => publisher.brief(listing))
  }

  /** The stored manifest is outdated; the server lists its tools again. */
  function discardManifest(): void {
    const { listing: outdated } = info.known()
    // Delayed, because the caller is still reading the tools.
    clock.after(0, () => {
      if (info.known().listing !== outdated || state === 'stopped') return
      log.info('its cached tool list was changed, so Pegboard reads it again')
      info.update({ listing: emptyListing })
      publishKnown()
      link.later(0)
    })
  }

  /** Its list contains Pegboard's own tools. */
  function rejectLoop(): void {
    info.update({ listing: emptyListing, gateways: [] })
    publishKnown()
    const connection = link.live()
    if (connection) link.lost(connection, 'it leads back to this Pegboard')
  }

  return {
    state(): OwnerState {
      return state
    },
    /** Replaced when settings change. */
    publisher(): Publisher {
      return publisher
    },
    /** Limits how many calls and other requests run at once. */
    slots: (): Semaphore => semaphoreOf(capacity),
    isSilent,
    become(next: OwnerState, why?: string, more?: string): void {
      state = next
      reason = why
      detail = more
      publisher.describe(ownerStatus())
    },
    /**
     * Publishes what is known from an earlier run.
     * @param startedTogetherAt see `Claims.begin`
     * @returns false if nothing is known
     */
    load(startedTogetherAt: number): boolean {
      const verdict = info.load(discardManifest)
      link.eras.restore(verdict)
      claims.begin(startedTogetherAt)
      state = verdict ? 'known' : 'configured'
      publishKnown()
      if (verdict) claims.begun()
      claims.logDisputed(info.known().listing.resources)
      return verdict !== undefined
    },
    /** Reads these lists. @throws PegboardError E_LOOP_DETECTED if the server leads back to this Pegboard */
    async read(connection: Connection, kinds: ReadonlySet<ListKind>): Promise<FreshListing> {
      const warn = (message: string): void => log.warn(message)
      const read = await readListing(connection, kinds, info.known().listing, warn).catch((error: unknown) => {
        if (isPegboardError(error) && error.code === 'E_LOOP_DETECTED') rejectLoop()
        throw error
      })
      return access ? access.filterLists(read, kinds) : read
    },
    publish(read: FreshListing, connection: Connection, startMs = info.known().startMs): void {
      const { definitions, pages: _pages, ...listing } = read
      const { implementation, capabilities, gateways } = connection
      info.update({ listing, implementation, capabilities, gateways, startMs })
      state = 'ready'
      reason = undefined
      detail = undefined
      publisher.publish(listing, ownerStatus(), definitions)
      claims.begun()
      // A list that could not be read proves nothing.
      if (!listing.missing && claims.keepOnly(namesOf(listing))) catalog.touch()
      claims.logDisputed(listing.resources)
      save()
    },
    publishKnown,
    applySettings,
    save,
    status(): Omit<UpstreamStatus, 'instance' | 'instances'> {
      const { listing, implementation, startMs } = info.known()
      const { target, start } = settings()
      const isShown = !publisher.isQuarantined()
      return {
        id,
        module,
        ...ownerStatus(),
        tools: publisher.tools(),
        ...(listing.notes?.length && isShown ? { notes: listing.notes } : {}),
        transport: link.live()?.transport ?? link.eras.verdict?.transport ?? target.kind,
        ...(implementation?.version && isShown ? { version: implementation.version } : {}),
        start,
        pending:
          (link.status.isPatient() && state !== 'ready') ||
          state === 'configured' ||
          state === 'connecting' ||
          (state === 'known' && link.status.nextAttemptAt() !== undefined),
        ...omitUndefined({ detail, startMs, era: link.live()?.era ?? link.eras.verdict?.era }),
        ...(mayInstall(settings()) ? { installs: true as const } : {}),
      }
    },
  }
}

export type ServerOwner = ReturnType<typeof createServerOwner>
