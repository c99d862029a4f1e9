import { createHash, hash } from 'node:crypto'
import { closeSync, openSync, readFileSync, readSync, realpathSync } from 'node:fs'
import { basename, dirname, join, parse } from 'node:path'
import { systemClock } from '../core/clock.ts'
import { createDebouncer } from '../core/debouncer.ts'
import { messageOf } from '../core/errors.ts'
import { isRecord } from '../core/is-record.ts'
import type { Log } from '../core/log.ts'
import { replaceFile } from '../core/replace-file.ts'
import { exclusively } from '../state/file-lock.ts'
import type { FileStore } from '../state/file-store.ts'

/** The decision for each tool: its fingerprint, or `rejected ` and its fingerprint. */
export type Pins = ReadonlyMap<string, string>
export type PinsByServer = Map<string, Map<string, string>>

/** The record of approvals, in a file that is committed beside the configuration. */
export interface Lock {
  /** Why nothing new can be approved: the file exists but cannot be parsed. */
  readonly broken: string | undefined
  /** Why the file does not contain the latest decisions. */
  readonly unsaved: string | undefined
  /** Undefined for a server that was never assessed. */
  pins(server: string): Pins | undefined
  /** Hash of all pins of a server, in hex. Undefined if there are none, or while the file cannot be parsed. */
  digest(server: string): string | undefined
  /** Changes memory now and the file soon. `apply` may run again on a newer file, at another time. */
  change(apply: (servers: PinsByServer) => void): void
  /** Reads the file again. @returns whether anything changed */
  reread(): boolean
  /** Resolves when the file contains all changes. */
  flush(): Promise<void>
}

/** Digests of a file that was read and valid; `digest` answers from these without reading it again. */
export interface LockDigests {
  /** SHA-256 of the file's text, in hex. */
  readonly text: string
  readonly servers: Readonly<Record<string, string>>
}

export interface LockOptions {
  /** Absolute path. Undefined: decisions are kept in memory only. */
  readonly file: string | undefined
  readonly log: Log
  /** Storage for digests of the last run, by path of the lock file. */
  readonly digests?: FileStore<LockDigests> | undefined
  /** Called when the file turned out to differ from memory. */
  readonly onChange?: () => void
}

export const LOCK_NAME = 'pegboard.lock.json'
/**
 * The lock file is next to the configuration and meant to be committed with it; without a configuration there is
 * none. A configuration with another name has its own lock file: `mcp.json` has `mcp.pegboard.lock.json`.
 */
export function lockFile(configuration: string | undefined): string | undefined {
  if (configuration === undefined) return undefined
  const name = basename(configuration)
  return join(dirname(configuration), name === 'mcp.config.json' ? LOCK_NAME : `${parse(name).name}.${LOCK_NAME}`)
}

const VERSION = 1
/** Length of a fingerprint in hex, alone and after `rejected `. */
const LENGTHS: ReadonlySet<number> = new Set([64, 73])
const PART_BYTES = 64 * 1024
const SAVE_DELAY = { quietMs: 100, longestMs: 1_000 }

export function createLock({ file, log, digests, onChange = () => undefined }: LockOptions): Lock {
  let memory: PinsByServer = new Map()
  /** The file's text when it was last read or written. */
  let text: string | undefined
  let broken: string | undefined
  let hasLoaded = false
  /** Digests of a valid file that has not changed since, so that ten thousand pins need not be read. */
  let knownDigests: LockDigests | undefined
  let hasChecked = false
  let pending: Array<(servers: PinsByServer) => void> = []
  let saving: Promise<void> = Promise.resolve()
  let unsaved: string | undefined
  // Fifty servers are written together.
  const saveLater = createDebouncer(systemClock, SAVE_DELAY.quietMs, SAVE_DELAY.longestMs)

  /**
   * Loads the file. If it cannot be parsed, memory stays as it is and the problem is recorded.
   * @returns whether the text changed
   */
  function parseFile(path: string): boolean {
    const previousText = text
    try {
      // A folder in its place, or an unreadable file, is treated like a damaged one.
      const newText = readIfExists(path)
      // Memory is the file's content plus pending changes.
      if (newText === text && broken === undefined) return false
      const servers = newText === undefined ? new Map() : parseLock(newText)
      text = newText
      for (const apply of pending) apply(servers)
      memory = servers
      broken = undefined
    } catch (error) {
      const problem = `${basename(path)} cannot be read: ${messageOf(error)}`
      if (broken !== problem) log.error(`${problem}; Pegboard approves no new tools until it is repaired`)
      broken = problem
    }
    return previousText !== text
  }

  function load(): void {
    if (hasLoaded) return
    hasLoaded = true
    if (file === undefined) return
    parseFile(file)
    if (dropDigests()) queueMicrotask(onChange)
    saving = saving.then(storeDigests)
  }

  /** True if the file, read now, differs from its digests. The digests are dropped either way. */
  function dropDigests(): boolean {
    const dropped = knownDigests
    knownDigests = undefined
    return dropped !== undefined && (broken !== undefined || text === undefined || sha256(text) !== dropped.text)
  }

  /** True if the file is unchanged since its digests were stored. */
  function isUnchanged(): boolean {
    if (!hasChecked && !hasLoaded && file !== undefined) {
      const storedDigests = digests?.get(keyOf(file))
      if (storedDigests && hashFile(file) === storedDigests.text && isRecord(storedDigests.servers))
        knownDigests = storedDigests
    }
    hasChecked = true
    return knownDigests !== undefined
  }

  function storeDigests(): void {
    if (file === undefined || digests === undefined || text === undefined || broken !== undefined) return
    if (pending.length > 0) return
    const servers = Object.fromEntries([...memory].map(([id, pins]) => [id, digestOf(pins)]))
    digests.set(keyOf(file), { text: sha256(text), servers })
  }

  function startSaving(path: string): void {
    saving = saving
      .then(() => save(path))
      .catch((error: unknown) => {
        pending = []
        const problem = `${basename(path)} cannot be written: ${messageOf(error)}`
        if (unsaved === undefined) log.warn(`${problem}; approvals are lost when Pegboard stops`)
        unsaved = problem
      })
  }

  async function save(path: string): Promise<void> {
    if (pending.length === 0) return
    const guardFile = `${path}.writing`
    await exclusively(
      guardFile,
      async () => {
        const previousText = text
        parseFile(path)
        if (broken !== undefined) return
        pending = []
        const newText = formatLock(memory)
        const isChangedByOthers = text !== previousText
        // Resolves links, so that a linked lock file stays a link.
        if (newText !== text) await replaceFile(resolveLinks(path), newText, 0o666)
        text = newText
        unsaved = undefined
        storeDigests()
        if (isChangedByOthers) onChange()
      },
      () => {
        throw new Error(`another process holds ${basename(guardFile)}`)
      },
    )
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
      if (isUnchanged())
        return knownDigests && Object.hasOwn(knownDigests.servers, server) ? knownDigests.servers[server] : undefined
      load()
      const pins = memory.get(server)
      return pins && broken === undefined ? digestOf(pins) : undefined
    },
    change(apply) {
      load()
      apply(memory)
      if (file === undefined) return
      pending.push(apply)
      saveLater.schedule(file, () => startSaving(file))
    },
    reread() {
      hasLoaded = true
      if (file === undefined) return false
      const hadDigests = knownDigests !== undefined
      const isChanged = parseFile(file)
      return hadDigests ? dropDigests() : isChanged
    },
    async flush() {
      saveLater.flush()
      await saving
    },
  }
}

/** @throws Error that says what is wrong */
export function parseLock(text: string): PinsByServer {
  const content = parseJson(text) as { version?: unknown; servers?: unknown } | null
  if (typeof content !== 'object' || content === null) throw new Error('it is not an object')
  if (content.version !== VERSION)
    throw new Error(`its version is not ${VERSION}; a newer Pegboard may have written it`)
  if (typeof content.servers !== 'object' || content.servers === null) throw new Error('it has no servers')
  return new Map(
    Object.entries(content.servers).map(([id, tools]) => {
      if (typeof tools !== 'object' || tools === null) throw new Error(`servers.${id} is not an object`)
      const pins = Object.entries(tools)
      // Ten thousand pins are read at every start, so only lengths are checked: a wrong value of the right length
      // matches no tool.
      for (const [name, entry] of pins)
        if (typeof entry !== 'string' || !LENGTHS.has(entry.length))
          throw new Error(`servers.${id}.${name} is not a fingerprint`)
      return [id, new Map(pins as Array<[string, string]>)]
    }),
  )
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    if (/^(<{7}|={7}|>{7})/m.test(text)) throw new Error('it has conflict markers of a merge')
    throw error
  }
}

/** One tool per line, sorted, so that a diff shows only what changed. */
export function formatLock(servers: ReadonlyMap<string, Pins>): string {
  const sortEntries = <Value>(map: ReadonlyMap<string, Value>): Array<[string, Value]> =>
    [...map].sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
  const formatBlock = (lines: readonly string[], indent: string): string =>
    lines.length === 0 ? '{}' : `{\n${lines.map((line) => `${indent}  ${line}`).join(',\n')}\n${indent}}`
  const entries = sortEntries(servers).map(([id, pins]) => {
    const tools = sortEntries(pins).map(([name, entry]) => `${toAsciiJson(name)}: ${JSON.stringify(entry)}`)
    return `${toAsciiJson(id)}: ${formatBlock(tools, '    ')}`
  })
  return `{\n  "version": ${VERSION},\n  "servers": ${formatBlock(entries, '  ')}\n}\n`
}

/** An ASCII-only JSON string, so that look-alike names are visible in a diff. */
const toAsciiJson = (text: string): string =>
  JSON.stringify(text).replaceAll(/[^\x20-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)

const sha256 = (data: string | Uint8Array): string => hash('sha256', data)
const keyOf = (file: string): string => sha256(file).slice(0, 32)
const digestOf = (pins: Pins): string => sha256(JSON.stringify([...pins].sort(([a], [b]) => (a < b ? -1 : 1))))

/**
 * SHA-256 of a file in hex. Undefined if the file cannot be read; the caller that loads it reports that. It is read in
 * parts, because the C library keeps the 1 MB that the whole lock file of fifty servers would take.
 */
function hashFile(file: string): string | undefined {
  let descriptor: number | undefined
  try {
    descriptor = openSync(file, 'r')
    const sum = createHash('sha256')
    const part = Buffer.allocUnsafe(PART_BYTES)
    for (;;) {
      const length = readSync(descriptor, part)
      if (length === 0) return sum.digest('hex')
      sum.update(part.subarray(0, length))
    }
  } catch {
    return undefined
  } finally {
    if (descriptor !== undefined) closeSync(descriptor)
  }
}

function readIfExists(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

function resolveLinks(file: string): string {
  try {
    return realpathSync(file)
  } catch {
    return file
  }
}
