import { join } from 'node:path'
import type { Environment } from '../../programs/spawn.ts'
import { openKeyring } from './keyring.ts'
import { createTokenStore, type TokenStore } from './store.ts'

/** The logins of this installation: in `auth` below the state folder, secrets in the keyring where there is one. */
export async function openTokenStore(
  stateDir: string,
  environment: Environment,
  warn: (message: string) => void,
): Promise<TokenStore> {
  return createTokenStore(join(stateDir, 'auth'), await openKeyring(environment), warn)
}
