import { defaultDirs, type Machine } from '../config/machine.ts'
import type { SecretStore } from '../state/secret-store.ts'
import { type Io, writeWarning } from './io.ts'

/** The machine of a command, for reading the configuration. */
export const machineOf = (io: Io): Machine => ({
  env: io.env,
  cwd: io.cwd,
  self: io.self.script,
  async readSecrets(names) {
    // Few configurations name secrets, and a client waits for the start.
    const { readNamedSecrets } = await import('../state/secret-store.ts')
    return readNamedSecrets(setupDir(io), io.env, names, (message) => writeWarning(io, message))
  },
})

/**
 * Folder of secrets and of what `pegboard undo` needs. It does not depend on the configuration, which may name secrets.
 */
export const setupDir = (io: Pick<Io, 'env' | 'cwd'>): string => defaultDirs({ env: io.env, cwd: io.cwd }, io.cwd).state

/** Loaded on use, because few commands need secrets. */
export async function openSecrets(io: Io): Promise<SecretStore> {
  const { openSecretStore } = await import('../state/secret-store.ts')
  return openSecretStore(setupDir(io), io.env, (message) => writeWarning(io, message))
}
