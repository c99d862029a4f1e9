import { statfsSync, statSync } from 'node:fs'
import { PegboardError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'

/** What there is to know of a folder: its mode, and the magic number of its file system. */
export type FolderLook = (folder: string) => { readonly mode: number; readonly fileSystem: number }

export const lookAt: FolderLook = (folder) => ({ mode: statSync(folder).mode, fileSystem: statfsSync(folder).type })

/** File systems that other machines may write at the same time, by the numbers Linux has for them. */
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
 * Whether a folder is one to keep state in. Others who may write to it are a warning; Windows has no such rights.
 * @throws PegboardError E_STATE on a network file system: what holds a file for one process at a time does not work there
 */
export function checkFolder(folder: string, log: Pick<Log, 'warn'>, look: FolderLook): void {
  const { mode, fileSystem } = look(folder)
  const network = process.platform === 'linux' ? NETWORK.get(fileSystem >>> 0) : undefined
  if (network !== undefined)
    throw new PegboardError('E_STATE', `The state folder ${folder} is on a network file system (${network}).`, {
      hint: 'Set dirs.state to a local folder; several machines share state with state.url, which names a Redis.',
    })
  if (process.platform !== 'win32' && (mode & 0o022) !== 0)
    log.warn('others may write to the state folder, and decide so what is done later', {
      folder,
      next: `chmod 700 ${folder}`,
    })
}
