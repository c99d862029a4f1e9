type Environment = Readonly<Record<string, string | undefined>>

/** The operating system's secret storage: Keychain, Credential Manager, Secret Service. */
export interface Keyring {
  /** Undefined if there is no such entry. @throws if it is locked or does not answer */
  get(name: string): Promise<string | undefined>
  set(name: string, secret: string): Promise<void>
  delete(name: string): Promise<void>
}

const SERVICE = 'pegboard'
// A locked keyring may wait for a person who is not there.
const ANSWER_MS = 5_000
// Windows stores at most 2,560 bytes per entry, two per character.
const PIECE = 1_000

/**
 * The system's keyring through the optional package `@napi-rs/keyring`. Undefined without the package, or with
 * PEGBOARD_KEYRING=off. Whether a keyring exists is known only when it is used.
 */
export async function openKeyring(environment: Environment): Promise<Keyring | undefined> {
  if (environment['PEGBOARD_KEYRING'] === 'off') return undefined
  const library = await import('@napi-rs/keyring').catch(() => undefined)
  if (!library) return undefined
  // Not the Linux kernel keyring, which forgets at the end of the session.
  const entry = (name: string) => new library.AsyncEntry(SERVICE, name, { linux: { store: 'secret-service' as never } })
  const limit = (): AbortSignal => AbortSignal.timeout(ANSWER_MS)
  return {
    get: async (name) => (await withTimeLimit(entry(name).getPassword(limit()))) ?? undefined,
    set: (name, secret) => withTimeLimit(entry(name).setPassword(secret, limit())),
    async delete(name) {
      await withTimeLimit(entry(name).deletePassword(limit()))
    },
  }
}

/** The library may not return from a cancelled call. */
function withTimeLimit<T>(work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error('the keyring of this system did not answer')), ANSWER_MS + 500)
    work.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}

/** Stores a secret of any length in pieces `name.0`, `name.1` … @returns the number of pieces */
export async function setPieces(keyring: Keyring, name: string, secret: string): Promise<number> {
  const pieces = Math.ceil(secret.length / PIECE)
  for (let at = 0; at < pieces; at++) await keyring.set(`${name}.${at}`, secret.slice(at * PIECE, (at + 1) * PIECE))
  return pieces
}

/** Undefined if a piece is missing. */
export async function getPieces(keyring: Keyring, name: string, pieces: number): Promise<string | undefined> {
  const parts = await Promise.all(Array.from({ length: pieces }, (_, at) => keyring.get(`${name}.${at}`)))
  return parts.some((part) => part === undefined) ? undefined : parts.join('')
}

export async function deletePieces(keyring: Keyring, name: string, pieces: number): Promise<void> {
  await Promise.allSettled(Array.from({ length: pieces }, (_, at) => keyring.delete(`${name}.${at}`)))
}
