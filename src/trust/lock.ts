import { createCipheriv, hash, randomBytes } from 'node:crypto'
import { readFileSync, realpathSync } from 'node:fs'
import { open, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { basename, dirname, join, parse } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { messageOf } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { isRecord } from '../core/record.ts'
import type { FileStore } from '../state/files.ts'

/** What was decided about each tool: its fingerprint, or `rejected ` and its fingerprint. */
export type Pins = ReadonlyMap<string, string>
export type Servers = Map<string, Map<string, string>>

/** The memory of what was approved, in a file that is committed beside the configuration. */
export interface Lock {
  /** Why nothing new can be trusted: the file is there and cannot be understood. */
  readonly broken: string | undefined
  /** Why the file does not have what memory has. */
  readonly unsaved: string | undefined
  /** Undefined for a server nobody looked at yet. */
  pins(server: string): Pins | undefined
  /** Of all it has of a server, in hex; undefined as `pins`, and while the file cannot be understood. */
  digest(server: string): string | undefined
  servers(): ReadonlyMap<string, Pins>
  /** Changes memory now and the file soon; made again on what the file has then, so it must not depend on the moment. */
  change(apply: (servers: Servers) => void): void
  /** Reads the file again. Answers whether anything is different. */
  reread(): boolean
  /** Resolves when the file has what memory has. */
  flush(): Promise<void>
}

/** Of a file that was read and found good: what `digest` answers without reading it again. */
export interface LockDigests {
  /** A mark of the text; see `markOf`. */
  readonly text: string
  readonly servers: Readonly<Record<string, string>>
}

export interface LockOptions {
  /** Absolute path; without one everything is kept in memory alone. */
  readonly file: string | undefined
  readonly log: Log
  /** What was worked out of the file the last time, by its path. */
  readonly digests?: FileStore<LockDigests> | undefined
  /** Told when the file turned out to have something else than memory had. */
  readonly onChange?: () => void
}

export const LOCK_NAME = 'pegboard.lock.json'
/**
 * It lies beside the configuration, to be committed with it; without one there is none. A file of another name, such as
 * that of another client, has a lock of its own: `mcp.json` has `mcp.pegboard.lock.json`.
 */
export function lockFile(configuration: string | undefined): string | undefined {
  if (configuration === undefined) return undefined
  const name = basename(configuration)
  return join(dirname(configuration), name === 'mcp.config.json' ? LOCK_NAME : `${parse(name).name}.${LOCK_NAME}`)
}

const nameOf = (file: string | undefined): string => (file === undefined ? LOCK_NAME : basename(file))

const VERSION = 1
/** Of a fingerprint in hex, alone and after `rejected `. */
const LENGTHS: ReadonlySet<number> = new Set([64, 73])
const CALM = { quietMs: 100, longestMs: 1_000 }
const GUARD = { waitMs: 20, tries: 100, staleMs: 10_000 }

export function createLock({ file, log, digests, onChange = () => undefined }: LockOptions): Lock {
  let memory: Servers = new Map()
  /** What the file had when it was last read or written. */
  let text: string | undefined
  let broken: string | undefined
  let loaded = false
  /** Of a file that was good and has not changed; ten thousand pins need not be read then. */
  let known: LockDigests | undefined
  let asked = false
  let pending: Array<(servers: Servers) => void> = []
  let saving: Promise<void> = Promise.resolve()
  let unsaved: string | undefined
  /** The next writing has not begun, and takes along whatever changes meanwhile. */
  let waits = false
  let changedAt = 0
  let flushing = 0
  let hurry = (): void => undefined

  /** Takes over what the file says; a file that cannot be understood changes nothing but that it is said. */
  function take(source: () => string | undefined): boolean {
    const before = text
    try {
      // A folder in its place, or a file that may not be read, is as good as a damaged one.
      const read = source()
      // Memory is what the file has and what is pending.
      if (read === text && broken === undefined) return false
      const servers = read === undefined ? new Map() : parseLock(read)
      text = read
      for (const apply of pending) apply(servers)
      memory = servers
      broken = undefined
    } catch (error) {
      const why = `${nameOf(file)} cannot be read: ${messageOf(error)}`
      if (broken !== why) log.error(`${why}; nothing new is trusted until it is repaired`)
      broken = why
    }
    return before !== text
  }

  function load(): void {
    if (loaded) return
    loaded = true
    if (file === undefined) return
    take(() => textOf(file))
    if (differs()) queueMicrotask(onChange)
    saving = saving.then(keepDigests)
  }

  /** Whether the file, read now, has something else than its digests, which are not used from here on. */
  function differs(): boolean {
    const before = known
    known = undefined
    return (
      before !== undefined && (broken !== undefined || text === undefined || !isMarked(Buffer.from(text), before.text))
    )
  }

  /** Answers whether the file is as it was when its digests were kept. */
  function isKnown(): boolean {
    if (!asked && !loaded && file !== undefined) {
      const bytes = readable(file)
      const kept = bytes && digests?.get(keyOf(file))
      if (kept && isMarked(bytes, kept.text) && isRecord(kept.servers)) known = kept
    }
    asked = true
    return known !== undefined
  }

  function keepDigests(): void {
    if (file === undefined || digests === undefined || text === undefined || broken !== undefined) return
    if (pending.length > 0) return
    const servers = Object.fromEntries([...memory].map(([id, pins]) => [id, digestOf(pins)]))
    digests.set(keyOf(file), { text: markOf(Buffer.from(text)), servers })
  }

  /** Resolves when nothing has changed for a moment: fifty servers that come one after the other are written once. */
  async function calm(): Promise<void> {
    const since = performance.now()
    for (;;) {
      const leftMs = Math.min(changedAt + CALM.quietMs, since + CALM.longestMs) - performance.now()
      if (leftMs <= 0 || flushing > 0) break
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, leftMs)
        hurry = () => {
          clearTimeout(timer)
          resolve()
        }
      })
    }
    waits = false
  }

  async function save(path: string): Promise<void> {
    if (pending.length === 0) return
    const leave = await enter(path)
    try {
      const before = text
      const read = await readFile(path, 'utf8').catch(absent)
      take(() => read)
      if (broken !== undefined) return
      pending = []
      const wanted = formatLock(memory)
      const others = text !== before
      if (wanted !== text) await replace(path, wanted)
      text = wanted
      unsaved = undefined
      keepDigests()
      if (others) onChange()
    } finally {
      await leave()
    }
  }

  return {
    get broken() {
      load()
      return broken
    },
    get unsaved() {
      return unsaved ?? broken
    },
    pins(server) {
      load()
      return memory.get(server)
    },
    digest(server) {
      if (isKnown()) return known && Object.hasOwn(known.servers, server) ? known.servers[server] : undefined
      load()
      const pins = memory.get(server)
      return pins && broken === undefined ? digestOf(pins) : undefined
    },
    servers() {
      load()
      return memory
    },
    change(apply) {
      load()
      apply(memory)
      if (file === undefined) return
      pending.push(apply)
      changedAt = performance.now()
      if (waits) return
      waits = true
      saving = saving
        .then(calm)
        .then(() => save(file))
        .catch((error: unknown) => {
          pending = []
          const why = `${nameOf(file)} cannot be written: ${messageOf(error)}`
          if (unsaved === undefined) log.warn(`${why}; what is approved is forgotten at the end`)
          unsaved = why
        })
    },
    reread() {
      loaded = true
      if (file === undefined) return false
      const isKept = known !== undefined
      const isOther = take(() => textOf(file))
      return isKept ? differs() : isOther
    },
    async flush() {
      flushing++
      hurry()
      await saving
      flushing--
    },
  }
}

/** @throws Error that says what is wrong */
export function parseLock(text: string): Servers {
  const whole = jsonOf(text) as { version?: unknown; servers?: unknown } | null
  if (typeof whole !== 'object' || whole === null) throw new Error('it is not an object')
  if (whole.version !== VERSION) throw new Error(`its version is not ${VERSION}; a newer Pegboard may have written it`)
  if (typeof whole.servers !== 'object' || whole.servers === null) throw new Error('it has no servers')
  return new Map(
    Object.entries(whole.servers).map(([id, tools]) => {
      if (typeof tools !== 'object' || tools === null) throw new Error(`servers.${id} is not an object`)
      const pins = Object.entries(tools)
      // Ten thousand are read at every start; what has the right length and is none fits no tool.
      for (const [name, entry] of pins)
        if (typeof entry !== 'string' || !LENGTHS.has(entry.length))
          throw new Error(`servers.${id}.${name} is not a fingerprint`)
      return [id, new Map(pins as Array<[string, string]>)]
    }),
  )
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    if (/^(<{7}|={7}|>{7})/m.test(text)) throw new Error('it has conflict markers of a merge')
    throw error
  }
}

/** One tool a line, sorted, so that a diff shows what changed and nothing else. */
export function formatLock(servers: ReadonlyMap<string, Pins>): string {
  const sorted = <Value>(map: ReadonlyMap<string, Value>): Array<[string, Value]> =>
    [...map].sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
  const block = (lines: readonly string[], indent: string): string =>
    lines.length === 0 ? '{}' : `{\n${lines.map((line) => `${indent}  ${line}`).join(',\n')}\n${indent}}`
  const entries = sorted(servers).map(([id, pins]) => {
    const tools = sorted(pins).map(([name, entry]) => `${ascii(name)}: ${JSON.stringify(entry)}`)
    return `${ascii(id)}: ${block(tools, '    ')}`
  })
  return `{\n  "version": ${VERSION},\n  "servers": ${block(entries, '  ')}\n}\n`
}

/** A JSON string in which nothing can hide: a name that looks like another one is seen in a diff. */
const ascii = (text: string): string =>
  JSON.stringify(text).replaceAll(/[^\x20-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)

const absent = (error: unknown): undefined => {
  if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  return undefined
}

const sha256 = (data: string | Uint8Array): string => hash('sha256', data)
const CIPHER = 'aes-256-gcm'
const KEY_BYTES = 32
const NONCE_BYTES = 12
const SECRET_HEX = 2 * (KEY_BYTES + NONCE_BYTES)

/**
 * A secret, then what GMAC makes of it and these bytes, in hex: a tenth of the time of SHA-256, which counts where there are
 * ten thousand pins. As safe, because the secret is used once and nobody else reads where it is kept.
 */
function markOf(bytes: Uint8Array, secret: Buffer = randomBytes(KEY_BYTES + NONCE_BYTES)): string {
  const cipher = createCipheriv(CIPHER, secret.subarray(0, KEY_BYTES), secret.subarray(KEY_BYTES))
  cipher.setAAD(bytes)
  cipher.final()
  return secret.toString('hex') + cipher.getAuthTag().toString('hex')
}

/** @param mark as it was read from a file, so it may be anything */
const isMarked = (bytes: Uint8Array, mark: unknown): boolean =>
  typeof mark === 'string' &&
  /^[0-9a-f]{120}$/.test(mark) &&
  markOf(bytes, Buffer.from(mark.slice(0, SECRET_HEX), 'hex')) === mark
const keyOf = (file: string): string => sha256(file).slice(0, 32)
const digestOf = (pins: Pins): string => sha256(JSON.stringify([...pins].sort(([a], [b]) => (a < b ? -1 : 1))))

function bytesOf(file: string): Buffer | undefined {
  try {
    return readFileSync(file)
  } catch (error) {
    return absent(error)
  }
}

/** Undefined also for a file that cannot be opened, which whoever loads it says. */
function readable(file: string): Buffer | undefined {
  try {
    return bytesOf(file)
  } catch {
    return undefined
  }
}

function textOf(file: string): string | undefined {
  return bytesOf(file)?.toString('utf8')
}

/** One writer at a time among all processes; a guard left by one that died is taken over. */
async function enter(file: string): Promise<() => Promise<void>> {
  const guard = `${file}.writing`
  const leave = (): Promise<void> => rm(guard, { force: true })
  for (let left = GUARD.tries; ; left--) {
    try {
      await (await open(guard, 'wx')).close()
      return leave
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
      const since = (await stat(guard).catch(() => undefined))?.mtimeMs
      if (since !== undefined && Date.now() - since > GUARD.staleMs) await leave()
      else if (left === 0) throw new Error(`${basename(guard)} is in the way`)
      else await sleep(GUARD.waitMs)
    }
  }
}

async function replace(file: string, text: string): Promise<void> {
  // Through a link, so that the link stays one.
  const target = realpath(file)
  const temporary = `${target}.${process.pid}.tmp`
  try {
    await writeFile(temporary, text)
    await rename(temporary, target)
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => undefined)
    throw error
  }
}

function realpath(file: string): string {
  try {
    return realpathSync(file)
  } catch {
    return file
  }
}
