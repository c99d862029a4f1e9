import type { Redis } from 'ioredis'
import type { Clock } from '../core/clock.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { tryParseJson } from '../core/try-parse-json.ts'
import { createReadableTable, createUnreadableReporter } from './readable-rows.ts'
import type { Store, StoredDocument, Table } from './store.ts'

/**
 * Writes a document if it still has the expected revision: `''` accepts any revision, `'0'` means that the document
 * must not exist. It is a script because check and write must be one step. If a maximum is given, a new document is
 * written only while its owner has fewer. Each write also removes up to ten expired documents from the lists.
 */
const PUT = `
local now = redis.call('HGET', KEYS[1], 'revision')
if ARGV[1] ~= '' and (now or '0') ~= ARGV[1] then return false end
if ARGV[7] ~= '' and not now and redis.call('ZCARD', KEYS[2] .. ':' .. ARGV[2]) >= tonumber(ARGV[7]) then return false end
local revision = redis.call('INCR', KEYS[3])
local order = redis.call('HGET', KEYS[1], 'order') or revision
local before = redis.call('HGET', KEYS[1], 'owner')
redis.call('HSET', KEYS[1], 'owner', ARGV[2], 'value', ARGV[3], 'revision', revision, 'order', order)
if ARGV[4] == '' then redis.call('PERSIST', KEYS[1]) else redis.call('PEXPIRE', KEYS[1], ARGV[4]) end
redis.call('ZADD', KEYS[2], order, ARGV[5])
if before and before ~= ARGV[2] then redis.call('ZREM', KEYS[2] .. ':' .. before, ARGV[5]) end
redis.call('ZADD', KEYS[2] .. ':' .. ARGV[2], order, ARGV[5])
local now_ms = redis.call('TIME')[1] * 1000
if ARGV[4] ~= '' then redis.call('ZADD', KEYS[4], now_ms + ARGV[4], cjson.encode({ARGV[5], ARGV[2]})) end
for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', now_ms, 'LIMIT', 0, 10)) do
  redis.call('ZREM', KEYS[4], member)
  -- A malformed member that another program added must not block the write.
  local known, pair = pcall(cjson.decode, member)
  local id, owner
  if known and type(pair) == 'table' then id, owner = pair[1], pair[2] end
  if type(id) == 'string' and type(owner) == 'string' and redis.call('EXISTS', ARGV[6] .. id) == 0 then
    redis.call('ZREM', KEYS[2], id)
    redis.call('ZREM', KEYS[2] .. ':' .. owner, id)
  end
end
return revision`

const DELETE = `
local owner = redis.call('HGET', KEYS[1], 'owner')
if not owner then return 0 end
if ARGV[2] ~= '' and redis.call('HGET', KEYS[1], 'revision') ~= ARGV[2] then return 0 end
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[2] .. ':' .. owner, ARGV[1])
return redis.call('DEL', KEYS[1])`

interface Scripts {
  pegboardPut(
    key: string,
    index: string,
    counter: string,
    ends: string,
    expected: string,
    owner: string,
    value: string,
    lastsMs: string,
    id: string,
    prefix: string,
    atMost: string,
  ): Promise<number | null>
  pegboardDelete(key: string, index: string, id: string, expected: string): Promise<number>
}

/**
 * Connects to `redis://…`, where all instances keep their shared state.
 * @throws PegboardError E_STATE when the package is missing or the server does not answer
 */
export async function connectRedis(url: string, log: Pick<Log, 'warn'>): Promise<Redis> {
  let Client: typeof Redis
  try {
    Client = (await import('ioredis')).Redis
  } catch (error) {
    throw createMissingPackageError(error)
  }
  const redis = new Client(url, {
    lazyConnect: true,
    connectTimeout: CONNECT_MS,
    maxRetriesPerRequest: RETRIES,
    commandTimeout: COMMAND_MS,
    retryStrategy: (times) => Math.min(times * 50, MAX_PAUSE_MS),
  })
  let lastError = ''
  let connected = false
  redis.on('error', ({ message }: Error) => {
    if (message === lastError) return
    lastError = message
    if (connected) log.warn('Redis is not reachable; Pegboard tries again', { error: message })
  })
  redis.on('ready', () => {
    if (connected && lastError !== '') log.warn('Redis is back')
    lastError = ''
    connected = true
  })
  try {
    await redis.connect()
    await redis.ping()
  } catch (error) {
    redis.disconnect()
    // The error of a failed command can contain the password, so it is not used as the cause.
    throw new PegboardError('E_STATE', `The Redis of state.url does not answer: ${lastError || messageOf(error)}.`, {
      hint: 'Start it, or correct state.url.',
    })
  }
  return redis
}

export const createMissingPackageError = (cause: unknown): PegboardError =>
  new PegboardError('E_STATE', 'state.url names Redis, and the packages for it are not installed.', {
    hint: 'npm install ioredis bullmq',
    cause,
  })

const CONNECT_MS = 5_000
/** Reconnection attempts and time a command waits before it fails. */
const RETRIES = 3
const COMMAND_MS = 5_000
const MAX_PAUSE_MS = 1_000

/**
 * @throws PegboardError E_STATE_UNAVAILABLE for any failure of a command; Redis errors can contain the values that
 * were sent
 */
export async function convertFailure<T>(command: Promise<T>): Promise<T> {
  try {
    return await command
  } catch (error) {
    throw new PegboardError('E_STATE_UNAVAILABLE', 'The state in Redis cannot be reached now.', {
      cause: new Error(messageOf(error)),
    })
  }
}

/** True if another program has stored another type under one of our keys, so that it cannot be read. */
function isOtherType(error: unknown): readonly string[] {
  if (messageOf(error).startsWith('WRONGTYPE')) return ['', '', '0']
  throw error
}

/** A store in Redis. @param prefix of all keys */
export function createRedisStore(
  connection: Redis,
  prefix: string,
  clock: Pick<Clock, 'now'>,
  log: Pick<Log, 'error'>,
): Store {
  connection.defineCommand('pegboardPut', { numberOfKeys: 4, lua: PUT })
  connection.defineCommand('pegboardDelete', { numberOfKeys: 2, lua: DELETE })
  const redis = connection as Redis & Scripts
  const counter = `${prefix}:revision`
  const tell = createUnreadableReporter(log)
  return {
    table<T>(kind: string, fits: (value: unknown) => boolean = () => true): Table<T> {
      const index = `${prefix}:${kind}:all`
      const keyOf = (id: string): string => `${prefix}:${kind}:doc:${id}`
      const indexOf = (owner?: string): string => (owner === undefined ? index : `${index}:${owner}`)
      const get = async (id: string): Promise<StoredDocument<unknown> | undefined> => {
        const [owner, value, revision] = await convertFailure(
          redis.hmget(keyOf(id), 'owner', 'value', 'revision').catch(isOtherType),
        )
        if (typeof owner !== 'string' || typeof value !== 'string') return undefined
        return { id, owner, value: tryParseJson(value), revision: Number(revision) }
      }
      const list = async (owner?: string): Promise<readonly StoredDocument<unknown>[]> => {
        const ids = await convertFailure(redis.zrange(indexOf(owner), 0, -1))
        // Expired documents stay in the lists until the next write.
        return (await Promise.all(ids.map(get))).flatMap((row) => row ?? [])
      }
      const table: Table<unknown> = {
        get,
        async put({ id, owner, value, expiresAt, atMost }, expected) {
          const revision = await convertFailure(
            redis.pegboardPut(
              keyOf(id),
              index,
              counter,
              `${index}:ends`,
              expected === undefined ? '' : String(expected),
              owner,
              JSON.stringify(value),
              // A duration, because the clocks of this process and of Redis may differ.
              expiresAt === undefined ? '' : String(Math.max(1, Math.ceil(expiresAt - clock.now()))),
              id,
              keyOf(''),
              atMost === undefined ? '' : String(atMost),
            ),
          )
          return revision ?? undefined
        },
        delete: async (id, expected) =>
          (await convertFailure(
            redis.pegboardDelete(keyOf(id), index, id, expected === undefined ? '' : String(expected)),
          )) > 0,
        list,
        count: async (owner) => (await list(owner)).length,
      }
      return createReadableTable<T>(table, kind, fits, tell)
    },
    async close() {
      await redis.quit().catch(() => redis.disconnect())
    },
  }
}

/** The time in Redis and the value of `ticks` at that time. */
export async function readRedisTime(
  redis: Redis,
  ticks: () => number,
): Promise<{ readonly time: number; readonly at: number }> {
  const before = ticks()
  const [seconds, micros] = await convertFailure(redis.time())
  return { time: Number(seconds) * 1_000 + Math.round(Number(micros) / 1_000), at: (before + ticks()) / 2 }
}
