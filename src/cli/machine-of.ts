import { defaultDirs, type Machine } from '../config/machine.ts'
import type { Io } from './io.ts'

/** The machine of a command, for reading the configuration. */
export const machineOf = (io: Io): Machine => ({
  env: io.env,
  cwd: io.cwd,
  self: io.self.script,
  async readSecrets(names) {
    // Few configurations name secrets, and a client waits for the start.
    const { readNamedSecrets } = await import('../state/secret-store.ts')
    return readNamedSecrets(setupDir(io), io.env, names, (message) => io.stderr(`pegboard: warning: ${message}\n`))
  },
})

/**
 * Folder of secrets and of what `pegboard undo` needs. It does not depend on the configuration, which may name secrets.
 */
export const setupDir = (io: Pick<Io, 'env' | 'cwd'>): string => defaultDirs({ env: io.env, cwd: io.cwd }, io.cwd).state
