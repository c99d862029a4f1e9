import { realpathSync } from 'node:fs'
import { join } from 'node:path'
import { type Caller, localCaller, type ServicesFor } from '../core/caller.ts'
import { waitAtMost } from '../core/wait-at-most.ts'
import type { Calls } from '../exec/tool-calls.ts'
import { createLoader } from '../loader/module-loader.ts'
import { createFileStore } from '../state/file-store.ts'
import type { AppBase } from './app-base.ts'
import { serverNamed } from './claimed-names.ts'

export interface AppModulesOptions extends AppBase {
  readonly servicesFor: ServicesFor
  readonly calls: Pick<Calls, 'call'>
  readonly beforeDropIns: (() => void) | undefined
  readonly everyModule: boolean
}

/** How long calls of unknown tools, and meta-tools, wait for modules that are being loaded. */
const LOADING_WAIT_MS = 5_000

export type AppModules = ReturnType<typeof createAppModules>

export function createAppModules(options: AppModulesOptions) {
  const { config, settings, catalog, log, packageInfo: own } = options
  const { clock } = options.state
  const { dirs, modulesDir, file } = config
  const loadedFiles = createFileStore<string>(join(dirs.cache, 'modules'))
  const loader = createLoader({
    catalog,
    log,
    clock,
    bundledDirs: modulesDir !== undefined && isSameFolder(modulesDir, join(own.root, 'modules')) ? [] : [own.modules],
    ...(modulesDir === undefined ? {} : { modulesDir }),
    isOn: (id) =>
      options.everyModule ||
      Object.hasOwn(settings.config.modules, id) ||
      Object.values(settings.config.profiles).some(({ modules }) => Object.hasOwn(modules, id)),
    isTaken: (id) => serverNamed(settings.config, id) !== undefined,
    autoload: config.autoload,
    servicesFor: options.servicesFor,
    settings: config.modules,
    vars: {
      workspace: dirs.workspace,
      state_dir: dirs.state,
      cache_dir: dirs.cache,
      ...(file === undefined ? {} : { config_file: file }),
      user_agent: config.services.fetch.userAgent,
      env: options.env,
    },
    importTimeoutMs: config.loader.importTimeoutMs,
    ...(options.beforeDropIns ? { beforeDropIns: options.beforeDropIns } : {}),
    loadedBefore: {
      get: () => loadedFiles.get('loaded'),
      set: (digest) => loadedFiles.set('loaded', digest),
    },
    startTimeoutMs: config.loader.startTimeoutMs,
    runStep: (id, input) => options.calls.call({ name: id, input, caller: localCaller, origin: 'setup' }),
  })
  let isLoaded = false
  let loading: Promise<void> | undefined
  return {
    loader,
    /** True once all modules have started or failed. */
    get isLoaded(): boolean {
      return isLoaded
    },
    /** Resolves when modules are loaded, after five seconds at the latest; undefined while nothing is being loaded. */
    whileLoading: (): Promise<void> | undefined => loading,
    /** Resolves when all modules have started or failed. @param otherSources resolves when other sources are in the catalog */
    async load(otherSources: Promise<unknown>): Promise<void> {
      const all = Promise.all([loader.start(), otherSources])
      const settled = Promise.allSettled([all])
      loading = waitAtMost(LOADING_WAIT_MS, settled, undefined, clock).then(() => {
        loading = undefined
      })
      await all
      isLoaded = true
    },
  }
}

/** A caller may learn about a file only if it may see the module, which nearly always has the name of the file. */
export const isSeenFile = (
  file: string,
  { policy }: { readonly policy: { allowsOwner(owner: string, by: Caller): boolean } },
  caller: Caller,
): boolean => policy.allowsOwner(/^(?:bundled\/)?_?([^./\\]*)/.exec(file)?.[1] ?? file, caller)

function isSameFolder(a: string, b: string): boolean {
  try {
    return realpathSync(a) === realpathSync(b)
  } catch {
    // One of the folders does not exist.
    return false
  }
}
