import { createCipheriv, createHash } from 'node:crypto'
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
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { setFlagsFromString } from 'node:v8'
import { Script } from 'node:vm'
import { defaultDirs } from '../config/places.ts'
import { once } from '../core/once.ts'
import { readOwn } from './own.ts'

type Namespace = Readonly<Record<string, unknown>>

/** One script of the six: files that the others ask for, each evaluated then. */
interface Pack {
  readonly files: Readonly<Record<string, () => Namespace>>
}

/** The first script; each part is evaluated when it is asked for. */
export interface Bundle extends Pack {
  main(): Promise<unknown>
  api(): Promise<Namespace>
  agent(): Promise<Namespace>
  readonly modules: Readonly<Record<string, () => Promise<Namespace>>>
}

type Evaluate = (require: (id: string) => unknown, url: string, load: (specifier: string) => Promise<unknown>) => Pack

/** Names the build; put in by it. */
declare const BUILD: string
declare const require: (name: string) => unknown
declare const __dirname: string

const SUM_BYTES = 16
/** By then the first answers are out, and what they took is compiled. */
const KEEP_MS = 3_000
/** A file of ours, as the build writes it: `rest:src/cli/list.ts`. */
const PART = /^(start|later|config|modules|zod|rest):(.+)$/

/** What a start without a schema to check runs. */
const WITHOUT_ZOD: ReadonlySet<string> = new Set(['start', 'later', 'modules'])

/**
 * While it starts, nearly all that is made stays: V8 makes room for it at once instead of copying it each time it doubles the room.
 * And what runs then runs a few dozen times: to optimize it takes more processor time than it saves, which the servers that are
 * started meanwhile need.
 */
const STARTING = { growth: 8, patience: 4 }
const USUAL = { growth: 1, patience: 1 }
const GROWTH_MS = 500
const PATIENCE_MS = 2_500
type Pace = typeof USUAL

/** What V8 has, by its version: another may not know the words and would complain on stderr. */
const GROWTH = { flag: 'semi-space-growth-factor', usual: 2 }
const BUDGET = { flag: 'interrupt-budget', usual: 67_584 }
const CALLS = { flag: 'invocation-count-for-turbofan', usual: 3_000 }
const KNOWN_V8: Readonly<Record<string, typeof GROWTH>> = { 11: BUDGET, 12: CALLS, 13: CALLS }
const PATIENCE = KNOWN_V8[Number.parseInt(process.versions.v8, 10)]

/** Where this installation is: what V8 keeps names the files it compiled, and traces of an error would name another's. */
const place = once(() => createHash('sha256').update(realpathSync(__dirname)).digest('hex').slice(0, 8))

const packs = new Map<string, Pack>()
const parts = new Map<string, Namespace>()

/**
 * Evaluates the first script, once a process. V8 keeps what it compiled in the cache folder: a start takes half the processor
 * time with it. Without it, or when it is of another build or damaged, everything is compiled as ever.
 */
export const load = (): Bundle => packNamed('start') as Bundle

/** Starts the command line. */
export async function main(): Promise<void> {
  await load().main()
  if (!PATIENCE) return
  setPace(STARTING)
  setTimeout(() => setPace({ ...pace, growth: USUAL.growth }), GROWTH_MS).unref()
  setTimeout(() => setPace(USUAL), PATIENCE_MS).unref()
}

let pace = USUAL
function setPace(next: Pace): void {
  if (!PATIENCE) return
  if (next.growth !== pace.growth) set(GROWTH, next.growth)
  if (next.patience !== pace.patience) set(PATIENCE, next.patience)
  pace = next
}
const set = ({ flag, usual }: typeof GROWTH, times: number): void => setFlagsFromString(`--${flag}=${usual * times}`)

/** With other flags V8 takes over no code that is compiled, neither ours nor Node's. */
function atUsualPace<T>(make: () => T): T {
  const now = pace
  if (now === USUAL) return make()
  setPace(USUAL)
  try {
    return make()
  } finally {
    setPace(now)
  }
}

const builtin = (id: string): unknown => atUsualPace(() => require(id))

function packNamed(name: string): Pack {
  const known = packs.get(name)
  if (known) return known
  const file = join(__dirname, `${name}.cjs`)
  const folder = join(defaultDirs({ env: process.env, cwd: process.cwd() }, process.cwd()).cache, 'code')
  const kept = join(folder, `${BUILD}-${place()}-${name}-${process.version}-${process.arch}.bin`)
  const cachedData = read(kept)
  const source = readFileSync(file, 'latin1')
  const script = atUsualPace(() => new Script(source, { filename: file, ...(cachedData ? { cachedData } : {}) }))
  const evaluate = script.runInThisContext() as Evaluate
  const pack = evaluate(
    (id) => {
      if (LATER.has(id)) return laterBuiltin(id)
      if (!PART.test(id)) return builtin(id)
      const canWait = id.startsWith('later:') || (id.startsWith('zod:') && WITHOUT_ZOD.has(name))
      return canWait ? laterPart(id) : partNamed(id)
    },
    pathToFileURL(join(__dirname, 'start.cjs')).href,
    importFor,
  )
  packs.set(name, pack)
  if (!cachedData || script.cachedDataRejected)
    setTimeout(() => keep(folder, kept, script.createCachedData()), KEEP_MS).unref()
  return pack
}

function partNamed(id: string): Namespace {
  const known = parts.get(id)
  if (known) return known
  const [, pack, file] = PART.exec(id) as unknown as [string, string, string]
  const part = packNamed(pack).files[file]?.()
  if (!part) throw new Error(`${id} is not in the build`)
  parts.set(id, part)
  return part
}

/**
 * What is imported of a script that a start may never use: it is read at the first look, and from then on a look is as quick
 * as at any other object.
 */
function laterPart(id: string): Namespace {
  const look = (_none: object, name: string | symbol): unknown => {
    const real = partNamed(id)
    Object.defineProperties(part, Object.getOwnPropertyDescriptors(real))
    return Reflect.get(real, name)
  }
  const part = Object.create(new Proxy({}, { get: look })) as Namespace
  return part
}

/** Parts of Node that a start does without, or needs late: reading them takes as long as making the catalogue. */
const LATER: ReadonlySet<string> = new Set(
  ['child_process', 'fs/promises', 'http', 'module', 'readline/promises', 'timers/promises', 'worker_threads'].map(
    (id) => `node:${id}`,
  ),
)

function laterBuiltin(id: string): object {
  const real = once(() => builtin(id) as object)
  return new Proxy(
    {},
    {
      get: (_none, name) => Reflect.get(real(), name) as unknown,
      has: (_none, name) => Reflect.has(real(), name),
      ownKeys: () => Reflect.ownKeys(real()),
      getOwnPropertyDescriptor: (_none, name) => ({
        value: Reflect.get(real(), name) as unknown,
        enumerable: true,
        configurable: true,
      }),
    },
  )
}

const modulesFolder = once(() => `${pathToFileURL(join(__dirname, 'modules')).href}/`)

async function importFor(specifier: string): Promise<unknown> {
  if (PART.test(specifier)) return partNamed(specifier)
  // Our own modules are in our scripts: a start without drop-ins needs none of Node's module loader.
  const folder = modulesFolder()
  const name = specifier.startsWith(folder) ? specifier.slice(folder.length).replace(/\.js$/, '') : ''
  const bundle = load()
  return Object.hasOwn(bundle.modules, name) ? (bundle.modules[name] as () => Promise<unknown>)() : import(specifier)
}

/** Whole, or nothing: V8 runs it unchecked. */
function read(file: string): Buffer | undefined {
  const bytes = readOwn(file)
  const data = bytes?.subarray(SUM_BYTES)
  return bytes && data && sumOf(data).equals(bytes.subarray(0, SUM_BYTES)) ? data : undefined
}

/** What only saves time takes no space from what must be kept. */
const SPARE_BYTES = 16 * 1024 * 1024

function keep(folder: string, file: string, data: Buffer): void {
  const temporary = `${file}.${process.pid}.tmp`
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    const { bavail, bsize } = statfsSync(folder)
    if (bavail * bsize < data.length + SPARE_BYTES) return
    writeFileSync(temporary, Buffer.concat([sumOf(data), data]), { mode: 0o600 })
    renameSync(temporary, file)
    // What other builds left for this version of Node.
    const version = `-${process.version}-${process.arch}.bin`
    for (const name of readdirSync(folder))
      if (name.endsWith(version) && !name.startsWith(BUILD)) rmSync(join(folder, name), { force: true })
  } catch {
    // A folder that cannot be written costs time, nothing else.
    rmSync(temporary, { force: true })
  }
}

/** Shows damage and nothing else: whoever can write the file needs no other way in. Processors have instructions for this one. */
function sumOf(data: Uint8Array): Buffer {
  const cipher = createCipheriv('aes-128-gcm', Buffer.alloc(16), Buffer.alloc(12))
  cipher.setAAD(data)
  cipher.final()
  return cipher.getAuthTag()
}
