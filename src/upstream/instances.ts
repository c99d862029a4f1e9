import { PegboardError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import type { Relay, Who } from '../core/tool.ts'
import type { Habits } from './alone.ts'
import type { Connection } from './connection.ts'
import type { Credentials } from './credentials.ts'
import { createLink, type Link } from './link.ts'
import { emptyListing, type Listing, readListing } from './listing.ts'
import type { OpenTasks } from './open-tasks.ts'
import type { ServerSettings } from './settings.ts'
import type { UpstreamShared } from './shared.ts'
import type { InstanceKind } from './stateful.ts'

type Json = Readonly<Record<string, unknown>>

/** The connections of one server, where its callers do not share one. The first caller gets the one that lists come from. */
export interface Instances {
  /** Runs `work` on the connection of this caller, which ends by itself when nobody uses it. @throws PegboardError E_OVERLOADED */
  using<T>(who: Who, work: (link: Link) => Promise<T>): Promise<T>
  /** Names the connection a caller has now; the same text as long as it is the same. `''` is the one that lists come from. */
  keyOf(who: Who): string
  /** The connection of this caller, if it is open. */
  liveOf(who: Who): Connection | undefined
  /** The relay of a request of this caller: where nobody else uses its connection, all its requests count as of one client. */
  asking(who: Who, link: Link, relay: Relay): Relay
  /** What the server of this connection says of a tool now; undefined where it has none of that name, or is not asked. */
  definition(link: Link, name: string): string | undefined
  /** A task was begun on this connection: requests about it go there. */
  began(taskId: string, link: Link): void
  ofTask(taskId: unknown): Link | undefined
  /** A session of a client is over: its connection ends as soon as no call or task uses it. */
  ended(session: string): void
  /** The first connection has ended; whoever comes next may have it. */
  released(): void
  /** Whose the first connection is now. */
  readonly holder: Who | undefined
  /** How many run, the first one included. */
  readonly running: number
  close(graceMs: number): Promise<void>
}

export interface InstancesOptions {
  readonly id: string
  readonly shared: UpstreamShared
  readonly log: Log
  readonly main: Link
  readonly openTasks: OpenTasks
  readonly habits: Habits
  settings(): ServerSettings
  kind(): InstanceKind
  /** The connections are private only so that nobody waits: where there is no room, callers share the first one. */
  mayShare(): boolean
  /** Whose the first connection is, where its login says so; `null` where the first caller may have it. */
  mainIsOf(): string | undefined | null
  credentials(principal: string | undefined, loggedIn: () => void): Credentials
  /** Whether somebody waits for what this connection tells. */
  follows(key: string): boolean
  /** @param tools what it lists, and what each page said of that */
  opened(key: string, who: Who, connection: Connection, tools: Listing['tools'], pages: readonly Json[]): void
  notification(who: Who, method: string, params: Json, attributed: boolean): void
  /** The first connection is not needed by the session that had it: ends it. */
  freeMain(): void
  /** Subscriptions and the like of this connection are over. */
  dropped(key: string): void
}

interface Instance {
  readonly key: string
  readonly who: Who
  readonly link: Link
  readonly credentials: Credentials
  active: number
  /** Definitions it lists, by the names of the tools. */
  tools: ReadonlyMap<string, string>
  ended: boolean
  cancel: () => void
}

const REST_MS = 2_000
/** An instance whose session has ended is looked at so often while a task of it runs. */
const ENDED_MS = 10_000
const MAX_TASKS = 1_000
const TOOLS: ReadonlySet<'tools'> = new Set(['tools'] as const)

export const nameOfPrincipal = (principal: string): string => `principal ${principal}`
const nameOfSession = (session: string): string => `session ${session}`

export function createInstances(options: InstancesOptions): Instances {
  const { id, shared, log, main, openTasks } = options
  const { clock } = shared
  const lines = new Map<string, Instance>()
  const tasks = new Map<string, Link>()
  const closing = new Set<Promise<void>>()
  // Who has the first connection, where its login does not say so.
  let holder: string | undefined
  let holdingWho: Who | undefined
  let held = 0
  /** Whose requests run on the first connection while it is shared. */
  const sharers = new Map<Who, number>()
  let holderEnded = false

  const nameOf = ({ principal, session }: Who): string =>
    options.kind() === 'session' && session !== undefined ? nameOfSession(session) : nameOfPrincipal(principal ?? '')

  const isMain = (name: string): boolean => {
    const whose = options.mainIsOf()
    return (whose === null ? holder : whose) === name
  }

  const isBusy = ({ key, link, active }: Instance): boolean => {
    if (active > 0 || options.follows(key)) return true
    for (const [taskId, at] of tasks) if (at === link && openTasks.has(taskId)) return true
    return false
  }

  function end(line: Instance): void {
    line.cancel()
    line.credentials.close()
    lines.delete(line.key)
    for (const [taskId, at] of tasks) if (at === line.link) tasks.delete(taskId)
    options.dropped(line.key)
    const gone = line.link.stop(REST_MS).finally(() => closing.delete(gone))
    closing.add(gone)
  }

  /** Nobody uses it now: it ends when that stays so. */
  function rest(line: Instance): void {
    line.cancel()
    if (line.active > 0) return
    if (line.ended && !isBusy(line)) {
      end(line)
      return
    }
    const { idleStopMs } = options.settings()
    if (!line.ended && idleStopMs === 0) return
    line.cancel = clock.after(line.ended ? ENDED_MS : idleStopMs, () => {
      if (isBusy(line)) return rest(line)
      log.info('an instance is stopped, because nobody uses it')
      end(line)
    })
  }

  async function readTools(
    line: () => Instance,
    connection: Connection,
    page: (page: Json) => void = () => undefined,
  ): Promise<Listing['tools']> {
    const warn = (message: string): void => log.debug(message)
    const { tools } = await readListing(connection, TOOLS, emptyListing, warn, page)
    line().tools = new Map(tools.map(({ name, text }) => [name, text]))
    return tools
  }

  function makeRoom({ principal }: Who): boolean {
    const { maxInstances, maxInstancesPerPrincipal, where } = options.settings()
    const own = [...lines.values()].filter(({ who }) => who.principal === principal).length
    const setting =
      own >= maxInstancesPerPrincipal
        ? 'maxInstancesPerPrincipal'
        : lines.size + 1 >= maxInstances
          ? 'maxInstances'
          : undefined
    if (setting === undefined) return true
    if (options.mayShare()) return false
    throw new PegboardError(
      'E_OVERLOADED',
      `${id} runs as often as it may: ${own} times for you, ${lines.size + 1} in all.`,
      {
        retryAfterMs: 10_000,
        hint: `End a session that you do not need any more, or raise ${where}.${setting}.`,
      },
    )
  }

  function start(key: string, who: Who): Instance {
    const credentials = options.credentials(who.principal, () => link.later(0))
    const link: Link = createLink({
      id,
      settings: options.settings(),
      shared,
      log,
      credentials,
      habits: options.habits,
      async opened(connection) {
        const pages: Json[] = []
        const tools = await readTools(
          () => line,
          connection,
          (page) => pages.push(page),
        )
        options.opened(key, who, connection, tools, pages)
      },
      keeps: () => options.follows(key),
      changed: () => undefined,
      notification(method, params, attributed) {
        if (method === 'notifications/tools/list_changed' && link.live)
          readTools(() => line, link.live).catch((error: unknown) => log.debug('its tools were not read', { error }))
        options.notification(who, method, params, attributed)
      },
    })
    link.verdict = main.verdict
    const line: Instance = {
      key,
      who,
      link,
      credentials,
      active: 0,
      tools: new Map(),
      ended: false,
      cancel: () => undefined,
    }
    lines.set(key, line)
    return line
  }

  async function onShared<T>(who: Who, work: (link: Link) => Promise<T>): Promise<T> {
    sharers.set(who, (sharers.get(who) ?? 0) + 1)
    try {
      return await work(main)
    } finally {
      const left = (sharers.get(who) ?? 1) - 1
      if (left > 0) sharers.set(who, left)
      else sharers.delete(who)
    }
  }

  async function onMain<T>(work: (link: Link) => Promise<T>): Promise<T> {
    held++
    try {
      return await work(main)
    } finally {
      held--
      if (holderEnded && held === 0) free()
    }
  }

  function free(): void {
    holder = undefined
    holderEnded = false
    options.dropped('')
    options.freeMain()
  }

  return {
    async using(who, work) {
      if (options.kind() === 'shared') return await onShared(who, work)
      const name = nameOf(who)
      if (options.mainIsOf() === null && holder === undefined) {
        // Whoever called it while it was shared may wait for an answer there.
        holdingWho = sharers.keys().next().value ?? who
        holder = nameOf(holdingWho)
      }
      if (isMain(name)) return await onMain(work)
      const known = lines.get(name)
      if (!known && !makeRoom(who)) return await work(main)
      const line = known ?? start(name, who)
      line.cancel()
      line.active++
      try {
        return await work(line.link)
      } finally {
        line.active--
        rest(line)
      }
    },
    keyOf(who) {
      if (options.kind() === 'shared') return ''
      const name = nameOf(who)
      return isMain(name) || (options.mainIsOf() === null && holder === undefined) ? '' : name
    },
    liveOf(who) {
      const key = this.keyOf(who)
      return key === '' ? main.live : lines.get(key)?.link.live
    },
    asking(who, link, relay) {
      // Sessions of one principal are told apart by their own connections.
      if (options.kind() === 'shared' || who.session !== undefined) return relay
      const own = lines.get(nameOf(who))?.link ?? (isMain(nameOf(who)) ? main : undefined)
      return own === link ? { ...relay, connection: link } : relay
    },
    definition: (link, name) => [...lines.values()].find((line) => line.link === link)?.tools.get(name),
    began(taskId, link) {
      if (tasks.size >= MAX_TASKS) tasks.delete(tasks.keys().next().value as string)
      tasks.set(taskId, link)
    },
    ofTask: (taskId) => (typeof taskId === 'string' ? tasks.get(taskId) : undefined),
    ended(session) {
      const name = nameOfSession(session)
      const line = lines.get(name)
      if (line) {
        line.ended = true
        rest(line)
      }
      if (holder !== name) return
      if (options.mayShare()) holder = undefined
      else if (held > 0) holderEnded = true
      else free()
    },
    released() {
      holder = undefined
      holderEnded = false
    },
    get holder() {
      return holder === undefined ? undefined : holdingWho
    },
    get running() {
      return (
        [...lines.values()].filter(({ link, active }) => link.live !== undefined || active > 0).length +
        (main.live ? 1 : 0)
      )
    },
    async close(graceMs) {
      await Promise.all([
        ...[...lines.values()].map(async ({ link, credentials, cancel }) => {
          cancel()
          credentials.close()
          await link.stop(graceMs)
        }),
        ...closing,
      ])
    },
  }
}
