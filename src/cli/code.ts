import { createHash } from 'node:crypto'
import {
  closeSync,
  fstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { Script } from 'node:vm'
import { defaultDirs } from '../config/places.ts'

/** What the bundle offers; each part is evaluated when it is asked for. */
export interface Bundle {
  main(): Promise<unknown>
  api(): Promise<Readonly<Record<string, unknown>>>
  readonly modules: Readonly<Record<string, () => Promise<Readonly<Record<string, unknown>>>>>
}

type Evaluate = (
  require: unknown,
  exports: Record<string, unknown>,
  url: string,
  load: (specifier: string) => Promise<unknown>,
) => void

/** Names the bundle that was built with this file; put in by the build. */
declare const BUILD: string
declare const require: (name: string) => unknown
declare const __dirname: string

const HASH_BYTES = 32
/** By then the first answers are out, and what they took is compiled. */
const KEEP_MS = 3_000

let loaded: Bundle | undefined

/**
 * Evaluates the bundle, once a process. V8 keeps what it compiled in the cache folder: a start takes half the processor time
 * with it. Without it, or when it is of another build or damaged, everything is compiled as ever.
 */
export function load(): Bundle {
  if (loaded) return loaded
  const file = join(__dirname, 'bundle.cjs')
  const folder = join(defaultDirs({ env: process.env, cwd: process.cwd() }, process.cwd()).cache, 'code')
  const kept = join(folder, `${BUILD}-${process.version}-${process.arch}.bin`)
  const cachedData = read(kept)
  const script = new Script(readFileSync(file, 'latin1'), {
    filename: file,
    ...(cachedData ? { cachedData } : {}),
  })
  const exports: Record<string, unknown> = {}
  const evaluate = script.runInThisContext() as Evaluate
  const bundle = exports as unknown as Bundle
  const modules = `${pathToFileURL(join(__dirname, 'modules')).href}/`
  evaluate(require, exports, pathToFileURL(file).href, (specifier) => {
    // Our own modules are in the bundle: a start without drop-ins needs none of Node's module loader.
    const name = specifier.startsWith(modules) ? specifier.slice(modules.length).replace(/\.js$/, '') : ''
    return Object.hasOwn(bundle.modules, name) ? (bundle.modules[name] as () => Promise<unknown>)() : import(specifier)
  })
  if (!cachedData || script.cachedDataRejected)
    setTimeout(() => keep(folder, kept, script.createCachedData()), KEEP_MS).unref()
  loaded = bundle
  return loaded
}

/** Only what this user alone could have written, and whole: V8 runs it unchecked. */
function read(file: string): Buffer | undefined {
  try {
    const descriptor = openSync(file, 'r')
    try {
      const { uid, mode } = fstatSync(descriptor)
      if (process.getuid !== undefined && (uid !== process.getuid() || (mode & 0o022) !== 0)) return undefined
      const bytes = readFileSync(descriptor)
      const data = bytes.subarray(HASH_BYTES)
      return hashOf(data).equals(bytes.subarray(0, HASH_BYTES)) ? data : undefined
    } finally {
      closeSync(descriptor)
    }
  } catch {
    // The first start of a build has none.
    return undefined
  }
}

function keep(folder: string, file: string, data: Buffer): void {
  const temporary = `${file}.${process.pid}.tmp`
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    writeFileSync(temporary, Buffer.concat([hashOf(data), data]), { mode: 0o600 })
    renameSync(temporary, file)
    // What other builds left for this version of Node.
    const version = `-${process.version}-${process.arch}.bin`
    for (const name of readdirSync(folder))
      if (name.endsWith(version) && !name.startsWith(BUILD)) rmSync(join(folder, name), { force: true })
  } catch {
    // A folder that cannot be written costs time, nothing else.
  }
}

const hashOf = (data: Uint8Array): Buffer => createHash('sha256').update(data).digest()
