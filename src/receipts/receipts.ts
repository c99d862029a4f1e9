import type { Caller } from '../core/caller.ts'
import type { Clock } from '../core/clock.ts'
import { messageOf } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { toPrintable } from '../core/printable.ts'
import {
  addCounts,
  type Counts,
  type CountsTable,
  createDailyStore,
  dayOf,
  type UsageKind,
  zeroCounts,
} from './daily-counts.ts'
import { estimateTexts, type TokenCount, type TokenCounter } from './token-counter.ts'
import { reportUsage, sumsOf, type UsageGroup, type UsageReport, type UsageSums } from './usage-report.ts'

/** Something to count, described when it is counted. */
export interface Entry {
  /** Absent: the model read nothing of it, such as a result inside a script. */
  readonly kind?: UsageKind
  /** Id of the tool, or name of the meta-tool; empty for a list. Never a text that a client chose. */
  readonly tool: string
  /** What the model read, and for searches, schemas and failed calls also what it wrote. */
  readonly texts: readonly string[]
  /** More tokens, such as those of pictures. */
  readonly more?: number
  readonly isCall?: boolean
  readonly isFailure?: boolean
  /** Tokens that the whole result would have cost, if it was not `texts` themselves. */
  readonly whole?: number | undefined
  /** True if direct exposure has no such call: a search, or a list of meta-tools. */
  readonly isOwn?: boolean | undefined
  /** Definition of the tool, as direct exposure lists it. */
  readonly definition?: Definitions | undefined
  /**
   * The tools that were listed, and those that direct exposure lists. `all` is called again with later calls, because servers
   * may connect after the list was sent.
   */
  readonly list?: { readonly shown: Definitions; readonly all: () => Definitions }
}

/** Definitions to count: all of them, or some that stand for all. */
export interface Definitions {
  /** Counted once for each key. */
  readonly key: object
  readonly texts: () => readonly string[]
  /** Tools for each text. */
  readonly scale: number
}

/** What tools cost the models of all clients, and what they would have cost without Pegboard. Counts only, no content. */
export interface Receipts {
  /**
   * Adds a list of tools that was sent. It is counted with the first call after it: clients that only list spend nothing.
   * @param describe called later
   */
  list(caller: Caller, describe: () => Entry): void
  /**
   * Adds a call. It is counted some seconds later, so no call waits for it.
   * @param bytes about how much memory it keeps until then
   * @param describe called later; undefined: there is nothing to count
   */
  call(caller: Caller, bytes: number, describe: () => Entry | undefined): void
  /** Ends a session: logs what it cost. Describes its last calls before it returns. */
  end(session: string): void
  /** What the caller's session has cost so far. */
  session(caller: Caller): Promise<UsageSums | undefined>
  /** The same as far as it is counted. Counts nothing itself. Without a caller: of all sessions since the start. */
  soFar(caller?: Caller): UsageSums | undefined
  report(options: {
    readonly by: UsageGroup
    readonly days?: number
    readonly principal?: string
  }): Promise<UsageReport>
  /** Sums since the start, for metrics. */
  readonly sums: Counts
  start(table: () => CountsTable): void
  /** Counts what is left, logs what sessions cost, and stores it. */
  stop(): Promise<void>
}

export interface ReceiptsOptions {
  readonly clock: Clock
  readonly log: Log
  /** Absent: everything is estimated. */
  readonly counter?: TokenCounter | undefined
}

interface Session {
  readonly principal: string
  readonly client: string
  readonly since: number
  at: number
  readonly counts: ReturnType<typeof zeroCounts>
  /** The last list, if it was not counted yet. */
  list: (() => Entry) | undefined
  /** Tokens of the longest list so far. */
  menu: number
  /** The tools that direct exposure lists now, and the most tokens that they have had. */
  all: (() => Definitions) | undefined
  definitions: number
  readonly tools: Set<string>
}

interface Pending {
  readonly session: Session
  readonly describe: () => Entry | undefined
}

interface Described {
  readonly session: Session
  readonly entry: Entry
}

const WAIT_MS = 10_000
/**
 * More calls, or longer ones, are estimated at once. The thread reads a few megabytes a second, and would compete with the calls
 * of a flood.
 */
const MAX_PENDING = 500
const MAX_BYTES = 256 * 1024
const MAX_SESSIONS = 1_000
/** Calls of a client without sessions belong together if there is less time between them. */
const PAUSE_MS = 60 * 60_000
const MAX_NAME = 60

export function createReceipts({ clock, log, counter }: ReceiptsOptions): Receipts {
  const days = createDailyStore(clock, log)
  const sessions = new Map<string, Session>()
  const sumsByKey = new WeakMap<object, TokenSums>()
  let pending: Pending[] = []
  let bytes = 0
  let cancel: (() => void) | undefined
  let counting = Promise.resolve()
  const sums = zeroCounts()

  /** A client of 2026 has no session, and none of 2025 may use the id of another principal. */
  const keyOf = ({ session, principal, profile, client }: Caller): string =>
    JSON.stringify([session ?? '', principal, session === undefined ? [profile, client?.name] : []])

  function sessionOf(caller: Caller): Session {
    const key = keyOf(caller)
    const now = clock.now()
    let session = sessions.get(key)
    if (session && caller.session === undefined && now - session.at > PAUSE_MS) {
      finish(key, session)
      session = undefined
    }
    if (!session) {
      const [oldest] = sessions
      if (oldest && sessions.size >= MAX_SESSIONS) finish(...oldest)
      const client = toPrintable(caller.client?.name ?? 'unknown').slice(0, MAX_NAME)
      session = {
        principal: caller.principal,
        client,
        since: now,
        at: now,
        counts: zeroCounts(),
        list: undefined,
        menu: 0,
        all: undefined,
        definitions: 0,
        tools: new Set(),
      }
      sessions.set(key, session)
    }
    session.at = now
    return session
  }

  function add(session: Session, tool: string, more: Partial<Counts>): void {
    addCounts(session.counts, more)
    addCounts(sums, more)
    days.add({ day: dayOf(clock.now()), principal: session.principal, client: session.client, tool }, more)
  }

  const warnOfFailure = (error: unknown): void => log.warn('cannot count tokens', { error: messageOf(error) })

  /**
   * Counts now.
   * @param how `start` starts the thread if it does not run; `running` uses it only if it runs
   */
  function count(how: 'start' | 'running' = 'start'): Promise<void> {
    cancel?.()
    cancel = undefined
    const described = describePending()
    counting = counting.then(async () => {
      try {
        await countBatch(described, how === 'start' || counter?.isRunning === true ? counter : undefined)
      } catch (error) {
        warnOfFailure(error)
      }
    })
    return counting
  }

  function describePending(): readonly Described[] {
    const batch = pending
    pending = []
    bytes = 0
    try {
      return batch.flatMap(({ session, describe }) => {
        const entry = describe()
        return entry ? [{ session, entry }] : []
      })
    } catch (error) {
      warnOfFailure(error)
      return []
    }
  }

  async function countBatch(described: readonly Described[], by: TokenCounter | undefined): Promise<void> {
    for (const { session, entry } of described) if (entry.list) session.all = entry.list.all
    const used = [...new Set(described.map(({ session }) => session))]
    const all = used.flatMap((session) => (session.all ? [{ session, definitions: session.all() }] : []))
    const shown = described.flatMap(({ entry }) => [entry.definition, entry.list?.shown])
    const uncounted = findUncounted([...shown, ...all.map(({ definitions }) => definitions)])
    const lists = uncounted.map((one) => ({ one, texts: one.texts() }))
    const read = described.flatMap(({ entry }) => entry.texts)
    const texts = [...read, ...lists.flatMap((list) => list.texts)]
    const counts = by ? await by.count(texts) : estimateTexts(texts)
    let at = 0
    const take = (number: number): TokenSums => {
      const part = counts.slice(at, at + number)
      at += number
      return precisionOf(part)
    }
    const sized = described.map(({ session, entry }) => ({ session, entry, read: take(entry.texts.length) }))
    for (const list of lists) sumsByKey.set(list.one.key, scaled(take(list.texts.length), list.one.scale))
    for (const { session, definitions } of all) addAllDefinitions(session, definitions)
    for (const { session, entry, read } of sized) addEntry(session, entry, read)
  }

  function findUncounted(definitions: readonly (Definitions | undefined)[]): readonly Definitions[] {
    const uncounted = new Map<object, Definitions>()
    for (const one of definitions) if (one && !sumsByKey.has(one.key)) uncounted.set(one.key, one)
    return [...uncounted.values()]
  }

  const definitionTokens = (one: Definitions): number => tokensOf(sumsByKey.get(one.key) ?? precisionOf([]))

  function addEntry(session: Session, entry: Entry, read: TokenSums): void {
    if (entry.list) addList(session, read, entry.list.shown)
    else addUse(session, entry, read)
    if (entry.definition) addDefinition(session, entry.tool, entry.definition)
  }

  function addUse(session: Session, entry: Entry, read: TokenSums): void {
    const { kind, tool, more = 0, isCall, isFailure, whole, isOwn } = entry
    const tokens = tokensOf(read) + more
    add(session, tool, {
      calls: isCall === true ? 1 : 0,
      failures: isFailure === true ? 1 : 0,
      direct: isOwn === true ? 0 : (whole ?? tokens),
      ...(kind === undefined
        ? {}
        : { exact: read.exact, estimate: read.estimate, estimated: read.estimated + more, [kind]: tokens }),
    })
  }

  /** The tool pays for its own definition, so that the sum stays the same. */
  function addDefinition(session: Session, tool: string, definition: Definitions): void {
    if (!sumsByKey.has(definition.key) || session.tools.has(tool) || session.definitions === 0) return
    session.tools.add(tool)
    const own = Math.min(definitionTokens(definition), session.definitions)
    add(session, tool, { direct: own })
    add(session, '', { direct: -own })
  }

  /** All tools replace those of the count before, so only what they have more is added. */
  function addAllDefinitions(session: Session, all: Definitions): void {
    const more = definitionTokens(all) - session.definitions
    if (more <= 0) return
    add(session, '', { direct: more })
    session.definitions += more
  }

  /** A list replaces the one before it, so only what it has more is added. */
  function addList(session: Session, read: TokenSums, shown: Definitions): void {
    const own = sumOf(read, sumsByKey.get(shown.key) ?? precisionOf([]))
    const menu = tokensOf(own)
    const isFirst = session.menu === 0
    const more = Math.max(0, menu - session.menu)
    add(session, '', {
      ...scaled(own, menu === 0 ? 0 : more / menu),
      ...(isFirst ? { sessions: 1 } : {}),
      menu: more,
    })
    session.menu = Math.max(session.menu, menu)
  }

  function finish(key: string, { client, principal, since, counts }: Session): void {
    sessions.delete(key)
    if (counts.calls === 0) return
    const { calls, failures, tokens, by, direct, saved } = sumsOf(counts)
    // A client without sessions ends one after each pause, and at the stop.
    const level = JSON.parse(key)[0] === '' ? 'debug' : 'info'
    log[level]('session ended', {
      client,
      principal,
      seconds: Math.round((clock.now() - since) / 1_000),
      calls,
      failures,
      tokens,
      ...Object.fromEntries(Object.entries(by).map(([kind, number]) => [`${kind}_tokens`, number])),
      direct_tokens: direct,
      saved_percent: Math.round(100 * saved),
    })
  }

  const sumsOfSession = (caller: Caller): UsageSums | undefined => {
    const session = sessions.get(keyOf(caller))
    return session && sumsOf(session.counts)
  }

  return {
    sums,
    list(caller, describe) {
      sessionOf(caller).list = describe
    },
    call(caller, size, describe) {
      const session = sessionOf(caller)
      if (session.list) pending.push({ session, describe: session.list })
      session.list = undefined
      cancel ??= clock.after(WAIT_MS, () => void count())
      if (pending.length < MAX_PENDING && bytes + size <= MAX_BYTES) {
        pending.push({ session, describe })
        bytes += size
      } else {
        const entry = describe()
        if (entry) addEntry(session, entry, precisionOf(estimateTexts(entry.texts)))
      }
    },
    end(id) {
      void count('running').then(() => {
        for (const [key, session] of sessions) if (JSON.parse(key)[0] === id) finish(key, session)
      })
    },
    async session(caller) {
      await count()
      return sumsOfSession(caller)
    },
    soFar: (caller) => (caller ? sumsOfSession(caller) : sumsOf(sums)),
    async report({ by, days: number, principal }) {
      await count()
      return reportUsage(await days.list(principal), clock.now(), by, number)
    },
    start: days.start,
    async stop() {
      // What is left is estimated unless the thread runs: nobody waits for it to start.
      await count('running')
      counter?.close()
      for (const [key, session] of sessions) finish(key, session)
      await days.stop()
    },
  }
}

/** How many tokens were counted, what the estimate says of those, and how many were only estimated. */
type TokenSums = Pick<Counts, 'exact' | 'estimate' | 'estimated'>

function precisionOf(counts: readonly TokenCount[]): TokenSums {
  let [exact, estimate, estimated] = [0, 0, 0]
  for (const one of counts)
    if (one.exact === undefined) estimated += one.estimate
    else {
      exact += one.exact
      estimate += one.estimate
    }
  return { exact, estimate, estimated }
}

const tokensOf = ({ exact, estimated }: TokenSums): number => exact + estimated

const scaled = ({ exact, estimate, estimated }: TokenSums, by: number): TokenSums => ({
  exact: exact * by,
  estimate: estimate * by,
  estimated: estimated * by,
})

const sumOf = (a: TokenSums, b: TokenSums): TokenSums => ({
  exact: a.exact + b.exact,
  estimate: a.estimate + b.estimate,
  estimated: a.estimated + b.estimated,
})
