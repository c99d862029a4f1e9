import { readFile } from 'node:fs/promises'
import { join, sep } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Clock } from '../core/clock.ts'
import { isResourceExhausted } from '../core/error-codes.ts'
import { type ErrorCode, isPegboardError, messageOf, PegboardError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { toPrintable } from '../core/printable.ts'
import { assertRegularFile } from '../core/regular-file.ts'
import { replacedByOthers } from '../core/written-by-others.ts'
import { discoverModules, type ModuleEntry } from './discover-modules.ts'
import { locateError } from './error-location.ts'
import type { Importer, ModuleNamespace } from './fresh-import.ts'
import { createImportGuard, type ImportGuard } from './import-guard.ts'
import { importUrl } from './import-url.ts'
import { collectRegistrations, type ModuleShape, moduleIdOf, shapeOf } from './module-shapes.ts'
import { createScriptScope, isScript, runScript } from './script-scope.ts'
import { type SwitchedOffRecord, switchedOffModule } from './switched-off.ts'
import { withTimeout } from './with-timeout.ts'

/** An imported file with a valid shape. Each import creates a new object. */
export interface FileRecord {
  readonly entry: ModuleEntry
  readonly loaded: ModuleShape
}

/** Why a file has no module, or no new version. */
export interface LoadProblem {
  readonly file: string
  /** For operators: `weather.mjs:3: …`. */
  readonly error: string
  readonly code: ErrorCode
}

export interface ModuleFilesOptions {
  readonly bundledDirs: readonly string[]
  readonly modulesDir?: string
  readonly importer: Importer
  readonly importTimeoutMs: number
  readonly clock: Clock
  readonly log: Log
  readonly beforeDropIns?: () => void
  /** Whether to import a file, by the module id that its name suggests. */
  readonly isWanted: (id: string) => boolean
  /** Whether to import a bundled module that is off without options; default all. */
  readonly isOn?: ((id: string) => boolean) | undefined
}

export function createModuleFiles(options: ModuleFilesOptions) {
  let entries: ModuleEntry[] = []
  const records = new Map<string, FileRecord>()
  const helpers = new Set<string>()
  const problems = new Map<string, LoadProblem>()
  const stuck = new Set<string>()
  const unopened = new Set<string>()
  const shared: Record<string, unknown> = {}
  const scope = createScriptScope()
  let pending: readonly ModuleEntry[] = []
  let guard: ImportGuard | undefined
  let isGuarded = true

  async function findEntries(): Promise<ModuleEntry[]> {
    const discovered: ModuleEntry[] = []
    for (const dir of options.bundledDirs) {
      const switchedOff = await readSwitchedOff(dir)
      for (const entry of await discoverModules(dir, true))
        discovered.push(
          options.isOn?.(entry.stem) === false ? { ...entry, switchedOff: switchedOff[entry.stem] } : entry,
        )
    }
    if (options.modulesDir !== undefined) discovered.push(...(await discoverModules(options.modulesDir, false)))
    return discovered
  }

  /** Reads a file of the build. When Pegboard runs from source, it does not exist, and every module is imported. */
  async function readSwitchedOff(dir: string): Promise<Readonly<Record<string, SwitchedOffRecord>>> {
    const text = await readFile(join(dir, 'switched-off.json'), 'utf8').catch(() => '{}')
    return JSON.parse(text) as Readonly<Record<string, SwitchedOffRecord>>
  }

  async function loadEntry(entry: ModuleEntry): Promise<void> {
    if (!entry.bundled) {
      assertRegularFile(entry.file)
      const reason = replacedByOthers(entry.file)
      if (reason !== undefined)
        throw new PegboardError('E_MODULE_LOAD', `it is not safe to run: ${reason}.`, {
          hint: 'To run it anyway, add --insecure-permissions.',
        })
    }
    const { value, registered } = await collectRegistrations(() => runEntry(entry))
    if (entry.helper) {
      helpers.add(entry.file)
      shared[entry.stem.replace(/^_+/, '')] = getExports(value)
    } else records.set(entry.file, { entry, loaded: shapeOf(value, registered, entry.stem) })
  }

  /** Declarations of a plain script are visible in all later files. */
  async function runEntry(entry: ModuleEntry): Promise<ModuleNamespace> {
    const source = entry.helper && !entry.bundled ? await readFile(entry.file, 'utf8').catch(() => '') : ''
    if (source === '' || !isScript(entry.file, source)) return await importEntry(entry)
    guard ??= isGuarded ? createImportGuard(options.importTimeoutMs, options.log) : undefined
    const run = async (): Promise<ModuleNamespace> => runScript(entry.file, source)
    const createError = (): PegboardError => {
      stuck.add(entry.file)
      return new PegboardError('E_MODULE_LOAD', 'its code blocked the event loop for too long and was stopped.')
    }
    const declared = guard ? await guard.watch(run, createError) : await run()
    for (const name of scope.share(entry.file, declared))
      options.log.warn('a global name of a script is not shared, because the runtime has it already', {
        file: entry.file,
        name,
      })
    return declared
  }

  async function importEntry(entry: ModuleEntry): Promise<ModuleNamespace> {
    if (entry.switchedOff) return { default: switchedOffModule(entry.switchedOff) }
    // Bundled files need no hook and no second copy, and a bundler or a test runner may load them in its own way.
    if (entry.bundled) return limitTime(entry, importUrl(pathToFileURL(entry.file).href) as Promise<ModuleNamespace>)
    options.beforeDropIns?.()
    if (!isGuarded) return limitTime(entry, options.importer.load(entry.file))
    guard ??= createImportGuard(options.importTimeoutMs, options.log)
    return guard.watch(
      () => limitTime(entry, options.importer.load(entry.file)),
      () => {
        stuck.add(entry.file)
        return new PegboardError(
          'E_MODULE_LOAD',
          'its code blocked the event loop for too long during the import and was stopped; move slow work to start().',
        )
      },
    )
  }

  function limitTime(entry: ModuleEntry, work: Promise<ModuleNamespace>): Promise<ModuleNamespace> {
    const { importTimeoutMs } = options
    return withTimeout(work, importTimeoutMs, options.clock, () => {
      stuck.add(entry.file)
      return new PegboardError(
        'E_MODULE_LOAD',
        `importing took longer than ${importTimeoutMs} ms; move slow work to start().`,
      )
    })
  }

  function forget(entry: ModuleEntry): void {
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
    /** Exports of helpers, by file name without `_` and extension. */
    shared: shared as Readonly<Record<string, unknown>>,
    /** True if the import took too long. Pegboard does not repeat it until the file changes. */
    isStuck: (entry: ModuleEntry): boolean => stuck.has(entry.file),
    get anyStuck() {
      return stuck.size > 0
    },
    /**
     * Of the files that `isIncluded` selects, imports new ones and those that `shouldReload` selects, one after the other.
     * Forgets removed files. A failure keeps the earlier record.
     * @param guarded stops code that blocks the event loop. Not needed if all files are as in an earlier load
     */
    async refresh(
      shouldReload: (entry: ModuleEntry) => boolean,
      isIncluded: ((entry: ModuleEntry) => boolean) | undefined,
      guarded: boolean,
    ): Promise<void> {
      isGuarded = guarded
      const before = entries
      entries = (await findEntries()).filter((entry) => entry.helper || options.isWanted(suggestId(entry.stem)))
      const present = new Set(entries.map((entry) => entry.file))
      for (const entry of before) if (!present.has(entry.file)) forget(entry)
      options.importer.renew()
      const isKnown = ({ file, switchedOff }: ModuleEntry): boolean => {
        const record = records.get(file)
        if (record) return (record.entry.switchedOff === undefined) === (switchedOff === undefined)
        return problems.has(file) || helpers.has(file)
      }
      pending = entries.filter((entry) => !isKnown(entry))
      try {
        for (const entry of entries.filter(isIncluded ?? (() => true))) {
          if (isKnown(entry) && !unopened.delete(entry.file) && (entry.bundled || !shouldReload(entry))) continue
          try {
            stuck.delete(entry.file)
            await loadEntry(entry)
            problems.delete(entry.file)
          } catch (error) {
            if (isResourceExhausted(error)) unopened.add(entry.file)
            problems.set(entry.file, await problemOf(error, entry))
          }
        }
      } finally {
        pending = entries.filter((entry) => !isKnown(entry))
        guard?.close()
        guard = undefined
      }
    },
    /** Files whose first import is running or pending. */
    get pending(): readonly string[] {
      return pending.map(fileName)
    },
    /** True if files could not be opened because too many were open. `refresh` tries those again. */
    get hasUnopened() {
      return unopened.size > 0
    },
    /** The files of the last `refresh`: bundled modules first, then drop-ins, each sorted by name. */
    entries: (): readonly ModuleEntry[] => entries,
    /** Names of the helpers that have a loaded version. */
    get loadedHelpers(): readonly string[] {
      return entries.filter(({ file }) => helpers.has(file)).map(fileName)
    },
    /** Those that have a loaded module, in the same order. */
    records: (): readonly FileRecord[] => entries.flatMap((entry) => records.get(entry.file) ?? []),
    problems: (): readonly LoadProblem[] => entries.flatMap((entry) => problems.get(entry.file) ?? []),
  }
}

/** The name of a file in messages. */
export const fileName = ({ bundled, label }: ModuleEntry): string =>
  toPrintable(bundled ? `bundled/${label}` : label).replaceAll('\n', '?')

/** The modules folder that contains an entry. */
const rootOf = (entry: ModuleEntry): string =>
  entry.file.slice(0, -(entry.label.length + 1)).replace(/[\\/]$/, '') || sep

async function problemOf(error: unknown, entry: ModuleEntry): Promise<LoadProblem> {
  const file = fileName(entry)
  return {
    file,
    code: isPegboardError(error) ? error.code : 'E_MODULE_LOAD',
    error: await locateError(error, entry.file, rootOf(entry)).catch(() => `${file}: ${messageOf(error)}`),
  }
}

/** The id that a file name suggests. Files whose name suggests none are imported and then rejected with a reason. */
function suggestId(stem: string): string {
  try {
    return moduleIdOf(stem)
  } catch (error) {
    if (isPegboardError(error)) return stem
    throw error
  }
}

/** For a helper that only has a default export, that value. */
function getExports(namespace: ModuleNamespace): unknown {
  const names = Object.keys(namespace)
  return names.length === 1 && names[0] === 'default' ? namespace['default'] : namespace
}
