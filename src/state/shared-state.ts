import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import type { Redis } from 'ioredis'
import { type Clock, createSteadyClock, ticksOf } from '../core/clock.ts'
import { isPegboardError, messageOf, PegboardError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { once } from '../core/once.ts'
import { waitAtMost } from '../core/wait-at-most.ts'
import { type Alarms, createLocalAlarms } from './alarms.ts'
import type { CommonClock } from './common-clock.ts'
import { acquireProcessLock } from './process-lock.ts'
import { createQueueAlarms } from './queue-alarms.ts'
import { connectRedis, createRedisStore, readRedisTime } from './redis-store.ts'
import { readSecret } from './secret-file.ts'
import { openStateStore } from './sqlite-store.ts'
import type { Store } from './store.ts'

/** State that outlives a process and that several processes may share. */
export interface SharedState {
  /** Must be awaited before any other method is used. @throws PegboardError E_STATE */
  open(): Promise<void>
  /** True if this run, an earlier one or another process may have stored something. */
  readonly mayHaveData: boolean
  store(): Store
  /** True if the store answers now. */
  ready(): Promise<boolean>
  /** @param name kind of alarms @param steady use the clock that no one can set */
  alarms(name: string, steady?: 'steady'): Alarms
  /** A clock for durations: all processes agree about it, and setting a machine's clock does not move it. */
  readonly steady: Clock
  /** Random bytes that all processes know. */
  key(): Buffer
  /** Sends a text to all other processes. Processes that are disconnected miss it. */
  publish(topic: string, text: string): void
  subscribe(topic: string, listener: (text: string) => void): void
  /**
   * Registers a listener that is called after a lost connection is back; messages and changes were missed meanwhile.
   */
  onReconnect(listener: () => void): void
  close(): Promise<void>
}

/** Shared state in a folder of this machine. Its processes see each other's documents when they read. */
export function createLocalState(
  files: {
    readonly database: string
    readonly key: string
    /** Lock file, if only one process may use the folder. Absent: several processes may share it. */
    readonly lock?: string
  },
  clock: Clock,
  log: Log,
): SharedState {
  const steady = createSteadyClock(clock)
  let store: Store | undefined
  let letGo: (() => void) | undefined
  const hold = (): void => {
    if (files.lock !== undefined) letGo ??= acquireProcessLock(files.lock, process.pid)
  }
  function open(): Store {
    try {
      hold()
      store ??= openStateStore(files.database, clock, log)
    } catch (error) {
      // Clients see the error that is thrown; the path in the log is for the operator.
      log.error('the state file cannot be used', { error: messageOf(error) })
      const code = isPegboardError(error) && error.code === 'E_STATE_UNAVAILABLE' ? error.code : 'E_STATE'
      throw new PegboardError(code, 'Stored work cannot be read or written now.', {
        ...(isPegboardError(error) ? { hint: error.hint } : {}),
        cause: error,
      })
    }
    return store
  }
  return {
    async open() {
      hold()
    },
    get mayHaveData() {
      return store !== undefined || existsSync(files.database)
    },
    store: open,
    async ready() {
      if (!store && !existsSync(files.database)) return true
      try {
        await open().table('instance').get('')
        return true
      } catch {
        return false
      }
    },
    steady,
    alarms: (_name, which) => createLocalAlarms(which ? steady : clock, log),
    key: once(() =>
      readSecret(files.key, (error) => log.warn('cannot store the key that signs states', { error: messageOf(error) })),
    ),
    publish() {},
    subscribe() {},
    onReconnect() {},
    async close() {
      await store?.close()
      letGo?.()
    },
  }
}

const KEY_BYTES = 32

/**
 * Returns the stored key, or stores and returns this one.
 * @throws PegboardError E_STATE for a stored key that is too short
 */
async function keyIn(store: Store, ours: Buffer): Promise<Buffer> {
  const secrets = store.table<string>('secret', (value) => typeof value === 'string')
  await secrets.put({ id: 'key', owner: '', value: ours.toString('base64') }, 0)
  const key = Buffer.from((await secrets.get('key'))?.value ?? '', 'base64')
  if (key.length === KEY_BYTES) return key
  throw new PegboardError('E_STATE', 'The key in the Redis of state.url is not valid.', {
    hint: 'Another program has written it. Delete it (PREFIX:secret:doc:key) or set another state.prefix, then restart all servers.',
  })
}

/** How often the time of Redis is asked for; also after each reconnection. */
const ASK_TIME_MS = 60_000
const PING_MS = 1_000
/** A larger difference between the clocks is logged. */
const OFF_MS = 2_000

/**
 * Shared state in Redis, for all processes that use the same Redis and prefix.
 * @param prefix of all keys
 * @param clock is set to the time of Redis
 */
export function createRedisState(url: string, prefix: string, clock: CommonClock, log: Log): SharedState {
  const me = randomBytes(8).toString('hex')
  const channel = `${prefix}:said`
  const listeners = new Map<string, Array<(text: string) => void>>()
  let parts: { readonly redis: Redis; readonly ears: Redis; readonly store: Store; readonly key: Buffer } | undefined
  const backs: Array<() => void> = []
  const opened = () => {
    if (parts) return parts
    throw new PegboardError('E_STATE', 'The Redis of state.url is not connected.')
  }
  let pendingPing: Promise<boolean> | undefined
  /** While the client reconnects, the answer is no. */
  async function ping(): Promise<boolean> {
    const redis = parts?.redis
    if (redis?.status !== 'ready') return false
    const answered = redis.ping().then(
      () => true,
      () => false,
    )
    return await waitAtMost(PING_MS, answered, () => false, clock)
  }
  let cancelAsking: (() => void) | undefined
  let wasOff = false
  async function askTime(redis: Redis): Promise<void> {
    cancelAsking?.()
    cancelAsking = clock.after(ASK_TIME_MS, () => void askTime(redis).catch(() => undefined))
    const { time, at } = await readRedisTime(redis, () => ticksOf(clock))
    clock.set(time, at)
    const off = Math.abs(clock.aheadMs) > OFF_MS
    if (off && !wasOff)
      log.warn('the clock of this machine differs from the clock of Redis, which all servers use', {
        ahead_ms: clock.aheadMs,
      })
    wasOff = off
    await lookForKey()
  }
  async function warnOfEviction(redis: Redis): Promise<void> {
    // The Redis user may not be allowed to ask.
    const about = await redis.info('memory').catch(() => '')
    const policy = /^maxmemory_policy:([\w-]+)/m.exec(about)?.[1]
    if (policy !== undefined && policy !== 'noeviction')
      log.warn('Redis deletes stored state when it is full', {
        next: 'CONFIG SET maxmemory-policy noeviction',
        policy,
      })
  }
  let missed = false
  /** The key never expires: if it is gone, everything sealed with it is useless on all processes. */
  async function lookForKey(): Promise<void> {
    if (!parts) return
    const { store, key } = parts
    const before = await store.table<string>('secret').get('key')
    const isOurs = before !== undefined && (await keyIn(store, key)).equals(key)
    if (!isOurs && !missed)
      log.error('Redis has lost its data, or it is another Redis: earlier scheduled work is gone', {
        next: 'Restart all servers that use it.',
      })
    missed = !isOurs
    if (before === undefined) await keyIn(store, key)
  }
  async function open(): Promise<void> {
    const redis = await connectRedis(url, log)
    const ears = redis.duplicate({ maxRetriesPerRequest: null })
    // The other connection reports the error.
    ears.on('error', () => undefined)
    const store = createRedisStore(redis, prefix, clock, log)
    await warnOfEviction(redis)
    await askTime(redis)
    // The first process to store its key decides.
    const key = await keyIn(store, randomBytes(KEY_BYTES))
    await ears.connect()
    await ears.subscribe(channel)
    ears.on('message', (_channel: string, message: string) => {
      try {
        const [from, topic = '', text] = JSON.parse(message) as [string, string, string]
        if (from !== me) for (const listener of listeners.get(topic) ?? []) listener(text)
      } catch (error) {
        // Other versions and other programs can publish there too.
        log.warn('a message in Redis cannot be parsed', { error: messageOf(error) })
      }
    })
    ears.on('ready', () => {
      askTime(redis).catch(() => undefined)
      for (const listener of backs) listener()
    })
    parts = { redis, ears, store, key }
  }
  return {
    open: once(open),
    mayHaveData: true,
    store: () => opened().store,
    ready() {
      pendingPing ??= ping().finally(() => {
        pendingPing = undefined
      })
      return pendingPing
    },
    // The time of Redis, advanced by the time since the last request for it.
    steady: clock,
    alarms: (name) =>
      createQueueAlarms({
        connection: () => opened().redis,
        prefix,
        name,
        clock,
        log,
        onReconnect: (listener) => void backs.push(listener),
      }),
    key: () => opened().key,
    publish(topic, text) {
      opened()
        .redis.publish(channel, JSON.stringify([me, topic, text]))
        .catch((error: unknown) => log.warn('cannot notify the other processes', { error: messageOf(error) }))
    },
    subscribe(topic, listener) {
      listeners.set(topic, [...(listeners.get(topic) ?? []), listener])
    },
    onReconnect: (listener) => void backs.push(listener),
    async close() {
      cancelAsking?.()
      parts?.ears.disconnect()
      await parts?.store.close()
    },
  }
}
