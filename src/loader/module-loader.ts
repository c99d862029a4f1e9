import { hash } from 'node:crypto'
import { existsSync, realpathSync } from 'node:fs'
import { dirname, join, relative, sep } from 'node:path'
import { systemClock } from '../core/clock.ts'
import { isResourceExhausted } from '../core/error-codes.ts'
import { isPegboardError, messageOf, PegboardError } from '../core/errors.ts'
import { isRecord } from '../core/is-record.ts'
import type { ToolModule } from '../core/module.ts'
import { findNearest, OWN_PREFIX } from '../core/tool-names.ts'
import { renameModule } from './bundled-prefix.ts'
import type { ModuleEntry } from './discover-modules.ts'
import { createImporter } from './fresh-import.ts'
import type { Loader, LoaderOptions, Report } from './loader-types.ts'
import { createModuleFiles, type FileRecord, fileName, type LoadProblem } from './module-files.ts'
import { type ModuleInstance, startInstance } from './module-instance.ts'
import { type ModuleOwner, settleOwners } from './settle-owners.ts'
import { fillTemplates, type TemplateVars } from './templates.ts'
import { changedPaths, type Fingerprint, readFingerprint, watchFolder } from './watch-folder.ts'

/** A running instance and its inputs. Equal inputs need no restart. */
interface RunningModule {
  readonly instance: ModuleInstance
  readonly owner: ModuleOwner
  readonly inputs: readonly unknown[]
  /** Its id in the catalog. */
  readonly shownId: string
  degraded?: string
}

interface FailedModule {
  readonly inputs: readonly unknown[]
  readonly problem: LoadProblem
  readonly outOfResources?: boolean
}

/** Maximum time that a replaced module may finish its running calls. */
const DRAIN_MS = 5_000
const INDEX = /[\\/]index\.[cm]?[jt]s$/

/** Loads files as owners of the catalog and keeps them current. A broken file does not affect the others. */
export function createLoader(options: LoaderOptions): Loader {
  const { catalog, log, clock = systemClock, autoload } = options
  // Node reports imported files by their real path, so paths are compared in that form.
  const modulesDir =
    options.modulesDir !== undefined && existsSync(options.modulesDir)
      ? realpathSync(options.modulesDir)
      : options.modulesDir
  const vars: TemplateVars = { modules_dir: modulesDir ?? '', config_file: '', user_agent: '', ...options.vars }
  let settings = options.settings
  const isWanted = (id: string): boolean => settings[id]?.enabled !== false && (autoload || Object.hasOwn(settings, id))
  const importer = createImporter(modulesDir ?? '', options.hostModules)
  const files = createModuleFiles({
    bundledDirs: options.bundledDirs,
    ...(modulesDir === undefined ? {} : { modulesDir }),
    importer,
    importTimeoutMs: options.importTimeoutMs ?? 10_000,
    clock,
    log,
    isWanted,
    isOn: options.isOn,
    ...(options.beforeDropIns ? { beforeDropIns: options.beforeDropIns } : {}),
  })
  const shownIdOf = ({ id, records }: ModuleOwner): string =>
    records[0]?.entry.bundled && options.isTaken?.(id) ? `${OWN_PREFIX}${id}` : id
  const running = new Map<string, RunningModule>()
  /**
   * Owners that failed to start or to publish, by id. They are tried again when one of their inputs changes, or if a
   * file could not be opened.
   */
  const failures = new Map<string, FailedModule>()
  const starts = new WeakMap<ToolModule, number>()
  const stopping = new Set<Promise<void>>()
  const stopFunctions = new Set<() => void>()
  const loggedKeys = new Set<string>()
  let refused: readonly LoadProblem[] = []
  let replaced: readonly string[] = []
  let lastFingerprint: Fingerprint = new Map()
  let lastLoad: Promise<unknown> = Promise.resolve()
  /** Running and queued loads. */
  let pendingLoads = 0

  /** Loads run one after the other, because each file gets the shared globals while it runs. */
  function enqueue<T>(work: () => Promise<T>): Promise<T> {
    pendingLoads++
    const load = lastLoad.then(work, work).finally(() => pendingLoads--)
    lastLoad = load.catch(() => undefined)
    return load
  }

  async function loadAll(
    shouldReload: (entry: ModuleEntry) => boolean,
    isIncluded?: (entry: ModuleEntry) => boolean,
  ): Promise<Report> {
    const before = new Map([...running].map(([id, { instance }]) => [id, instance]))
    const fingerprint = modulesDir === undefined ? lastFingerprint : await readFingerprint(modulesDir)
    const digest = hash('sha256', JSON.stringify([...fingerprint]))
    const isKnown = options.loadedBefore?.get() === digest
    await files.refresh(shouldReload, isIncluded, !isKnown)
    if (fingerprint.size > 0 && !isKnown && !files.anyStuck && files.pending.length === 0)
      options.loadedBefore?.set(digest)
    // Reported after the load, because a file that could not be read may still be found.
    lastFingerprint = fingerprint
    const records = files.records().filter((record) => isWanted(record.loaded.id))
    const settled = settleOwners(records, (id) => settings[id]?.override === true)
    refused = settled.refused
    replaced = settled.replaced
    for (const sentence of replaced) logOnce(sentence, () => log.warn(sentence, { code: 'E_NAME_TAKEN' }))

    const started = await startChanged(settled.owners)
    const published = started.filter(({ owner, instance, inputs }) => publish(owner, instance, inputs))
    for (const id of [...running.keys()].reverse()) if (!settled.owners.some((owner) => owner.id === id)) remove(id)
    for (const id of failures.keys()) if (!settled.owners.some((owner) => owner.id === id)) failures.delete(id)
    for (const { owner } of published) await setUp(owner.id)
    // A missing module is reported only after all files were read.
    if (!isIncluded) logProblems()
    return createReport(before)
  }

  /** Starts outdated owners in parallel. Returns those that started, in order. */
  async function startChanged(owners: readonly ModuleOwner[]) {
    const attempts = owners.map(async (owner) => {
      const setting = settings[owner.id]
      const inputs = [
        ...owner.records,
        ...owner.toolEntries.map(({ source }) => source),
        JSON.stringify([setting?.config, setting?.setup]),
        shownIdOf(owner),
      ]
      const failure = failures.get(owner.id)
      if (
        isSame(running.get(owner.id)?.inputs, inputs) ||
        (isSame(failure?.inputs, inputs) && !failure?.outOfResources)
      )
        return []
      failures.delete(owner.id)
      try {
        const instance = await startInstance(owner, {
          config: setting?.config,
          vars,
          log,
          clock,
          ...(options.servicesFor && { servicesFor: options.servicesFor }),
          startTimeoutMs: options.startTimeoutMs ?? 30_000,
          changed: () => catalog.touch(),
          starts,
        })
        return [{ owner, instance, inputs }]
      } catch (error) {
        failures.set(owner.id, { inputs, problem: problemOf(owner, error), outOfResources: isResourceExhausted(error) })
        return []
      }
    })
    return (await Promise.all(attempts)).flat()
  }

  function publish(owner: ModuleOwner, instance: ModuleInstance, inputs: readonly unknown[]): boolean {
    const previous = running.get(owner.id)
    const id = shownIdOf(owner)
    try {
      const { tools, ...info } = renameModule(instance, id)
      catalog.set({ id, ...info, origin: 'module', state: 'ready' }, { tools })
    } catch (error) {
      failures.set(owner.id, { inputs, problem: problemOf(owner, error) })
      stopInBackground(instance, 0)
      return false
    }
    running.set(owner.id, { instance, owner, inputs, shownId: id })
    if (previous && previous.shownId !== id) catalog.delete(previous.shownId)
    if (previous) stopInBackground(previous.instance, DRAIN_MS)
    return true
  }

  function remove(id: string): void {
    const previous = running.get(id)
    running.delete(id)
    catalog.delete(previous?.shownId ?? id)
    if (previous) stopInBackground(previous.instance, DRAIN_MS)
  }

  function stopInBackground(instance: ModuleInstance, ms: number): void {
    const stopped = instance.stop(ms).finally(() => stopping.delete(stopped))
    stopping.add(stopped)
  }

  async function setUp(id: string): Promise<void> {
    const owner = running.get(id)
    for (const { action, params } of settings[id]?.setup ?? []) {
      const tool = `${owner?.shownId ?? id}.${action.startsWith(`${id}.`) ? action.slice(id.length + 1) : action}`
      try {
        const result = await options.runStep(tool, fillTemplates(params ?? {}, vars))
        owner?.instance.setup.push({
          action: tool.slice(tool.indexOf('.') + 1),
          value: isRecord(result) && result['kind'] === 'value' ? result['value'] : undefined,
        })
      } catch (error) {
        const reason = `the set-up step ${tool} failed: ${messageOf(error)}`
        log.warn('a set-up step failed', { module: id, step: tool, error: messageOf(error) })
        if (owner && owner.degraded === undefined) owner.degraded = reason
        catalog.describe(owner?.shownId ?? id, { state: 'degraded', reason: owner?.degraded ?? reason })
      }
    }
  }

  const allProblems = (): LoadProblem[] => [
    ...files.problems(),
    ...refused,
    ...[...failures.values()].map(({ problem }) => problem),
  ]

  function logProblems(): void {
    const problems = allProblems()
    for (const key of [...loggedKeys])
      if (key.startsWith('!') && !problems.some(({ error }) => key === `!${error}`)) loggedKeys.delete(key)
    const filesInUse = new Set([...running.values()].flatMap(({ owner }) => filesOf(owner)))
    for (const { file, error, code } of problems) {
      const isHelper = files.loadedHelpers.includes(file)
      const what =
        isHelper || filesInUse.has(file)
          ? `a ${isHelper ? 'helper' : 'module'} was not reloaded, and its earlier version stays in use`
          : 'a module was not loaded'
      logOnce(`!${error}`, () => log.warn(`${what}: ${error}`, { file, code }))
    }
    const knownIds = [...running.keys(), ...files.records().map((record) => record.loaded.id)]
    for (const id of Object.keys(settings)) {
      if (
        knownIds.includes(id) ||
        settings[id]?.enabled === false ||
        id.startsWith('mcp_') ||
        problems.some(({ file }) => file.includes(id))
      )
        continue
      const [near] = findNearest(id, knownIds, 3, 1)
      logOnce(id, () =>
        log.warn(`modules.${id} is configured, but there is no such module`, near ? { nearest: near } : {}),
      )
    }
  }

  function logOnce(key: string, write: () => void): void {
    if (loggedKeys.has(key)) return
    loggedKeys.add(key)
    write()
  }

  function createReport(before: ReadonlyMap<string, ModuleInstance>): Report {
    const ids = [...running.keys()]
    return {
      loaded: ids,
      failed: allProblems(),
      added: ids.filter((id) => !before.has(id)),
      removed: [...before.keys()].filter((id) => !running.has(id)),
      changed: ids.filter((id) => before.has(id) && before.get(id) !== running.get(id)?.instance),
    }
  }

  /** True if some files could not be opened because too many were open. No event reports when that ends. */
  const hasUnopenedFiles = (): boolean =>
    files.hasUnopened || [...failures.values()].some(({ outOfResources }) => outOfResources)

  /**
   * After an event, reloads only what changed. A change that belongs to no single module (a helper, a library) reloads
   * all of them.
   */
  async function reloadChanged(): Promise<void> {
    if (modulesDir === undefined) return
    const fingerprint = await readFingerprint(modulesDir)
    const changed = changedPaths(lastFingerprint, fingerprint)
    if (changed.size === 0 && !hasUnopenedFiles()) return
    const owns = (entry: ModuleEntry, path: string): boolean =>
      entry.file === path || (entry.folder !== undefined && path.startsWith(entry.folder + sep))
    const isChanged = (entry: ModuleEntry): boolean => [...changed].some((path) => owns(entry, path))
    const isShared = (path: string): boolean => {
      const [top = '', ...subPath] = path.slice(modulesDir.length + 1).split(sep)
      const isModule = [...fingerprint.keys()].some(
        (other) => INDEX.test(other) && dirname(other) === join(modulesDir, top),
      )
      return top.startsWith('_') || (subPath.length > 0 && !isModule)
    }
    const reloadsAll = [...changed].some(isShared)
    // A changed file that fails again in the same way is reported again. An error may name a file that is no module.
    const changedFiles = files.entries().filter(isChanged).map(fileName)
    const changedNames = [...changed].map((path) => relative(modulesDir, path).split(sep).join('/'))
    for (const { file, error } of allProblems())
      if (changedFiles.includes(file) || changedNames.some((name) => error.startsWith(`${name}:`)))
        loggedKeys.delete(`!${error}`)
    const report = await loadAll((entry) => (reloadsAll && !files.isStuck(entry)) || isChanged(entry))
    const { added, changed: reloaded, removed, failed } = report
    for (const { entry, loaded } of files.records())
      if (
        [...added, ...reloaded].includes(loaded.id) &&
        !failed.some(({ file }) => file === fileName(entry)) &&
        isChanged(entry)
      )
        log.info(`${relative(modulesDir, entry.file)} loaded`)
    if (added.length + reloaded.length + removed.length > 0)
      log.info('modules were reloaded', { added, changed: reloaded, removed, failed: failed.length })
    if (hasUnopenedFiles()) throw new PegboardError('E_OVERLOADED', 'Not all files could be opened: too many are open.')
  }

  return {
    shared: files.shared,
    dropIns: modulesDir === undefined ? [] : [modulesDir],
    get pending() {
      return pendingLoads ? files.pending : []
    },
    // Bundled modules are published before drop-ins are imported, because a drop-in may hang.
    start: () =>
      enqueue(async () => {
        if (modulesDir !== undefined)
          await loadAll(
            () => true,
            (entry) => entry.bundled,
          )
        return await loadAll(() => false)
      }),
    reload(name) {
      const hasName = (entry: ModuleEntry): boolean =>
        [entry.file, entry.label, entry.stem].includes(name ?? '') ||
        files.records().some((record) => record.entry.file === entry.file && record.loaded.id === name)
      return enqueue(() => loadAll((entry) => name === undefined || hasName(entry)))
    },
    configure(next) {
      return enqueue(() => {
        settings = next
        return loadAll(() => false)
      })
    },
    watch() {
      if (modulesDir === undefined) return () => undefined
      const onEvent = (): Promise<void> =>
        enqueue(reloadChanged).catch((error: unknown) => {
          log.error('cannot reload modules', { error })
          throw error
        })
      const stopWatching = watchFolder(modulesDir, onEvent, { clock, log })
      stopFunctions.add(stopWatching)
      return () => {
        stopFunctions.delete(stopWatching)
        stopWatching()
      }
    },
    status: () => ({
      loaded: [...running].map(([id, { owner, degraded }]) => ({
        id,
        file: filesOf(owner).join(', '),
        ...(degraded === undefined ? { state: 'ready' as const } : { state: 'degraded' as const, reason: degraded }),
      })),
      failed: allProblems(),
      warnings: [...replaced, ...[...running.values()].flatMap(({ instance }) => [...instance.unknownOptions])],
    }),
    stop: () =>
      enqueue(async () => {
        for (const stopWatching of stopFunctions) stopWatching()
        stopFunctions.clear()
        for (const { instance } of [...running.values()].reverse()) await instance.stop(0)
        running.clear()
        await Promise.all(stopping)
      }),
  }
}

const isSame = (a: readonly unknown[] | undefined, b: readonly unknown[]): boolean =>
  a !== undefined && a.length === b.length && a.every((item, index) => item === b[index])

const filesOf = ({ records }: ModuleOwner): string[] => records.map(({ entry }) => fileName(entry))

function problemOf(owner: ModuleOwner, error: unknown): LoadProblem {
  const file = fileName((owner.records[0] as FileRecord).entry)
  return { file, error: `${file}: ${messageOf(error)}`, code: isPegboardError(error) ? error.code : 'E_MODULE_SHAPE' }
}
