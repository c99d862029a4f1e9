import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import type { Redis } from 'ioredis'
import { type Clock, createSteadyClock, ticksOf } from '../core/clock.ts'
import { isPegboardError, messageOf, PegboardError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { type Alarms, createLocalAlarms } from './alarms.ts'
import { holdAlone } from './alone.ts'
import type { CommonClock } from './common-clock.ts'
import { createQueueAlarms } from './queue.ts'
import { connectRedis, createRedisStore, timeIn } from './redis.ts'
import { readSecret } from './secret.ts'
import { openStateStore } from './sqlite.ts'
import type { Store } from './store.ts'

/** What outlives a process, and what several processes have in common. */
export interface Shared {
  /** To be awaited before anything else of it is used. @throws PegboardError E_STATE */
  open(): Promise<void>
  /** Whether something was kept before, or may be by others now. */
  readonly hasPast: boolean
  store(): Store
  /** Whether the store answers now. */
  ready(): Promise<boolean>
  /** By the kind of what rings. @param steady on the clock that nobody sets */
  alarms(name: string, steady?: 'steady'): Alarms
  /** For spans of time that are kept: all processes agree about it, and a clock that is set does not move it. */
  readonly steady: Clock
  /** Random bytes that all of them know. */
  key(): Buffer
  /** Tells all others, not oneself. What is missed is missed. */
  tell(topic: string, text: string): void
  hear(topic: string, listener: (text: string) => void): void
  /** It was away and is back: what others did and said meanwhile was missed. */
  onBack(listener: () => void): void
  close(): Promise<void>
}

/** In a folder of this machine; processes that share it see each other's documents when they look. */
export function createLocalShared(
  files: {
    readonly database: string
    readonly key: string
    /** Held by one process alone; absent: several may share the folder. */
    readonly lock?: string
  },
  clock: Clock,
  log: Log,
): Shared {
  const steady = createSteadyClock(clock)
  let store: Store | undefined
  let key: Buffer | undefined
  let letGo: (() => void) | undefined
  const hold = (): void => {
    if (files.lock !== undefined) letGo ??= holdAlone(files.lock, process.pid)
  }
  function open(): Store {
    try {
      hold()
      store ??= openStateStore(files.database, clock, log)
    } catch (error) {
      // Clients read what is thrown here, and where the file lies is for the operator.
      log.error('the state file cannot be used', { error: messageOf(error) })
      const code = isPegboardError(error) && error.code === 'E_STATE_UNAVAILABLE' ? error.code : 'E_STATE'
      throw new PegboardError(code, 'What is kept for later cannot be read or written now.', {
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
    get hasPast() {
      return existsSync(files.database)
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
    key() {
      key ??= readSecret(files.key, (error) =>
        log.warn('the key that signs states could not be kept', { error: messageOf(error) }),
      )
      return key
    },
    tell() {},
    hear() {},
    onBack() {},
    async close() {
      await store?.close()
      letGo?.()
    },
  }
}

const KEY_BYTES = 32

/** The key that is there, or this one from now on. @throws PegboardError E_STATE for one that would sign nothing */
async function keyIn(store: Store, ours: Buffer): Promise<Buffer> {
  const secrets = store.table<string>('secret', (value) => typeof value === 'string')
  await secrets.put({ id: 'key', owner: '', value: ours.toString('base64') }, 0)
  const key = Buffer.from((await secrets.get('key'))?.value ?? '', 'base64')
  if (key.length === KEY_BYTES) return key
  throw new PegboardError('E_STATE', 'The key in the Redis of state.url is none.', {
    hint: 'Somebody else has written there: delete it (PREFIX:secret:doc:key) or set another state.prefix, then start all again.',
  })
}

/** The time is asked again this often, and when Redis was away. */
const ASK_TIME_MS = 60_000
const PING_MS = 1_000
/** A clock that is further off is worth a line. */
const OFF_MS = 2_000

/** In Redis, for all processes that name it. @param prefix of all keys @param clock is set by that of Redis */
export function createRedisShared(url: string, prefix: string, clock: CommonClock, log: Log): Shared {
  const me = randomBytes(8).toString('hex')
  const channel = `${prefix}:said`
  const listeners = new Map<string, Array<(text: string) => void>>()
  let parts: { readonly redis: Redis; readonly ears: Redis; readonly store: Store; readonly key: Buffer } | undefined
  const backs: Array<() => void> = []
  let opening: Promise<void> | undefined
  const opened = () => {
    if (parts) return parts
    throw new PegboardError('E_STATE', 'The Redis of state.url is not connected.')
  }
  let asked: Promise<boolean> | undefined
  /** A connection that is being made again is none. */
  async function ping(): Promise<boolean> {
    const redis = parts?.redis
    if (redis?.status !== 'ready') return false
    const late = new Promise<boolean>((resolve) => clock.after(PING_MS, () => resolve(false)))
    return await Promise.race([
      redis.ping().then(
        () => true,
        () => false,
      ),
      late,
    ])
  }
  let cancelAsking: (() => void) | undefined
  let told = false
  async function askTime(redis: Redis): Promise<void> {
    cancelAsking?.()
    cancelAsking = clock.after(ASK_TIME_MS, () => void askTime(redis).catch(() => undefined))
    const { time, at } = await timeIn(redis, () => ticksOf(clock))
    clock.set(time, at)
    const off = Math.abs(clock.aheadMs) > OFF_MS
    if (off && !told)
      log.warn('the clock of this machine is not that of Redis, which all go by', { ahead_ms: clock.aheadMs })
    told = off
    await lookForKey()
  }
  async function warnOfEviction(redis: Redis): Promise<void> {
    // Not everybody may ask.
    const about = await redis.info('memory').catch(() => '')
    const policy = /^maxmemory_policy:([\w-]+)/m.exec(about)?.[1]
    if (policy !== undefined && policy !== 'noeviction')
      log.warn('Redis throws away what is kept there when it is full', {
        next: 'CONFIG SET maxmemory-policy noeviction',
        policy,
      })
  }
  let missed = false
  /** It is kept for ever: where it is gone, so is all the rest. What is sealed with it must go on to be good everywhere. */
  async function lookForKey(): Promise<void> {
    if (!parts) return
    const { store, key } = parts
    const before = await store.table<string>('secret').get('key')
    const isOurs = before !== undefined && (await keyIn(store, key)).equals(key)
    if (!isOurs && !missed)
      log.error('Redis has lost what was kept there, or it is another: what was planned before is not', {
        next: 'Restart all that name it, so that they agree again.',
      })
    missed = !isOurs
    if (before === undefined) await keyIn(store, key)
  }
  async function open(): Promise<void> {
    const redis = await connectRedis(url, log)
    const ears = redis.duplicate({ maxRetriesPerRequest: null })
    // The other connection says so.
    ears.on('error', () => undefined)
    const store = createRedisStore(redis, prefix, clock, log)
    await warnOfEviction(redis)
    await askTime(redis)
    // Whoever is first decides.
    const key = await keyIn(store, randomBytes(KEY_BYTES))
    await ears.connect()
    await ears.subscribe(channel)
    ears.on('message', (_channel: string, message: string) => {
      try {
        const [from, topic = '', text] = JSON.parse(message) as [string, string, string]
        if (from !== me) for (const listener of listeners.get(topic) ?? []) listener(text)
      } catch (error) {
        // Anybody may speak there: another version, or somebody who is none of us.
        log.warn('something that was said in Redis is not understood', { error: messageOf(error) })
      }
    })
    ears.on('ready', () => {
      askTime(redis).catch(() => undefined)
      for (const listener of backs) listener()
    })
    parts = { redis, ears, store, key }
  }
  return {
    open() {
      opening ??= open()
      return opening
    },
    hasPast: true,
    store: () => opened().store,
    ready() {
      asked ??= ping().finally(() => {
        asked = undefined
      })
      return asked
    },
    // The time of Redis, by what has passed since it was asked.
    steady: clock,
    alarms: (name) =>
      createQueueAlarms({
        connection: () => opened().redis,
        prefix,
        name,
        clock,
        log,
        onBack: (listener) => void backs.push(listener),
      }),
    key: () => opened().key,
    tell(topic, text) {
      opened()
        .redis.publish(channel, JSON.stringify([me, topic, text]))
        .catch((error: unknown) => log.warn('others could not be told', { error: messageOf(error) }))
    },
    hear(topic, listener) {
      listeners.set(topic, [...(listeners.get(topic) ?? []), listener])
    },
    onBack: (listener) => void backs.push(listener),
    async close() {
      cancelAsking?.()
      parts?.ears.disconnect()
      await parts?.store.close()
    },
  }
}
