import { statfs } from 'node:fs/promises'

/** Modules leave this much of a disk free, or a twentieth of a small disk. Pegboard and other programs store their state there. */
const RESERVE_BYTES = 256 * 1024 * 1024
const RESERVE_SHARE = 0.05

/**
 * Checks that a folder's disk has enough space left after this many more bytes (default 0).
 * @throws Error with the code ENOSPC
 */
export async function checkFreeSpace(folder: string, bytes = 0): Promise<void> {
  const { bavail, blocks, bsize } = await statfs(folder)
  if (bavail * bsize - bytes >= Math.min(RESERVE_BYTES, blocks * bsize * RESERVE_SHARE)) return
  throw Object.assign(new Error('the disk is nearly full'), { code: 'ENOSPC' })
}
