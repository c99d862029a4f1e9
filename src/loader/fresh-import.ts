import { randomBytes } from 'node:crypto'
import { createRequire, register } from 'node:module'
import { sep } from 'node:path'
import { pathToFileURL } from 'node:url'
import { hookUrl } from './import-hook.ts'
import { importUrl } from './import-url.ts'

export type ModuleNamespace = Readonly<Record<string, unknown>>

/** Imports drop-in files from any folder, including `.ts`, and imports them again after they change. */
export interface Importer {
  /** Files that are imported before the next `renew` share one instance of their relative helpers. */
  load(file: string): Promise<ModuleNamespace>
  /** Later imports read all files again, including relative helpers. */
  renew(): void
}

// A bundler or a test runner may replace import(). Code from a data URL keeps the one of Node.
const NATIVE = 'data:text/javascript,export default (url) => import(url)'

/**
 * @param root the modules folder, absolute
 * @param hosts maps specifiers that drop-ins import to file URLs; default `pegboard` to this package
 */
export function createImporter(root: string, hosts: Readonly<Record<string, string>> = {}): Importer {
  const tag = randomBytes(6).toString('hex')
  let generation = 1
  let isInstalled = false

  const installHook = (): void => {
    if (isInstalled) return
    isInstalled = true
    const home = import.meta.url
    // When Pegboard runs from source (tests, development), there is no built package to resolve to.
    const fromSource = home.endsWith('.ts')
    const ownHosts = fromSource ? { pegboard: new URL('../index.ts', home).href } : {}
    const strip = new URL(fromSource ? '../../dist/loader/strip.js' : './loader/strip.js', home).href
    register(hookUrl({ tag, root: `${pathToFileURL(root).href}/`, home, strip, hosts: { ...ownHosts, ...hosts } }))
  }

  return {
    async load(file) {
      installHook()
      const native = (await importUrl(NATIVE)) as { default(url: string): Promise<ModuleNamespace> }
      return await native.default(`${pathToFileURL(file).href}?v=${tag}.${generation}`)
    },
    renew() {
      generation++
      // Node caches CommonJS modules by path and ignores the query of the URL.
      if (!isInstalled) return
      const { cache: cjs } = createRequire(import.meta.url)
      for (const path of Object.keys(cjs))
        if (path.startsWith(root + sep) && !path.includes(`${sep}node_modules${sep}`)) delete cjs[path]
    },
  }
}
