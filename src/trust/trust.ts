import { createHash } from 'node:crypto'
import { type Clock, systemClock } from '../core/clock.ts'
import { createDebouncer } from '../core/debouncer.ts'
import { createEmitter } from '../core/emitter.ts'
import type { Log } from '../core/log.ts'
import { quoteWord } from '../core/quote-word.ts'
import type { FileStore } from '../state/file-store.ts'
import { createApprovalHistory } from './approval-history.ts'
import {
  type AssessmentRules,
  assess,
  type ListedDefinition,
  type QuarantineReason,
  type ServerTools,
} from './assess-tools.ts'
import type { Finding } from './finding.ts'
import { createLock, type Lock, type LockDigests, type Pins } from './lock-file.ts'
import { type ApprovedTool, createPendingMentions, type StoredMentions } from './pending-mentions.ts'
import { createRecentApprovals } from './recent-approvals.ts'

/** Approved definitions of one server, for showing what changed later: fingerprint and definition by tool. */
export type StoredDefinitions = Readonly<
  Record<string, { readonly hash: string; readonly definition: Readonly<Record<string, unknown>> }>
>

export interface TrustOptions {
  /** Absolute path of the lock file. Undefined: approvals last until the process ends. */
  readonly file: string | undefined
  readonly log: Log
  readonly clock?: Clock
  /** Storage for approved definitions; the lock file contains only fingerprints. */
  readonly definitions?: FileStore<StoredDefinitions>
  /** Avoids reading an unchanged lock file. */
  readonly digests?: FileStore<LockDigests> | undefined
  /** Storage for mentions of tools that do not exist yet. */
  readonly pendingMentions?: FileStore<StoredMentions>
  /** Approve only what is in the lock file, and write nothing. */
  readonly frozen?: boolean
  /** Names of the meta-tools, which no tool may resemble. */
  readonly reserved: ReadonlySet<string>
}

/** Decides which upstream tools are approved, and remembers the decisions. */
export interface Trust {
  /**
   * Returns the quarantined tools of a server by name. Records tools that are approved automatically.
   * @param isFresh true if the definitions come from the server now and not from disk
   */
  assess(listing: Omit<ServerTools, 'reserved'>, isFresh: boolean): ReadonlyMap<string, QuarantineReason>
  /** A seal for the current approvals of a server; undefined unless all these tools are approved as they are. */
  seal(server: string, tools: readonly Pick<ListedDefinition, 'name' | 'hash'>[]): string | undefined
  /** True if the lock file is unchanged since this seal was made, so that the same tools are approved. */
  isSealValid(server: string, seal: string | undefined): boolean
  reread(): void
  /** Registers a listener for decisions that a person made by changing the lock file. */
  onDecision(listener: (server: string, pins: Pins) => void): () => void
  /**
   * Applies decisions made elsewhere.
   * @param isRecent true for a decision made just now, which wins. Otherwise local decisions win, unless the other one
   * was a rejection
   */
  adopt(server: string, pins: Pins, isRecent: boolean): void
  /** Registers a listener for changes of what is approved. */
  onChange(listener: () => void): () => void
  /** True if nothing of a server is approved: it was assessed, or it is waiting for a person to review it. */
  approvesNothingOf(server: string, mode: ServerTools['mode']): boolean
  /** Resolves when the lock file is written. */
  flush(): Promise<void>
}

/** Servers add tools after they have learned the client's capabilities; those count as part of the first look. */
const FIRST_LOOK_MS = 10_000
/**
 * Longer for servers without any tool so far, but bounded: otherwise a server could choose the day of its first look.
 */
const EMPTY_LOOK_MS = 10 * 60_000
/** Definitions are stored after this much quiet, or at the second tick at the latest. */
const KEEP_QUIET_MS = 500
const KEEP_LONGEST_MS = 5_000

export function createTrust(options: TrustOptions): Trust {
  const { log, definitions, frozen = false, clock = systemClock } = options
  const changed = createEmitter<[]>()
  const decided = createEmitter<[server: string, pins: Pins]>()
  /** Servers that were asked for and may be decided about. */
  const requestedServers = new Set<string>()
  const lock = createLock({ file: options.file, log, digests: options.digests, onChange: () => changed.emit() })
  const saveLater = createDebouncer(clock, KEEP_QUIET_MS, KEEP_LONGEST_MS)
  const loggedSignatures = new Map<string, string>()
  const storedSignatures = new Map<string, string>()
  /** End of the first look, by server. */
  const firstLookEnds = new Map<string, number>()
  const pendingMentions = createPendingMentions(options.pendingMentions, `unmet-${definitionsKey(options.file, '')}`)
  const history = createApprovalHistory(clock)
  const recentApprovals = createRecentApprovals(clock)
  /** Tools that lost an approval, with the reason, by server. */
  const withdrawn = new Map<string, Map<string, string>>()

  const rulesFor = (server: string): AssessmentRules => ({
    pins: lock.pins(server),
    withdrawn: withdrawn.get(server) ?? new Map(),
    broken: lock.broken !== undefined,
    frozen,
    inFirstLook: clock.now() < (firstLookEnds.get(server) ?? 0),
  })

  return {
    assess(listing, isFresh) {
      const { server, tools } = listing
      requestedServers.add(server)
      if (isFresh && listing.mode !== 'always' && !frozen && lock.broken === undefined) withdrawFlapping(server, tools)
      const rules = rulesFor(server)
      const assessment = assess({ ...listing, reserved: options.reserved }, rules)
      const { quarantined, newlyApproved } = assessment
      if (!frozen && !rules.broken) {
        recordApproved(listing, newlyApproved, rules, isFresh)
        if (listing.mode === 'first-use' && newlyApproved.length > 0) {
          pendingMentions.add(server, assessment.pendingMentions)
          recentApprovals.add(server, newlyApproved)
        }
        withdrawAll([
          ...(listing.ownTools ? pendingMentions.takeMatching(server, listing.ownTools) : []),
          ...recentApprovals.findLookalikes(server, quarantined),
        ])
        if (isFresh && definitions) saveLater.schedule(server, () => storeApproved(server, tools, lock))
      }
      logWaiting(server, quarantined)
      return quarantined
    },
    seal(server, tools) {
      requestedServers.add(server)
      const pins = lock.pins(server)
      if (lock.broken !== undefined || !tools.every(({ name, hash }) => pins?.get(name) === hash)) return undefined
      return lock.digest(server)
    },
    isSealValid(server, seal) {
      requestedServers.add(server)
      return seal !== undefined && lock.digest(server) === seal
    },
    reread() {
      const before = [...requestedServers].map((server) => [server, lock.digest(server)] as const)
      if (!lock.reread()) return
      changed.emit()
      if (lock.broken !== undefined) return
      for (const [server, digest] of before)
        if (lock.digest(server) !== digest) decided.emit(server, lock.pins(server) ?? new Map())
    },
    onDecision: (listener) => decided.listen(listener),
    adopt(server, pins, isRecent) {
      if (frozen || lock.broken !== undefined) return
      const before = lock.digest(server)
      lock.change((servers) => {
        const current = servers.get(server) ?? new Map<string, string>()
        if (isRecent) for (const name of current.keys()) if (!pins.has(name)) current.delete(name)
        for (const [name, entry] of pins)
          if (isRecent || !current.has(name) || entry.startsWith('rejected ')) current.set(name, entry)
        servers.set(server, current)
      })
      if (lock.digest(server) === before) return
      log.info(`decisions of another process about the tools of ${server} apply here too`)
      changed.emit()
    },
    onChange: (listener) => changed.listen(listener),
    approvesNothingOf(server, mode) {
      const pins = lock.pins(server)
      if (mode === 'always') return false
      if (pins === undefined) return frozen || mode === 'review'
      return [...pins.values()].every((pin) => pin.startsWith('rejected '))
    },
    flush() {
      saveLater.flush()
      return lock.flush()
    },
  }

  /** Adds automatic approvals to the lock file, and begins or extends the first look. */
  function recordApproved(
    { server, mode, tools }: Pick<ServerTools, 'server' | 'mode' | 'tools'>,
    newlyApproved: readonly ListedDefinition[],
    { pins, inFirstLook = false }: AssessmentRules,
    isFresh: boolean,
  ): void {
    const isFirstLook = pins === undefined && mode === 'first-use' && (tools.length > 0 || isFresh)
    if (newlyApproved.length === 0 && !isFirstLook) return
    history.add(server, newlyApproved)
    const durationMs = tools.length > 0 ? FIRST_LOOK_MS : EMPTY_LOOK_MS
    if (isFirstLook || (inFirstLook && pins?.size === 0)) firstLookEnds.set(server, clock.now() + durationMs)
    addPins(lock, server, newlyApproved, isFirstLook)
    const connection = isFirstLook || inFirstLook ? 'first connection to ' : ''
    const count = newlyApproved.length === 1 ? '1 tool is' : `${newlyApproved.length} tools are`
    log.info(`${connection}${server}: ${count} approved`)
  }

  /** Withdraws the approval of a tool that changed and changed back within a short time. */
  function withdrawFlapping(server: string, tools: readonly ListedDefinition[]): void {
    const flapped = history.takeFlapped(server, tools, lock.pins(server) ?? new Map())
    if (flapped.length === 0) return
    lock.change((servers) => {
      for (const name of flapped) withdraw(servers, server, name, 'changed and changed back')
    })
    log.warn(`${server}: ${flapped.join(', ')} changed and changed back; review the change before the next use`)
  }

  /** Otherwise the first look, which has not ended, would approve the tool again. */
  function withdraw(servers: Map<string, Map<string, string>>, server: string, name: string, reason: string): void {
    servers.get(server)?.delete(name)
    const reasons = withdrawn.get(server) ?? new Map<string, string>()
    withdrawn.set(server, reasons.set(name, reason))
  }

  /** Withdraws automatic approvals; the servers are assessed again. */
  function withdrawAll(entries: readonly ApprovedTool[]): void {
    const pinned = entries.filter(({ server, name, hash }) => lock.pins(server)?.get(name) === hash)
    if (pinned.length === 0) return
    lock.change((servers) => {
      for (const { server, name, hash } of pinned)
        if (servers.get(server)?.get(name) === hash)
          withdraw(servers, server, name, 'resembles a tool of another server')
    })
    for (const { server, name } of pinned) recentApprovals.remove(server, name)
    queueMicrotask(() => changed.emit())
  }

  function storeApproved(server: string, tools: readonly ListedDefinition[], { pins }: Lock): void {
    if (!definitions) return
    const approved = tools.filter(({ name, hash }) => pins(server)?.get(name) === hash)
    const signature = approved.map(({ name, hash }) => `${name} ${hash}`).join('\n')
    if (approved.length === 0 || storedSignatures.get(server) === signature) return
    storedSignatures.set(server, signature)
    storeDefinitions(definitions, options.file, server, approved)
  }

  function logWaiting(server: string, quarantined: ReadonlyMap<string, QuarantineReason>): void {
    const waitingTools = [...quarantined].filter(([, { why }]) => why !== 'rejected')
    const signature = waitingTools.map(([name, { why, reason }]) => `${name} ${why} ${reason}`).join('\n')
    if ((loggedSignatures.get(server) ?? '') === signature) return
    loggedSignatures.set(server, signature)
    if (waitingTools.length === 0) return
    const shownTools = waitingTools
      .slice(0, 20)
      .map(([name, { reason, findings }]) => [name, [reason, ...findings.slice(0, 3).map(formatFinding)].join('; ')])
    log.warn(waitingNote(server, waitingTools.length), { tools: Object.fromEntries(shownTools) })
  }
}

function addPins(lock: Lock, server: string, approved: readonly ListedDefinition[], isFirstLook: boolean): void {
  lock.change((servers) => {
    const pins = servers.get(server)
    // Another process had the first look; what it saw counts.
    if (isFirstLook && pins !== undefined) return
    const updated = pins ?? new Map<string, string>()
    for (const { name, hash } of approved) updated.set(name, hash)
    servers.set(server, updated)
  })
}

/** Adds approved definitions to those already remembered. */
export function storeDefinitions(
  store: FileStore<StoredDefinitions>,
  file: string | undefined,
  server: string,
  tools: readonly ListedDefinition[],
): void {
  const key = definitionsKey(file, server)
  const before = store.get(key) ?? {}
  const changedTools = tools.filter(({ name, hash }) => !Object.hasOwn(before, name) || before[name]?.hash !== hash)
  if (changedTools.length === 0) return
  // A definition that could not be read cannot be compared.
  const added = changedTools
    .filter(({ text }) => text !== '')
    .map(({ name, hash, text }) => [name, { hash, definition: JSON.parse(text) as Record<string, unknown> }])
  store.set(key, { ...before, ...(Object.fromEntries(added) as StoredDefinitions) })
}

/** Storage key of a server's approved definitions. */
export const definitionsKey = (file: string | undefined, server: string): string =>
  createHash('sha256')
    .update(JSON.stringify([file ?? '', server]))
    .digest('hex')
    .slice(0, 32)

/** `2 tools wait for a review: pegboard review github`. */
export const waitingNote = (server: string, count: number): string =>
  `${count} ${count === 1 ? 'tool waits' : 'tools wait'} for a review: pegboard review ${quoteWord(server)}`

/** A hint for a caller that wanted a quarantined tool. */
export const reviewHint = (server: string): string =>
  `Use another tool. The operator can see the change with: pegboard review ${JSON.stringify(server)}.`

/** A finding as a sentence for people. */
export const formatFinding = ({ code, where, what, evidence }: Finding): string =>
  `${code}: ${where} ${what}: ${evidence}`
