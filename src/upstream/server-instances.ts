import { PegboardError } from '../core/errors.ts'
import type { Json } from '../core/is-record.ts'
import { changedList } from '../core/list-kinds.ts'
import { ProtocolFailure } from '../core/protocol-failure.ts'
import { randomId } from '../core/random-id.ts'
import type { RequestOwner } from '../core/tool.ts'
import type { Connection } from './connection.ts'
import type { Credentials } from './http-credentials.ts'
import type { Habits } from './per-client-queue.ts'
import { emptyListing, type FreshListing, readListing } from './read-listing.ts'
import { createReconnectingLink, type LinkOptions, type ReconnectingLink } from './reconnecting-link.ts'
import type { OpenTasks } from './server-tasks.ts'
import type { InstanceSharing } from './stateful-servers.ts'

interface InstanceTask {
  readonly taskId: string
  readonly link: ReconnectingLink
}

export interface InstancesOptions extends Pick<LinkOptions, 'id' | 'shared' | 'log' | 'settings' | 'isSilent'> {
  readonly main: ReconnectingLink
  readonly openTasks: OpenTasks
  readonly habits: Habits
  readonly sharing: InstanceSharing
  /** Whose the first connection is, if its login determines that; `null` if the first caller may have it. */
  mainOwner(): string | undefined | null
  credentials(principal: string | undefined, loggedIn: () => void): Credentials
  /** True if someone is subscribed on this connection. */
  follows(key: string): boolean
  /** @param read the tools that it lists */
  opened(key: string, who: RequestOwner, connection: Connection, read: FreshListing): void
  /** @param whose absent: the notification arrived on the first connection */
  notification(method: string, params: Json, attributed: boolean, via: ReconnectingLink, whose?: RequestOwner): void
  /** The session of the first connection has ended: closes it. */
  freeMain(): void
  /** Subscriptions and log level of this connection are gone. */
  dropped(key: string): void
}

interface Instance {
  readonly key: string
  /** Prefix of its task ids, because instances may use the same ids. The servers do not see it. */
  readonly taskPrefix: string
  readonly who: RequestOwner
  readonly link: ReconnectingLink
  readonly credentials: Credentials
  active: number
  /** Its tool definitions, by name. */
  tools: ReadonlyMap<string, string>
  ended: boolean
  cancel: () => void
}

const REST_MS = 2_000
/** How often the instance of an ended session is checked while a task runs. */
const ENDED_MS = 10_000
const TOOLS: ReadonlySet<'tools'> = new Set(['tools'] as const)

export const nameOfPrincipal = (principal: string): string => `principal ${principal}`
const nameOfSession = (session: string): string => `session ${session}`

/** The connections of a server whose callers do not share one. The first caller gets the connection used for lists. */
export function createInstances(options: InstancesOptions) {
  const { id, shared, log, main, openTasks, sharing } = options
  const { clock } = shared
  const instances = new Map<string, Instance>()
  /** Prefix of task ids on the first connection. */
  let mainTaskPrefix = randomId()
  const closing = new Set<Promise<void>>()
  // The caller that has the first connection, unless its login determines that.
  let holder: string | undefined
  let holdingWho: RequestOwner | undefined
  let mainRequests = 0
  /** Callers with requests on the shared first connection. */
  const sharers = new Map<RequestOwner, number>()
  let holderEnded = false
  /** Callers whose instance was stopped while idle. */
  const stopped = new Set<string>()

  const nameOf = ({ principal, session }: RequestOwner): string =>
    sharing.kind() === 'session' && session !== undefined ? nameOfSession(session) : nameOfPrincipal(principal ?? '')

  const isMain = (name: string): boolean => {
    const mainName = options.mainOwner()
    return (mainName === null ? holder : mainName) === name
  }

  const isBusy = ({ key, taskPrefix, active }: Instance): boolean =>
    active > 0 || options.follows(key) || openTasks.mayRun(`${taskPrefix}:`)

  const instanceOf = (link: ReconnectingLink): Instance | undefined =>
    [...instances.values()].find((one) => one.link === link)

  /** A shared remote server keeps its tasks when the connection changes, so their ids need no prefix. */
  const keepsTasks = (): boolean => sharing.kind() === 'shared' && options.settings().target.kind !== 'stdio'

  /**
   * The id of a task of this connection, unique over all instances. It is valid as long as nobody else gets the process
   * or session that knows the task, because another one may use the same id for another caller's task.
   */
  function nameTask(taskId: string, link: ReconnectingLink): string {
    const mark = instanceOf(link)?.taskPrefix ?? (keepsTasks() ? undefined : mainTaskPrefix)
    return mark === undefined ? taskId : `${mark}:${taskId}`
  }

  function end(instance: Instance): void {
    instance.cancel()
    instance.credentials.close()
    instances.delete(instance.key)
    options.dropped(instance.key)
    const stopping = instance.link.stop(REST_MS).finally(() => closing.delete(stopping))
    closing.add(stopping)
  }

  /** Closes the instance after its idle time, unless it is used again. */
  function closeWhenUnused(instance: Instance): void {
    instance.cancel()
    if (instance.active > 0) return
    if (instance.ended && !isBusy(instance)) {
      end(instance)
      return
    }
    const { idleStopMs } = options.settings()
    if (!instance.ended && idleStopMs === 0) return
    instance.cancel = clock.after(instance.ended ? ENDED_MS : idleStopMs, () => {
      if (isBusy(instance)) return closeWhenUnused(instance)
      log.info('stopped an unused instance')
      if (!instance.ended && sharing.keepsState()) stopped.add(instance.key)
      end(instance)
    })
  }

  async function readTools(getInstance: () => Instance, connection: Connection): Promise<FreshListing> {
    const read = await readListing(connection, TOOLS, emptyListing, (message) => log.debug(message))
    getInstance().tools = new Map(read.tools.map(({ name, text }) => [name, text]))
    return read
  }

  function makeRoom({ principal }: RequestOwner): boolean {
    const { maxInstances, maxInstancesPerPrincipal, where } = options.settings()
    const ownCount = [...instances.values()].filter(({ who }) => who.principal === principal).length
    const setting =
      ownCount >= maxInstancesPerPrincipal
        ? 'maxInstancesPerPrincipal'
        : instances.size + 1 >= maxInstances
          ? 'maxInstances'
          : undefined
    if (setting === undefined) return true
    if (sharing.mayShare()) return false
    throw new PegboardError(
      'E_OVERLOADED',
      `${id} is at its limit of instances: ${ownCount} for you, ${instances.size + 1} in all.`,
      {
        retryAfterMs: 10_000,
        hint: `End a session that you do not need any more, or raise ${where}.${setting}.`,
      },
    )
  }

  function start(key: string, who: RequestOwner): Instance {
    const credentials = options.credentials(who.principal, () => link.later(0))
    const link: ReconnectingLink = createReconnectingLink({
      id,
      settings: options.settings,
      shared,
      log,
      credentials,
      habits: options.habits,
      async opened(connection) {
        options.opened(key, who, connection, await readTools(() => instance, connection))
      },
      keeps: () => options.follows(key),
      changed: () => undefined,
      isSilent: options.isSilent,
      notification(method, params, attributed) {
        const connection = link.live()
        if (changedList(method) === 'tools' && connection)
          readTools(() => instance, connection).catch((error: unknown) =>
            log.debug('its tools were not read', { error }),
          )
        options.notification(method, params, attributed, link, who)
      },
    })
    link.eras.restore(main.eras.verdict)
    const instance: Instance = {
      key,
      taskPrefix: randomId(),
      who,
      link,
      credentials,
      active: 0,
      tools: new Map(),
      ended: false,
      cancel: () => undefined,
    }
    instances.set(key, instance)
    return instance
  }

  async function onShared<T>(who: RequestOwner, work: (link: ReconnectingLink) => Promise<T>): Promise<T> {
    sharers.set(who, (sharers.get(who) ?? 0) + 1)
    try {
      return await work(main)
    } finally {
      const remaining = (sharers.get(who) ?? 1) - 1
      if (remaining > 0) sharers.set(who, remaining)
      else sharers.delete(who)
    }
  }

  async function onMain<T>(work: (link: ReconnectingLink) => Promise<T>): Promise<T> {
    mainRequests++
    try {
      return await work(main)
    } finally {
      mainRequests--
      if (holderEnded && mainRequests === 0) releaseMain()
    }
  }

  function release(): void {
    holder = undefined
    holderEnded = false
    mainTaskPrefix = randomId()
  }

  function releaseMain(): void {
    release()
    options.dropped('')
    options.freeMain()
  }

  async function onOwn<T>(who: RequestOwner, work: (link: ReconnectingLink) => Promise<T>): Promise<T> {
    const name = nameOf(who)
    if (options.mainOwner() === null && holder === undefined) {
      // A caller from the time it was shared may still wait for an answer there.
      holdingWho = sharers.keys().next().value ?? who
      holder = nameOf(holdingWho)
    }
    if (isMain(name)) return await onMain(work)
    const existing = instances.get(name)
    if (!existing && !makeRoom(who)) return await work(main)
    const instance = existing ?? start(name, who)
    instance.cancel()
    instance.active++
    try {
      return await work(instance.link)
    } finally {
      instance.active--
      closeWhenUnused(instance)
    }
  }

  return {
    /** Runs `work` on the caller's connection, which is closed when idle. @throws PegboardError E_OVERLOADED */
    using: <T>(who: RequestOwner, work: (link: ReconnectingLink) => Promise<T>): Promise<T> =>
      sharing.kind() === 'shared' ? onShared(who, work) : onOwn(who, work),
    /** Key of the caller's current connection; `''` for the one used for lists. */
    keyOf(who: RequestOwner): string {
      if (sharing.kind() === 'shared') return ''
      const name = nameOf(who)
      return isMain(name) || (options.mainOwner() === null && holder === undefined) ? '' : name
    },
    /** The caller's connection, if it is open. */
    liveOf(who: RequestOwner): Connection | undefined {
      const key = this.keyOf(who)
      return key === '' ? main.live() : instances.get(key)?.link.live()
    },
    /** The current definition of a tool on this connection; undefined if there is none, or if it is not checked. */
    definition: (link: ReconnectingLink, name: string): string | undefined => instanceOf(link)?.tools.get(name),
    nameTask,
    /** The connection of the task with that id, and its id there. @throws ProtocolFailure -32602 if it is gone */
    ofTask(id: unknown): InstanceTask | undefined {
      const [, mark, taskId] = /^(\w+):(.*)$/s.exec(String(id)) ?? []
      if (mark !== undefined && taskId !== undefined) {
        if (mark === mainTaskPrefix) return { taskId, link: main }
        const instance = [...instances.values()].find((one) => one.taskPrefix === mark)
        if (instance) return { taskId, link: instance.link }
      }
      if (!keepsTasks()) throw new ProtocolFailure(-32602, 'There is no such task')
      return undefined
    },
    /** The first connection has a new process. */
    restarted(): void {
      mainTaskPrefix = randomId()
    },
    /** A client session has ended; its connection is closed when no call or task uses it. */
    ended(session: string): void {
      const name = nameOfSession(session)
      stopped.delete(name)
      const instance = instances.get(name)
      if (instance) {
        instance.ended = true
        closeWhenUnused(instance)
      }
      if (holder !== name) return
      if (sharing.mayShare()) holder = undefined
      else if (mainRequests > 0) holderEnded = true
      else releaseMain()
    },
    /** The first connection was closed, because it was idle; the next caller may have it. */
    released(): void {
      if (holder !== undefined && sharing.keepsState()) stopped.add(holder)
      release()
    },
    /** Whether the caller's instance was stopped while idle, so that its state is gone. True once for each stop. */
    takeStopped: (who: RequestOwner): boolean => stopped.delete(nameOf(who)),
    /**
     * The callers that get a notification. An undefined entry means all callers.
     * @param whose caller of the connection it arrived on; absent: the first connection
     */
    recipients(whose = holder === undefined ? undefined : holdingWho): ReadonlyArray<RequestOwner | undefined> {
      if (sharing.kind() === 'shared') return [undefined]
      return whose ? [whose] : []
    },
    /** Number of running instances, including the first. */
    running(): number {
      return (
        [...instances.values()].filter(({ link, active }) => link.live() !== undefined || active > 0).length +
        (main.live() ? 1 : 0)
      )
    },
    async close(graceMs: number): Promise<void> {
      await Promise.all([
        ...[...instances.values()].map(async ({ link, credentials, cancel }) => {
          cancel()
          credentials.close()
          await link.stop(graceMs)
        }),
        ...closing,
      ])
    },
  }
}

export type Instances = ReturnType<typeof createInstances>
