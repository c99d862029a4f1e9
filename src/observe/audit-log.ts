import { createHmac } from 'node:crypto'
import { type FileHandle, mkdir, open, rename, rm, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { toCanonicalJson } from '../core/canonical.ts'
import type { Clock } from '../core/clock.ts'
import { messageOf } from '../core/errors.ts'
import type { Json } from '../core/is-record.ts'
import { jsonLine, type Log } from '../core/log.ts'
import { once } from '../core/once.ts'
import { describeShape, previewValue } from '../core/value-preview.ts'
import { type Anchors, createAnchors } from './audit-anchor.ts'
import { createHashChain } from './hash-chain.ts'
import type { AuditSettings } from './telemetry-options.ts'

/** What is recorded about a call, or about a decision on one. */
export interface AuditEntry {
  /** `call` once for every call, at its end; the others when they happen. */
  readonly event: 'call' | 'ask' | 'accept' | 'decline' | 'unanswered'
  readonly callId: string
  /** Id of the tool, or the name the caller used if there is no such tool. */
  readonly tool: string
  readonly principal: string
  readonly profile: string
  readonly [field: string]: unknown
}

/** A file of JSON lines. Callers never wait for a write and get no errors from it. */
export interface Audit {
  write(entry: AuditEntry): void
  /**
   * What is recorded about arguments: their shape, their size as JSON in bytes, and a keyed digest. The key prevents
   * finding short arguments by trying.
   */
  argumentsOf(input: unknown): { readonly arguments: unknown; readonly bytesIn: number; readonly digest: string }
  /** Number of lines that were dropped because too many were waiting. */
  readonly dropped: number
  /** Resolves when all lines so far are in the file or could not be written. */
  flush(): Promise<void>
}

export interface AuditOptions extends Omit<AuditSettings, 'enabled' | 'file'> {
  /** Absolute path. */
  readonly file: string
  readonly clock: Clock
  readonly log: Log
  /** Secret that stays the same after a restart. Called for the first line. */
  readonly key: () => Buffer
  /** Stores the key if that has failed so far. Called before lines are written. */
  readonly storeKey?: () => void
  /** Folder for anchors, which record where the log ends. Absent: no anchors. */
  readonly anchorDir?: string
  /** Removes secrets from a line; default removes nothing. */
  readonly hide?: (text: string) => string
  /** Maximum number of characters waiting to be written; default 16 Mi. */
  readonly maxWaiting?: number
}

const MAX_WAITING = 16 * 1024 * 1024
const BATCH = 512 * 1024
const RETRY_MS = 1_000

export function createAudit(options: AuditOptions): Audit {
  const { file, maxBytes, keep, clock, log, anchorDir, hide = (text) => text, maxWaiting = MAX_WAITING } = options
  const key = once(options.key)
  const chain = once(() => createHashChain(key()))
  const anchors = once(() => (anchorDir === undefined ? undefined : createAnchors(anchorDir, file, key())))
  let anchorFails = false
  let lines: string[] = []
  let waiting = 0
  let dropped = 0
  let unreported = 0
  let writing: Promise<void> | undefined
  let failing = false
  let cancelRetry: (() => void) | undefined

  function push(fields: Json): void {
    const dated = { time: new Date(clock.now()).toISOString(), ...fields }
    const line = `${chain().sign(dated, (whole) => hide(jsonLine(whole)))}\n`
    lines.push(line)
    waiting += line.length
  }

  function start(): void {
    if (writing || lines.length === 0) return
    writing = drain().finally(() => {
      writing = undefined
    })
  }

  async function drain(): Promise<void> {
    // Lines of one event loop turn are written together.
    await undefined
    while (lines.length > 0) {
      if (unreported > 0) {
        push({ event: 'dropped', lines: unreported })
        unreported = 0
      }
      const batch = lines.slice(0, countFitting(lines, Math.min(BATCH, maxBytes)))
      try {
        await append(batch)
      } catch (error) {
        if (!failing) log.warn('cannot write the audit log', { error: messageOf(error) })
        failing = true
        cancelRetry?.()
        cancelRetry = clock.after(RETRY_MS, start)
        return
      }
      failing = false
    }
  }

  async function append(batch: readonly string[]): Promise<void> {
    options.storeKey?.()
    const bytes = Buffer.from(batch.join(''))
    await mkdir(dirname(file), { recursive: true, mode: 0o700 })
    // Asked each time, because another process may write to the file too.
    const size = await stat(file).then(
      (one) => one.size,
      () => 0,
    )
    if (size > 0 && size + bytes.length > maxBytes) await rotate()
    const handle = await open(file, 'a+', 0o600)
    let done = 0
    try {
      // The previous writer may have been killed in the middle of a line, or the disk was full.
      if (await endsTorn(handle)) await handle.write('\n')
      while (done < bytes.length) done += (await handle.write(bytes, done)).bytesWritten
    } finally {
      const last = forget(batch, done)
      await handle.close()
      if (last !== undefined) await anchored((one) => one.note(last))
    }
  }

  async function anchored(use: (anchors: Anchors) => Promise<void>): Promise<void> {
    const currentAnchors = anchors()
    if (!currentAnchors) return
    try {
      await use(currentAnchors)
      anchorFails = false
    } catch (error) {
      if (!anchorFails) log.warn('cannot store where the audit log ends', { error: messageOf(error) })
      anchorFails = true
    }
  }

  /** Removes the lines that are completely in the file; written twice they would look forged. */
  function forget(batch: readonly string[], bytes: number): string | undefined {
    let left = bytes
    let whole = 0
    for (const line of batch) {
      left -= Buffer.byteLength(line)
      if (left < 0) break
      whole++
      waiting -= line.length
    }
    lines = lines.slice(whole)
    return batch[whole - 1]
  }

  async function rotate(): Promise<void> {
    const oldest = `${file}.${keep}`
    await anchored((one) => one.discard(oldest))
    await rm(oldest, { force: true })
    for (let n = keep - 1; n >= 0; n--)
      await rename(n === 0 ? file : `${file}.${n}`, `${file}.${n + 1}`).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'ENOENT') throw error
      })
  }

  return {
    write(entry) {
      if (waiting < maxWaiting) push(entry)
      else {
        dropped++
        unreported++
      }
      start()
    },
    argumentsOf(input) {
      try {
        const text = toCanonicalJson(input)
        return {
          arguments: options.arguments === 'redacted' ? previewValue(input) : describeShape(input),
          bytesIn: Buffer.byteLength(text),
          digest: createHmac('sha256', key()).update(text).digest('hex'),
        }
      } catch {
        // A module can return values that JSON cannot represent.
        return { arguments: typeof input, bytesIn: 0, digest: '' }
      }
    },
    get dropped() {
      return dropped
    },
    async flush() {
      cancelRetry?.()
      start()
      await writing
      cancelRetry?.()
    },
  }
}

async function endsTorn(handle: FileHandle): Promise<boolean> {
  const { size } = await handle.stat()
  if (size === 0) return false
  const { buffer } = await handle.read(Buffer.alloc(1), 0, 1, size - 1)
  return buffer.toString('latin1') !== '\n'
}

/** Number of lines that fit, at least one. */
function countFitting(lines: readonly string[], max: number): number {
  let size = 0
  for (const [at, line] of lines.entries()) {
    size += Buffer.byteLength(line)
    if (size > max) return Math.max(1, at)
  }
  return lines.length
}
