import { randomUUID } from 'node:crypto'
import { link, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { isProcessAlive } from '../core/is-process-alive.ts'

const LOCK_MS = { poll: 50, wait: 20_000, stale: 40_000 }

/**
 * Runs `work` while holding a lock file that names this process. A lock left behind by a process that died is
 * removed: MCP clients often start a server, ask for its protocol and kill it.
 * @param tooLong throws the error for a lock that another process holds for twenty seconds
 */
export async function exclusively<T>(file: string, work: () => Promise<T>, tooLong: () => never): Promise<T> {
  const unlock = await lock(file, tooLong)
  try {
    return await work()
  } finally {
    await unlock()
  }
}

async function lock(file: string, tooLong: () => never): Promise<() => Promise<void>> {
  const until = Date.now() + LOCK_MS.wait
  for (;;) {
    try {
      await writeFile(file, `${process.pid} ${hostname()}`, { mode: 0o600, flag: 'wx' })
      return () => rm(file, { force: true })
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
    const stats = await stat(file).catch(() => undefined)
    // Opening a pipe would block until it has a writer.
    const holder = stats?.isFile() ? await readFile(file, 'utf8').catch(() => '') : ''
    if (isDead(holder) || (stats && Date.now() - stats.mtimeMs > LOCK_MS.stale)) await removeStaleLock(file, holder)
    else if (Date.now() > until) tooLong()
    else await new Promise((resolve) => setTimeout(resolve, LOCK_MS.poll))
  }
}

/** Processes of other machines and containers that share the folder cannot be seen from here. */
function isDead(holder: string): boolean {
  const [pid = '', host] = holder.split(' ')
  return host === hostname() && /^[1-9]\d*$/.test(pid) && !isProcessAlive(Number(pid))
}

/** Two processes may find the same dead lock. If the other one has already replaced it, its lock is put back. */
async function removeStaleLock(file: string, holder: string): Promise<void> {
  const aside = `${file}.${randomUUID().slice(0, 8)}.tmp`
  try {
    await rename(file, aside)
    if ((await readFile(aside, 'utf8')) !== holder) await link(aside, file)
  } catch (error) {
    if (!['ENOENT', 'EEXIST'].includes(String((error as NodeJS.ErrnoException).code))) throw error
  } finally {
    await rm(aside, { force: true })
  }
}
