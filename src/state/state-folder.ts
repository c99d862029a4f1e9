import { statfsSync, statSync } from 'node:fs'
import { PegboardError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'

/** The permissions of a folder and the magic number of its file system. */
export type StatFolder = (folder: string) => { readonly mode: number; readonly fileSystem: number }

export const statFolder: StatFolder = (folder) => ({ mode: statSync(folder).mode, fileSystem: statfsSync(folder).type })

/** Linux magic numbers of file systems that other machines can write to at the same time. */
const NETWORK: ReadonlyMap<number, string> = new Map([
  [0x6969, 'NFS'],
  [0x517b, 'SMB'],
  [0xff534d42, 'CIFS'],
  [0xfe534d42, 'SMB'],
  [0x00c36400, 'Ceph'],
  [0x0bd00bd0, 'Lustre'],
  [0x5346414f, 'AFS'],
  [0x47504653, 'GPFS'],
])

/**
 * Checks the folder of the state files. Logs a warning if other users may write to it (Windows has no such
 * permissions).
 * @throws PegboardError E_STATE on a network file system, where file locks do not work
 */
export function checkFolder(folder: string, log: Pick<Log, 'warn'>, look: StatFolder): void {
  const { mode, fileSystem } = look(folder)
  const network = process.platform === 'linux' ? NETWORK.get(fileSystem >>> 0) : undefined
  if (network !== undefined)
    throw new PegboardError('E_STATE', `The state folder ${folder} is on a network file system (${network}).`, {
      hint: 'Set dirs.state to a local folder; several machines share state with state.url, which names a Redis.',
    })
  if (process.platform !== 'win32' && (mode & 0o022) !== 0)
    log.warn('other users can write to the state folder, and so change scheduled work', {
      folder,
      next: `chmod 700 ${folder}`,
    })
}
