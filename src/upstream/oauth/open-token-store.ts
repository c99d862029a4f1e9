import { join } from 'node:path'
import type { Environment } from '../../programs/spawn.ts'
import { openKeyring } from '../../state/keyring.ts'
import { createTokenStore, type TokenStore } from './grant-store.ts'

/** The logins of this installation: in `auth` in the state folder, with secrets in the keyring if there is one. */
export async function openTokenStore(
  stateDir: string,
  environment: Environment,
  warn: (message: string) => void,
): Promise<TokenStore> {
  return createTokenStore(join(stateDir, 'auth'), await openKeyring(environment), warn)
}
