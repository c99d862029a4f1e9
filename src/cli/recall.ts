import { createCipheriv, createDecipheriv, createHash, hash, randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import type { Loaded } from '../config/load.ts'
import { defaultDirs, type Environment, homeOf, type Machine, pathFrom } from '../config/places.ts'
import { mustEnd } from '../core/regular.ts'
import { createBytesStore } from '../state/files.ts'
import { readOwn } from './own.ts'

/** Names the build; put in by it. What runs from source remembers nothing. */
declare const BUILD: string | undefined
const build = typeof BUILD === 'undefined' ? undefined : BUILD

/** By then the first answers are out. */
const KEEP_MS = 2_000
const NONCE_BYTES = 12
const TAG_BYTES = 16
const CIPHER = 'aes-256-gcm'
const NEWLINE = 0x0a

/**
 * As `loadConfig`, but a file that was read before is not read again while its text, the variables it looked at and this
 * build are the same: checking a configuration takes longer than all else a start does with it. What is kept is sealed with
 * a key made of all that, so nobody can read or make it who does not have the same in hand.
 */
export async function recallConfig(machine: Machine, file: string | undefined): Promise<Loaded> {
  const given = file === undefined || build === undefined ? undefined : textOf(machine, file)
  // Also for saying what is wrong with it.
  if (!given) return (await import('../config/load.ts')).loadConfig(machine, file)
  const { path, text } = given
  const folder = join(defaultDirs(machine, dirname(path)).cache, 'config')
  const name = hash('sha256', path).slice(0, 32)
  const kept = readOwn(join(folder, `${name}.bin`))
  const known = kept && opened(kept, (names) => keyOf(machine, path, text, names))
  if (known) return { ...known, text }

  const looked: Looked = { names: new Set(), all: false }
  const env = watched(machine.env, looked)
  const { readConfig } = await import('../config/load.ts')
  const loaded = readConfig(text, path, { ...machine, env })
  // What more it depends on may change.
  if (!looked.all && !looksAround(loaded))
    setTimeout(() => {
      const names = [...looked.names].sort()
      const bytes = sealed(loaded, names, keyOf(machine, path, text, names))
      if (bytes) createBytesStore(folder).set(name, bytes)
    }, KEEP_MS).unref()
  return loaded
}

/** Which variables a configuration was made with. */
interface Looked {
  readonly names: Set<string>
  /** It may depend on any. */
  all: boolean
}

function textOf(machine: Machine, file: string): { readonly path: string; readonly text: string } | undefined {
  const path = pathFrom(machine.cwd, file, machine)
  try {
    mustEnd(path)
    return { path, text: readFileSync(path, 'utf8') }
  } catch {
    return undefined
  }
}

/** Whether a server may be this very program is seen from where links lead. */
const looksAround = ({ config }: Loaded): boolean =>
  config.skipped.some(({ self }) => self) ||
  Object.values(config.servers).some(({ target }) => target.kind === 'stdio' && target.args.includes('serve'))

/** All that a configuration is made of. */
const keyOf = (machine: Machine, path: string, text: string, names: readonly string[]): Buffer =>
  createHash('sha256')
    .update(
      JSON.stringify([
        ...[build, process.version, machine.platform ?? process.platform, homeOf(machine), machine.cwd, machine.self],
        ...[path, text, names, names.map((name) => machine.env[name])],
      ]),
    )
    .digest()

/** The names of variables, then the rest in a form that needs the key. Undefined for what would not come back the same. */
function sealed({ config, warnings }: Loaded, names: readonly string[], key: Buffer): Buffer | undefined {
  const loaded = { config, warnings }
  const text = JSON.stringify([loaded, unsetIn(loaded)])
  if (!isDeepStrictEqual(restored(text), loaded)) return undefined
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv(CIPHER, key, nonce)
  const body = Buffer.concat([cipher.update(text), cipher.final()])
  return Buffer.concat([Buffer.from(`${JSON.stringify(names)}\n`), nonce, cipher.getAuthTag(), body])
}

type Path = readonly string[]

/** Where a key is there without a value, which JSON does not tell; those who compare configurations look. */
function unsetIn(value: unknown, at: Path = []): Path[] {
  if (value === undefined) return [at]
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, one]) => unsetIn(one, [...at, key]))
}

function restored(text: string): Loaded {
  const [loaded, unset] = JSON.parse(text) as [Loaded, readonly Path[]]
  for (const path of unset) {
    const holder = path.slice(0, -1).reduce<unknown>((on, key) => (on as Record<string, unknown>)[key], loaded)
    ;(holder as Record<string, unknown>)[path.at(-1) ?? ''] = undefined
  }
  return loaded
}

function opened(bytes: Buffer, keyFor: (names: readonly string[]) => Buffer): Loaded | undefined {
  try {
    const end = bytes.indexOf(NEWLINE)
    const names = JSON.parse(bytes.toString('utf8', 0, end)) as readonly string[]
    const from = end + 1 + NONCE_BYTES
    const decipher = createDecipheriv(CIPHER, keyFor(names), bytes.subarray(end + 1, from), {
      authTagLength: TAG_BYTES,
    })
    decipher.setAuthTag(bytes.subarray(from, from + TAG_BYTES))
    const text = Buffer.concat([decipher.update(bytes.subarray(from + TAG_BYTES)), decipher.final()])
    return restored(text.toString('utf8'))
  } catch {
    // It is of something else, or damaged.
    return undefined
  }
}

/** The same environment, noting which variables are looked at. */
const watched = (env: Environment, looked: Looked): Environment => {
  const note = (name: string | symbol): void => {
    if (typeof name === 'string') looked.names.add(name)
  }
  return new Proxy(env, {
    get(target, name) {
      note(name)
      return Reflect.get(target, name) as unknown
    },
    has(target, name) {
      note(name)
      return Reflect.has(target, name)
    },
    getOwnPropertyDescriptor(target, name) {
      note(name)
      return Reflect.getOwnPropertyDescriptor(target, name)
    },
    ownKeys(target) {
      looked.all = true
      return Reflect.ownKeys(target)
    },
  })
}
