import { createHash } from 'node:crypto'
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from 'node:fs'
import { basename, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { Script } from 'node:vm'
import { defaultDirs } from '../config/machine.ts'
import { readOwnFile } from './read-own-file.ts'

type Namespace = Readonly<Record<string, unknown>>

/** Each module is evaluated when it is called. */
type Modules = Readonly<Record<string, (() => Promise<Namespace>) | undefined>>

/** What `dist/pegboard.cjs` exports. */
export interface Bundle {
  readonly api: Namespace
  /** The bundled modules that are on by default. */
  readonly modules: Modules
  main(): Promise<unknown>
  agent(): Promise<Namespace>
}

/** Hash of the chunks. The build writes it here. */
declare const BUILD: string
declare const require: (id: string) => unknown
declare const __dirname: string

/** At this time the first responses are sent, and V8 has compiled the functions that they need. */
const KEEP_MS = 3_000
const SUM_BYTES = 32
/** The cache is only stored while this much disk space stays free for data that must be kept. */
const SPARE_BYTES = 16 * 1024 * 1024

const CHUNKS = ['./pegboard.cjs', './libraries.cjs', './modules.cjs']
const loaded = new Map<string, unknown>()
/**
 * V8 stores the file paths in the cache. With the cache of another installation, stack traces would show the paths of
 * that one.
 */
const place = createHash('sha256').update(realpathSync(__dirname)).digest('hex').slice(0, 8)
const folder = join(defaultDirs({ env: process.env, cwd: process.cwd() }, process.cwd()).cache, 'code')

/** Evaluates the main chunk once per process. */
export const load = (): Bundle => requireOnce('./pegboard.cjs') as Bundle

/** Loads a bundled module. Undefined if there is none of this name. */
export const loadModule = (name: string): Promise<Namespace> | undefined =>
  (load().modules[name] ?? (requireOnce('./modules.cjs') as { modules: Modules }).modules[name])?.()

/**
 * A replacement for import() in the chunks, which have none. Bundled modules load without the ES module loader of Node.
 */
export async function importUrl(url: string): Promise<unknown> {
  const folder = `${pathToFileURL(join(__dirname, 'modules')).href}/`
  const module = url.startsWith(folder) ? loadModule(basename(url, '.js')) : undefined
  return module ?? import(url)
}

/** Starts the command line. */
export const main = (): Promise<unknown> => load().main()

/** Asks Node once for each of its modules: the 250 imports of a start would cost 1 ms. */
function requireOnce(id: string): unknown {
  if (!loaded.has(id)) loaded.set(id, CHUNKS.includes(id) ? evaluate(id) : require(id))
  return loaded.get(id)
}

function evaluate(id: string): unknown {
  const file = join(__dirname, id)
  const cjs: { exports: unknown } = { exports: {} }
  compile(id, file).runInThisContext()(cjs, requireOnce, file, pathToFileURL(file).href)
  return cjs.exports
}

/** Does not run the chunk: V8 can free the bytes of the cache (2 MB) while the chunk runs. */
function compile(id: string, file: string): Script {
  const cacheFile = join(folder, `${BUILD}-${place}-${basename(id, '.cjs')}-${process.version}-${process.arch}.bin`)
  const cachedData = read(cacheFile)
  const script = new Script(readFileSync(file, 'utf8'), { filename: file, ...(cachedData ? { cachedData } : {}) })
  if (!cachedData || script.cachedDataRejected)
    setTimeout(() => keep(cacheFile, script.createCachedData()), KEEP_MS).unref()
  return script
}

/**
 * Reads a complete cache file of this user, or returns undefined. V8 runs the file without checks, so it must not come
 * from another user.
 */
function read(cacheFile: string): Buffer | undefined {
  const bytes = readOwnFile(cacheFile)
  const data = bytes?.subarray(SUM_BYTES)
  return bytes && data && sumOf(data).equals(bytes.subarray(0, SUM_BYTES)) ? data : undefined
}

/** If the folder is not writable, the next start is slower; nothing else changes. */
function keep(cacheFile: string, data: Buffer): void {
  const temporary = `${cacheFile}.${process.pid}.tmp`
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    const { bavail, bsize } = statfsSync(folder)
    if (bavail * bsize < data.length + SPARE_BYTES) return
    writeFileSync(temporary, Buffer.concat([sumOf(data), data]), { mode: 0o600 })
    renameSync(temporary, cacheFile)
    // Caches of other builds, for this version of Node.
    for (const name of readdirSync(folder))
      if (name.endsWith(`-${process.version}-${process.arch}.bin`) && !name.startsWith(BUILD))
        rmSync(join(folder, name), { force: true })
  } catch {
    rmSync(temporary, { force: true })
  }
}

/** Detects damage only. An attacker who can write files of this user does not need the cache. */
const sumOf = (data: Uint8Array): Buffer => createHash('sha256').update(data).digest()
