import type { Kv } from 'pegboard'
import type { Download, DownloadOrder } from './downloads.ts'

/** A stored download, which outlives its process. Logins are stored by name only. */
export interface StoredDownload {
  readonly owner: string
  /** The owner, to check its access. */
  readonly by: unknown
  readonly order: DownloadOrder
  /** The server's identifier of the file; without one the download restarts from the beginning. */
  readonly mark?: string
  readonly state: Download
}

/** Stored downloads, in the module's key-value store. */
export interface DownloadStore {
  save(stored: StoredDownload): Promise<void>
  get(id: string): Promise<StoredDownload | undefined>
  list(): Promise<readonly StoredDownload[]>
  /** False while another process works on it. A claim expires soon after its process has ended. */
  claim(id: string): Promise<boolean>
  renew(id: string): Promise<void>
  release(id: string): Promise<void>
}

/** Seconds for which a finished download is remembered. */
const KEEP_S = 60 * 60
/** Seconds after which a claim expires unless renewed. */
export const CLAIM_S = 6
const PREFIX = 'download:'

export function createDownloadStore(kv: Kv, now: () => number = () => Date.now()): DownloadStore {
  const claimKey = (id: string): string => `claim:${id}`
  return {
    async save(stored) {
      const isRunning = stored.state.status === 'running'
      const ttl = isRunning ? Math.max(0, Math.ceil((stored.order.endsAt - now()) / 1000)) + KEEP_S : KEEP_S
      await kv.set(PREFIX + stored.state.download_id, stored, { ttl })
    },
    async get(id) {
      return ((await kv.get(PREFIX + id)) as StoredDownload | null) ?? undefined
    },
    async list() {
      const entries = await Promise.all((await kv.keys(PREFIX)).map((key) => kv.get(key)))
      return entries.flatMap((stored) => (stored === null ? [] : [stored as StoredDownload]))
    },
    async claim(id) {
      if ((await kv.incr(claimKey(id))) > 1) return false
      await kv.expire(claimKey(id), CLAIM_S)
      return true
    },
    async renew(id) {
      await kv.expire(claimKey(id), CLAIM_S)
    },
    async release(id) {
      await kv.del(claimKey(id))
    },
  }
}
