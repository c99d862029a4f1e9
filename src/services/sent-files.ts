import { randomBytes } from 'node:crypto'
import type { Caller, SentFile } from '../core/caller.ts'
import type { Clock } from '../core/clock.ts'

const SCHEME = 'sentfile://'

/** Files that tools have sent, kept for a while for one principal and profile. */
export interface SentFiles {
  /** Keeps a file. Returns its URI, or undefined if it is larger than the whole store. */
  keep(owner: Pick<Caller, 'principal' | 'profile'>, file: SentFile): string | undefined
  /** Undefined if the file is gone or belongs to another principal. */
  read(owner: Pick<Caller, 'principal' | 'profile'>, uri: string): KeptFile | undefined
  readonly bytes: number
  close(): void
}

export interface KeptFile {
  readonly bytes: Uint8Array
  readonly mimetype: string
}

interface StoredFile extends KeptFile {
  readonly principal: string
  readonly profile: string
  readonly until: number
}

export const isSentFile = (uri: string): boolean => uri.startsWith(SCHEME)

export const bytesOf = ({ data }: Pick<SentFile, 'data'>): Buffer =>
  typeof data === 'string' ? Buffer.from(data) : Buffer.from(data.buffer, data.byteOffset, data.byteLength)

export function createSentFiles(options: {
  readonly clock: Clock
  readonly keepMs: number
  readonly maxBytes: number
}): SentFiles {
  const { clock, keepMs, maxBytes } = options
  // Oldest first.
  const files = new Map<string, StoredFile>()
  let total = 0
  let cancel: (() => void) | undefined

  function drop(uri: string, file: StoredFile): void {
    if (files.delete(uri)) total -= file.bytes.length
  }

  /**
   * Deletes the oldest files of the principal with the most data, so that a principal can only displace its own files.
   */
  function makeRoom(principal: string, needed: number): void {
    while (total + needed > maxBytes) {
      const bytesByPrincipal = new Map<string, number>()
      for (const file of files.values()) {
        const before = bytesByPrincipal.get(file.principal) ?? (file.principal === principal ? needed : 0)
        bytesByPrincipal.set(file.principal, before + file.bytes.length)
      }
      const most = Math.max(...bytesByPrincipal.values())
      for (const [uri, file] of files)
        if (bytesByPrincipal.get(file.principal) === most) {
          drop(uri, file)
          break
        }
    }
  }

  function sweep(): void {
    cancel = undefined
    const now = clock.now()
    for (const [uri, file] of files) {
      if (file.until > now) break
      drop(uri, file)
    }
    const oldest = files.values().next().value
    if (oldest) cancel = clock.after(Math.max(1, oldest.until - now), sweep)
  }

  return {
    keep({ principal, profile }, file) {
      // A copy, because the sender may reuse its memory.
      const bytes = Uint8Array.from(bytesOf(file))
      if (bytes.length > maxBytes) return undefined
      makeRoom(principal, bytes.length)
      const uri = `${SCHEME}${randomBytes(16).toString('base64url')}`
      files.set(uri, { bytes, mimetype: file.mimetype, principal, profile, until: clock.now() + keepMs })
      total += bytes.length
      cancel ??= clock.after(keepMs, sweep)
      return uri
    },
    read({ principal, profile }, uri) {
      const file = files.get(uri)
      return file && file.principal === principal && file.profile === profile && file.until > clock.now()
        ? file
        : undefined
    },
    get bytes() {
      return total
    },
    close() {
      cancel?.()
      files.clear()
      total = 0
    },
  }
}
