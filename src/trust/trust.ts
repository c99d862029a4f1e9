import { createHash } from 'node:crypto'
import { type Clock, systemClock } from '../core/clock.ts'
import { foldName } from '../core/fold.ts'
import { createLater } from '../core/later.ts'
import type { Log } from '../core/log.ts'
import { looksLike } from '../core/lookalike.ts'
import { createSignal } from '../core/signal.ts'
import type { FileStore } from '../state/files.ts'
import { assess, type Held, type Look, type Rules, type Seen } from './assess.ts'
import type { Finding, FindingCode } from './finding.ts'
import { createLock, type Lock, type LockDigests, type Pins } from './lock.ts'
import { createUnmet, type Entry, type KeptUnmet } from './unmet.ts'

/** Approved definitions of one server, for showing later what changed: by tool, the fingerprint and the definition. */
export type Kept = Readonly<
  Record<string, { readonly hash: string; readonly definition: Readonly<Record<string, unknown>> }>
>

export interface TrustOptions {
  /** Absolute path of the lock file; without one approvals last as long as the process. */
  readonly file: string | undefined
  readonly log: Log
  readonly clock?: Clock
  /** Where approved definitions are kept; the lock itself has only fingerprints. */
  readonly kept?: FileStore<Kept>
  /** Spares reading a lock file that has not changed since. */
  readonly digests?: FileStore<LockDigests> | undefined
  /** Where what tools say of tools that are not there yet is kept. */
  readonly unmet?: FileStore<KeptUnmet>
  /** Lets in nothing that the lock does not have, and writes nothing. */
  readonly frozen?: boolean
  /** Names of the meta-tools, which no tool may look like. */
  readonly reserved: ReadonlySet<string>
}

/** Decides which foreign tools are let in, and remembers it. */
export interface Trust {
  /**
   * Which of a server's tools are kept out, by name. What may be trusted without a person is remembered.
   * @param fresh the definitions come from the server itself just now, not from disk
   */
  look(look: Omit<Look, 'reserved'>, fresh: boolean): ReadonlyMap<string, Held>
  /** Whether these are let in, of a server whose tools were not looked at yet; nothing is remembered. */
  admits(look: Omit<Look, 'reserved'>): boolean
  /** Stands for what the lock has of a server, where that approves all these tools as they are. */
  seal(server: string, tools: readonly Pick<Seen, 'name' | 'hash'>[]): string | undefined
  /** Whether the lock has what it had when this seal was made: then all those tools are let in. */
  holds(server: string, seal: string | undefined): boolean
  /** Somebody may have changed the lock file. */
  reread(): void
  /** Told what the lock has of a server when somebody has changed that in the file, which is a decision of a person. */
  onDecision(listener: (server: string, pins: Pins) => void): () => void
  /**
   * Takes over what was decided elsewhere.
   * @param firm it was decided just now and counts; else what was decided here stays, unless the other was to keep a tool out
   */
  adopt(server: string, pins: Pins, firm: boolean): void
  /** Told when tools may be let in or kept out that were not before. */
  onChange(listener: () => void): () => void
  /** Resolves when the lock file is written. */
  flush(): Promise<void>
}

/** Servers add tools when they have learnt what the client can do; those belong to the first look. */
const FIRST_LOOK_MS = 10_000
/** Of servers that come so soon after each other none was there before the other. */
const TOGETHER_MS = 10 * 60_000
/** Who changes and changes back within this time is not taken back without a person. */
const FLAP_MS = 10 * 60_000
/** Definitions are kept when no server was looked at for so long, after the second time at the latest. */
const KEEP_QUIET_MS = 500
const KEEP_LONGEST_MS = 5_000

export function createTrust(options: TrustOptions): Trust {
  const { log, kept, frozen = false, clock = systemClock } = options
  const changed = createSignal<[]>()
  const decided = createSignal<[server: string, pins: Pins]>()
  /** Servers that were asked for, and so may be decided about. */
  const asked = new Set<string>()
  const lock = createLock({ file: options.file, log, digests: options.digests, onChange: () => changed.emit() })
  const later = createLater(clock, KEEP_QUIET_MS, KEEP_LONGEST_MS)
  const told = new Map<string, string>()
  const known = new Map<string, string>()
  /** When the first look at a server ends. */
  const firstUntil = new Map<string, number>()
  const unmet = createUnmet(options.unmet, `unmet-${keptKey(options.file, '')}`)
  /** What was let in without a person a moment ago, by server. */
  const takenNow = new Map<string, { at: number; readonly names: Map<string, string> }>()

  const flaps = new Map<string, Flaps>()

  const rulesFor = (server: string): Rules => ({
    pins: lock.pins(server),
    flapping: flaps.get(server)?.flapping ?? new Set(),
    broken: lock.broken !== undefined,
    frozen,
    open: clock.now() < (firstUntil.get(server) ?? 0),
  })

  return {
    look(look, fresh) {
      const { server, tools } = look
      asked.add(server)
      if (fresh && look.mode !== 'always' && !frozen && lock.broken === undefined) watchFlaps(server, tools)
      const rules = rulesFor(server)
      const { pins, broken, open } = rules
      const { held, taken, unmet: speaking } = assess({ ...look, reserved: options.reserved }, rules)
      if (!frozen && !broken) {
        const first = pins === undefined && look.mode === 'first-use' && tools.length > 0
        if (taken.length > 0 || first) {
          for (const { name, hash } of taken) flapsOf(server).approved.set(name, hash)
          if (first) firstUntil.set(server, clock.now() + FIRST_LOOK_MS)
          take(lock, server, taken, first)
          log.info(
            `${first || open ? 'first look at ' : ''}${server}: ${taken.length === 1 ? '1 tool is' : `${taken.length} tools are`} trusted from now on`,
          )
        }
        if (look.mode === 'first-use' && taken.length > 0) {
          unmet.add(server, speaking)
          const { names } = takenNow.get(server) ?? { names: new Map<string, string>() }
          for (const { name, hash } of taken) names.set(name, hash)
          takenNow.set(server, { at: clock.now(), names })
        }
        putOut([...(look.own ? unmet.meet(server, look.own) : []), ...likenesses(server, held)])
        if (fresh && kept) later.add(server, () => keep(server, tools, lock))
      }
      tell(server, held)
      return held
    },
    admits: (look) => assess({ ...look, reserved: options.reserved }, rulesFor(look.server)).held.size === 0,
    seal(server, tools) {
      asked.add(server)
      const pins = lock.pins(server)
      if (lock.broken !== undefined || !tools.every(({ name, hash }) => pins?.get(name) === hash)) return undefined
      return lock.digest(server)
    },
    holds(server, seal) {
      asked.add(server)
      return seal !== undefined && lock.digest(server) === seal
    },
    reread() {
      const before = [...asked].map((server) => [server, lock.digest(server)] as const)
      if (!lock.reread()) return
      changed.emit()
      if (lock.broken !== undefined) return
      for (const [server, digest] of before)
        if (lock.digest(server) !== digest) decided.emit(server, lock.pins(server) ?? new Map())
    },
    onDecision: (listener) => decided.listen(listener),
    adopt(server, pins, firm) {
      if (frozen || lock.broken !== undefined) return
      const before = lock.digest(server)
      lock.change((servers) => {
        const own = servers.get(server) ?? new Map<string, string>()
        if (firm) for (const name of own.keys()) if (!pins.has(name)) own.delete(name)
        for (const [name, entry] of pins)
          if (firm || !own.has(name) || entry.startsWith('rejected ')) own.set(name, entry)
        servers.set(server, own)
      })
      if (lock.digest(server) === before) return
      log.info(`what was decided elsewhere about the tools of ${server} counts here, too`)
      changed.emit()
    },
    onChange: (listener) => changed.listen(listener),
    flush() {
      later.flush()
      return lock.flush()
    },
  }

  function flapsOf(server: string): Flaps {
    const own = flaps.get(server) ?? { approved: new Map(), left: new Map(), flapping: new Set() }
    flaps.set(server, own)
    return own
  }

  /** Takes an approval back from a tool that was seen as approved, then changed, then as approved again, in a short time. */
  function watchFlaps(server: string, tools: readonly Seen[]): void {
    const pins = lock.pins(server)
    if (!pins) return
    const own = flapsOf(server)
    const back: string[] = []
    for (const { name, hash } of tools) {
      const pin = pins.get(name)
      if (pin === undefined || pin.startsWith('rejected ')) continue
      if (pin !== hash) {
        if (own.approved.get(name) === pin) own.left.set(name, clock.now())
        continue
      }
      const left = own.left.get(name)
      if (left !== undefined && own.approved.get(name) === hash && clock.now() - left < FLAP_MS) {
        own.approved.delete(name)
        own.flapping.add(name)
        back.push(name)
      } else own.approved.set(name, hash)
      own.left.delete(name)
    }
    if (back.length === 0) return
    lock.change((servers) => {
      for (const name of back) servers.get(server)?.delete(name)
    })
    log.warn(`${server}: ${back.join(', ')} changed and changed back; review before it is used again`)
  }

  /**
   * What is new here and looks like a tool that is kept out for that, or is the same with another address: which of both is the
   * right one is for a person to say.
   */
  function likenesses(server: string, held: ReadonlyMap<string, Held>): Entry[] {
    const namesWith = (wanted: FindingCode): string[] =>
      [...held].flatMap(([name, { findings }]) => (findings.some(({ code }) => code === wanted) ? [name] : []))
    const alike = namesWith('look-alike-name')
    const cloned = new Set(namesWith('cloned-tool').map(foldName))
    if (alike.length + cloned.size === 0) return []
    return [...takenNow].flatMap(([other, { at, names }]) =>
      other === server || clock.now() - at > TOGETHER_MS
        ? []
        : [...names]
            .filter(([name]) => cloned.has(foldName(name)) || alike.some((one) => looksLike(one, name)))
            .map(([name, hash]) => ({ server: other, name, hash })),
    )
  }

  /** Takes back what nobody but us decided; its servers are looked at again. */
  function putOut(entries: readonly Entry[]): void {
    const pinned = entries.filter(({ server, name, hash }) => lock.pins(server)?.get(name) === hash)
    if (pinned.length === 0) return
    lock.change((servers) => {
      for (const { server, name, hash } of pinned)
        if (servers.get(server)?.get(name) === hash) servers.get(server)?.delete(name)
    })
    for (const { server, name } of pinned) takenNow.get(server)?.names.delete(name)
    queueMicrotask(() => changed.emit())
  }

  function keep(server: string, tools: readonly Seen[], { pins }: Lock): void {
    if (!kept) return
    const approved = tools.filter(({ name, hash }) => pins(server)?.get(name) === hash)
    const signature = approved.map(({ name, hash }) => `${name} ${hash}`).join('\n')
    if (approved.length === 0 || known.get(server) === signature) return
    known.set(server, signature)
    keepDefinitions(kept, options.file, server, approved)
  }

  function tell(server: string, held: ReadonlyMap<string, Held>): void {
    const waiting = [...held].filter(([, { why }]) => why !== 'rejected')
    const signature = waiting.map(([name, { why, reason }]) => `${name} ${why} ${reason}`).join('\n')
    if ((told.get(server) ?? '') === signature) return
    told.set(server, signature)
    if (waiting.length === 0) return
    const shown = waiting
      .slice(0, 20)
      .map(([name, { reason, findings }]) => [name, [reason, ...findings.slice(0, 3).map(sentence)].join('; ')])
    log.warn(waitingNote(server, waiting.length), { tools: Object.fromEntries(shown) })
  }
}

/** What a server's approved tools did since they were first seen here. */
interface Flaps {
  /** The fingerprint that each was last seen with while that was approved. */
  readonly approved: Map<string, string>
  /** When it was seen to be another. */
  readonly left: Map<string, number>
  readonly flapping: Set<string>
}

function take(lock: Lock, server: string, taken: readonly Seen[], first: boolean): void {
  lock.change((servers) => {
    const pins = servers.get(server)
    // Somebody else had the first look: what they saw counts.
    if (first && pins !== undefined) return
    const next = pins ?? new Map<string, string>()
    for (const { name, hash } of taken) next.set(name, hash)
    servers.set(server, next)
  })
}

/** Remembers what was approved beside what is remembered already. */
export function keepDefinitions(
  store: FileStore<Kept>,
  file: string | undefined,
  server: string,
  tools: readonly Seen[],
): void {
  const key = keptKey(file, server)
  const before = store.get(key) ?? {}
  const news = tools.filter(({ name, hash }) => !Object.hasOwn(before, name) || before[name]?.hash !== hash)
  if (news.length === 0) return
  // What could not be read is nothing to compare with.
  const added = news
    .filter(({ text }) => text !== '')
    .map(({ name, hash, text }) => [name, { hash, definition: JSON.parse(text) as Record<string, unknown> }])
  store.set(key, { ...before, ...(Object.fromEntries(added) as Kept) })
}

/** Where the approved definitions of a server are kept. */
export const keptKey = (file: string | undefined, server: string): string =>
  createHash('sha256')
    .update(JSON.stringify([file ?? '', server]))
    .digest('hex')
    .slice(0, 32)

/** `2 tools wait for a review: pegboard review github`. */
export const waitingNote = (server: string, count: number): string =>
  `${count} ${count === 1 ? 'tool waits' : 'tools wait'} for a review: pegboard review ${/^[\w.-]+$/.test(server) ? server : JSON.stringify(server)}`

/** For whoever wanted a tool that is kept out. */
export const reviewHint = (server: string): string =>
  `Use another tool. The operator sees what it is with: pegboard review ${JSON.stringify(server)}.`

/** A finding as people read it. */
export const sentence = ({ code, where, what, evidence }: Finding): string => `${code}: ${where} ${what}: ${evidence}`
