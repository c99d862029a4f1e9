import { readFile } from 'node:fs/promises'
import { dirname, sep } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Clock } from '../core/clock.ts'
import { type ErrorCode, isPegboardError, messageOf, PegboardError } from '../core/errors.ts'
import { isFull } from '../core/full.ts'
import type { Log } from '../core/log.ts'
import { plain } from '../core/plain.ts'
import { mustEnd } from '../core/regular.ts'
import { replacedByOthers } from '../core/written-by-others.ts'
import { discover, type Entry } from './discover.ts'
import type { Importer, Namespace } from './fresh.ts'
import { createImportGuard, type ImportGuard } from './import-guard.ts'
import { locate } from './locate.ts'
import { createScriptScope, isScript, runScript } from './script-scope.ts'
import { collect, type Loaded, moduleIdOf, shapeOf } from './shapes.ts'
import { within } from './within.ts'

/** A file that was imported and has a legal shape. A new object each time it is imported. */
export interface FileRecord {
  readonly entry: Entry
  readonly loaded: Loaded
}

/** Why a file gives nothing, or nothing new. */
export interface Problem {
  readonly file: string
  /** For operators: `weather.mjs:3: …`. */
  readonly error: string
  readonly code: ErrorCode
}

export interface Files {
  /**
   * Imports what is new and what `pick` names, in order, one by one, of those `among`; forgets what is gone. A failure
   * leaves the earlier record.
   * @param watched whether code that runs without a pause is stopped; files that were loaded before as they are need no watcher
   */
  refresh(
    pick: (entry: Entry) => boolean,
    among: ((entry: Entry) => boolean) | undefined,
    watched: boolean,
  ): Promise<void>
  /** Importing it took too long; not to be tried again while it is as it is. */
  isStuck(entry: Entry): boolean
  readonly anyStuck: boolean
  /** Bundled ones first, then drop-ins, each in name order. */
  records(): readonly FileRecord[]
  /** Files that are being imported for the first time, or wait for that. */
  readonly pending: readonly string[]
  /** Some could not be opened, as too many were open: `refresh` tries those again. */
  readonly waiting: boolean
  problems(): readonly Problem[]
  /** What helpers exported, by stem without `_`. */
  readonly shared: Readonly<Record<string, unknown>>
}

export interface FilesOptions {
  readonly bundledDirs: readonly string[]
  readonly modulesDir?: string
  readonly importer: Importer
  readonly importTimeoutMs: number
  readonly clock: Clock
  readonly log: Log
  readonly beforeDropIns?: () => void
  /** Whether to import a file at all, by the module id its name suggests. */
  readonly wanted: (id: string) => boolean
}

/** Knows which module files there are and what is in them. */
export function createFiles(options: FilesOptions): Files {
  let entries: Entry[] = []
  const records = new Map<string, FileRecord>()
  const helpers = new Set<string>()
  const problems = new Map<string, Problem>()
  const stuck = new Set<string>()
  const unopened = new Set<string>()
  const shared: Record<string, unknown> = {}
  const scope = createScriptScope()
  let pending: readonly Entry[] = []
  let guard: ImportGuard | undefined
  let watching = true

  async function find(): Promise<Entry[]> {
    const found: Entry[] = []
    for (const dir of options.bundledDirs) found.push(...(await discover(dir, true)))
    if (options.modulesDir !== undefined) found.push(...(await discover(options.modulesDir, false)))
    return found
  }

  async function read(entry: Entry): Promise<void> {
    if (!entry.bundled) {
      mustEnd(entry.file)
      const others = replacedByOthers(entry.file)
      if (others !== undefined)
        throw new PegboardError('E_MODULE_LOAD', `it is not safe to run: ${others}.`, {
          hint: 'To run it all the same: --insecure-permissions.',
        })
    }
    const { value, registered } = await collect(() => readEntry(entry))
    if (entry.helper) {
      helpers.add(entry.file)
      shared[entry.stem.replace(/^_+/, '')] = exported(value)
    } else records.set(entry.file, { entry, loaded: shapeOf(value, registered, entry.stem) })
  }

  /** What a plain script in front of the others declares is visible in all of them. */
  async function readEntry(entry: Entry): Promise<Namespace> {
    const source = entry.helper && !entry.bundled ? await readFile(entry.file, 'utf8').catch(() => '') : ''
    if (source === '' || !isScript(entry.file, source)) return await importEntry(entry)
    guard ??= watching ? createImportGuard(options.importTimeoutMs, options.log) : undefined
    const run = async (): Promise<Namespace> => runScript(entry.file, source)
    const late = (): PegboardError => {
      stuck.add(entry.file)
      return new PegboardError('E_MODULE_LOAD', 'its code ran without a pause for too long, and was stopped.')
    }
    const declared = guard ? await guard.watch(run, late) : await run()
    for (const name of scope.share(entry.file, declared))
      options.log.warn('a name of a script is not shared: the runtime has it already', { file: entry.file, name })
    return declared
  }

  function importEntry(entry: Entry): Promise<Namespace> {
    // Bundled files are ours: no hook, no second copy, and a bundler or a test runner may serve them its own way.
    if (entry.bundled) return inTime(entry, import(/* @vite-ignore */ pathToFileURL(entry.file).href))
    options.beforeDropIns?.()
    if (!watching) return inTime(entry, options.importer.load(entry.file))
    guard ??= createImportGuard(options.importTimeoutMs, options.log)
    return guard.watch(
      () => inTime(entry, options.importer.load(entry.file)),
      () => {
        stuck.add(entry.file)
        return new PegboardError(
          'E_MODULE_LOAD',
          'its code ran without a pause for too long while it was imported, and was stopped; slow work belongs in start().',
        )
      },
    )
  }

  function inTime(entry: Entry, work: Promise<Namespace>): Promise<Namespace> {
    const { importTimeoutMs } = options
    return within(work, importTimeoutMs, options.clock, () => {
      stuck.add(entry.file)
      return new PegboardError(
        'E_MODULE_LOAD',
        `importing took longer than ${importTimeoutMs} ms; slow work belongs in start().`,
      )
    })
  }

  function forget(entry: Entry): void {
    records.delete(entry.file)
    problems.delete(entry.file)
    unopened.delete(entry.file)
    stuck.delete(entry.file)
    if (helpers.delete(entry.file)) {
      delete shared[entry.stem.replace(/^_+/, '')]
      scope.forget(entry.file)
    }
  }

  return {
    shared,
    isStuck: (entry) => stuck.has(entry.file),
    get anyStuck() {
      return stuck.size > 0
    },
    async refresh(pick, among = () => true, watched) {
      watching = watched
      const before = entries
      entries = (await find()).filter((entry) => entry.helper || options.wanted(idFrom(entry.stem)))
      const present = new Set(entries.map((entry) => entry.file))
      for (const entry of before) if (!present.has(entry.file)) forget(entry)
      options.importer.renew()
      const isKnown = ({ file }: Entry): boolean => records.has(file) || problems.has(file) || helpers.has(file)
      pending = entries.filter((entry) => !isKnown(entry))
      try {
        for (const entry of entries.filter(among)) {
          if (isKnown(entry) && !unopened.delete(entry.file) && (entry.bundled || !pick(entry))) continue
          try {
            stuck.delete(entry.file)
            await read(entry)
            problems.delete(entry.file)
          } catch (error) {
            if (isFull(error)) unopened.add(entry.file)
            problems.set(entry.file, await problemOf(error, entry))
          }
        }
      } finally {
        pending = entries.filter((entry) => !isKnown(entry))
        guard?.close()
        guard = undefined
      }
    },
    get pending() {
      return pending.map(fileName)
    },
    get waiting() {
      return unopened.size > 0
    },
    records: () => entries.flatMap((entry) => records.get(entry.file) ?? []),
    problems: () => entries.flatMap((entry) => problems.get(entry.file) ?? []),
  }
}

/** How people are told which file is meant. */
export const fileName = ({ bundled, label }: Entry): string =>
  plain(bundled ? `bundled/${label}` : label).replaceAll('\n', '?')

/** The modules folder an entry lies in. */
const rootOf = (entry: Entry): string => entry.file.slice(0, -(entry.label.length + 1)).replace(/[\\/]$/, '') || sep

async function problemOf(error: unknown, entry: Entry): Promise<Problem> {
  const root = rootOf(entry)
  const code = isPegboardError(error) ? error.code : 'E_MODULE_LOAD'
  return {
    file: fileName(entry),
    code,
    error: await locate(error, entry.file, root === '' ? dirname(entry.file) : root).catch(
      () => `${fileName(entry)}: ${messageOf(error)}`,
    ),
  }
}

/** The id a file's name suggests; names that suggest none are looked at and refused with a reason. */
function idFrom(stem: string): string {
  try {
    return moduleIdOf(stem)
  } catch (error) {
    if (isPegboardError(error)) return stem
    throw error
  }
}

/** A helper with nothing but a default export is that value. */
function exported(namespace: Namespace): unknown {
  const names = Object.keys(namespace)
  return names.length === 1 && names[0] === 'default' ? namespace['default'] : namespace
}
