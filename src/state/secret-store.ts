import { randomUUID } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { messageOf, PegboardError } from '../core/errors.ts'
import { isRecord } from '../core/is-record.ts'
import { readPrivateFile } from '../core/private-file.ts'
import { replaceFile } from '../core/replace-file.ts'
import { tryParseJson } from '../core/try-parse-json.ts'
import { exclusively } from './file-lock.ts'
import { deletePieces, getPieces, type Keyring, openKeyring, setPieces } from './keyring.ts'

/** Secrets that the configuration names as `${keyring:NAME}`. */
export interface SecretStore {
  /** Undefined if there is none. @throws PegboardError E_STATE if it cannot be read, such as from a locked keyring */
  get(name: string): Promise<string | undefined>
  /** @returns where the secret is now */
  set(name: string, secret: string): Promise<SecretPlace>
  /** @returns false if there was none */
  delete(name: string): Promise<boolean>
  /** Sorted by name. Reads no secrets. */
  list(): Promise<ReadonlyArray<{ readonly name: string; readonly place: SecretPlace }>>
}

export type SecretPlace = 'keyring' | 'file'

/** `pieces`: the secret is in the keyring. */
type Entry = { readonly pieces: number } | { readonly value: string }

export const SECRET_NAME = /^[A-Za-z_][\w.-]{0,127}$/

export const secretsFile = (stateDir: string): string => join(stateDir, 'secrets.json')

export const openSecretStore = async (
  stateDir: string,
  environment: Readonly<Record<string, string | undefined>>,
  warn: (message: string) => void,
): Promise<SecretStore> => createSecretStore(secretsFile(stateDir), await openKeyring(environment), warn)

/** Reads secrets by name. One that cannot be read counts as missing, with a warning. */
export async function readNamedSecrets(
  stateDir: string,
  environment: Readonly<Record<string, string | undefined>>,
  names: readonly string[],
  warn: (message: string) => void,
): Promise<ReadonlyMap<string, string>> {
  const store = await openSecretStore(stateDir, environment, warn)
  const found = new Map<string, string>()
  for (const name of names) {
    try {
      const secret = await store.get(name)
      if (secret !== undefined) found.set(name, secret)
    } catch (error) {
      warn(messageOf(error))
    }
  }
  return found
}

/**
 * Keeps names in a file of mode 0600. Secrets go to the keyring if there is one, and to the file only if the keyring
 * refuses them.
 * @param warn called when the keyring cannot be used
 */
export function createSecretStore(
  file: string,
  keyring: Keyring | undefined,
  warn: (message: string) => void,
): SecretStore {
  const keyOf = (name: string): string => `secret.${name}`

  async function change<T>(work: (entries: Map<string, Entry>) => Promise<T>): Promise<T> {
    await mkdir(dirname(file), { recursive: true, mode: 0o700 })
    return exclusively(
      `${file}.lock`,
      async () => {
        const entries = await readEntries(file)
        const result = await work(entries)
        const secrets = Object.fromEntries([...entries].sort(([a], [b]) => (a < b ? -1 : 1)))
        // A running Pegboard watches the file, which would be the same for a new value in the keyring.
        await replaceFile(file, `${JSON.stringify({ format: 1, revision: randomUUID(), secrets }, null, 2)}\n`)
        return result
      },
      () => {
        throw new PegboardError('E_STATE', 'Another Pegboard is changing secrets.', { hint: 'Try again.' })
      },
    )
  }

  async function keep(name: string, secret: string): Promise<Entry> {
    if (!keyring) return { value: secret }
    try {
      return { pieces: await setPieces(keyring, keyOf(name), secret) }
    } catch (error) {
      warn(`the keyring of this system cannot be used, so the secret is kept in a private file: ${messageOf(error)}`)
      return { value: secret }
    }
  }

  return {
    async get(name) {
      const entry = (await readEntries(file)).get(name)
      if (!entry) return undefined
      if ('value' in entry) return entry.value
      if (!keyring) throw unreadable(name, 'it is in the keyring of this system, which is not available')
      try {
        return await getPieces(keyring, keyOf(name), entry.pieces)
      } catch (error) {
        throw unreadable(name, messageOf(error))
      }
    },
    set: (name, secret) =>
      change(async (entries) => {
        const before = entries.get(name)
        const entry = await keep(name, secret)
        // A shorter secret leaves pieces of the old one.
        const pieceCount = 'pieces' in entry ? entry.pieces : 0
        if (keyring && before && 'pieces' in before)
          for (let at = pieceCount; at < before.pieces; at++)
            await keyring.delete(`${keyOf(name)}.${at}`).catch(() => undefined)
        entries.set(name, entry)
        return placeOf(entry)
      }),
    delete: (name) =>
      change(async (entries) => {
        const entry = entries.get(name)
        if (keyring && entry && 'pieces' in entry) await deletePieces(keyring, keyOf(name), entry.pieces)
        return entries.delete(name)
      }),
    list: async () => [...(await readEntries(file))].map(([name, entry]) => ({ name, place: placeOf(entry) })),
  }
}

const placeOf = (entry: Entry): SecretPlace => ('pieces' in entry ? 'keyring' : 'file')

const unreadable = (name: string, why: string): PegboardError =>
  new PegboardError('E_STATE', `The secret ${name} cannot be read: ${why}.`, {
    hint: 'Unlock the keyring, or set the secret again with pegboard secret set.',
  })

async function readEntries(file: string): Promise<Map<string, Entry>> {
  const text = await readPrivateFile(file).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw new PegboardError('E_STATE', `${file} cannot be read: ${messageOf(error)}.`)
  })
  if (text === undefined) return new Map()
  const read = tryParseJson(text)
  if (!isRecord(read) || !isRecord(read['secrets']))
    throw new PegboardError('E_STATE', `${file} is damaged.`, {
      hint: 'Restore the file, or delete it and set the secrets again.',
    })
  return new Map(Object.entries(read['secrets']) as Array<[string, Entry]>)
}
