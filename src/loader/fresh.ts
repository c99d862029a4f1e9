import { randomBytes } from 'node:crypto'
import { createRequire, register } from 'node:module'
import { sep } from 'node:path'
import { pathToFileURL } from 'node:url'
import { hookUrl } from './hook.ts'

export type Namespace = Readonly<Record<string, unknown>>

/** Imports drop-in files, from any folder, `.ts` too, and again when they have changed. */
export interface Importer {
  /** Files imported until the next `renew` share one instance of their relative helpers. */
  load(file: string): Promise<Namespace>
  /** What is imported from now on is read anew, relative helpers included. */
  renew(): void
}

// A bundler or a test runner may put its own function in place of import(); code from a URL keeps Node's.
const NATIVE = 'data:text/javascript,export default (url) => import(url)'

/**
 * @param root the modules folder, absolute
 * @param hosts specifier to file URL for what drop-ins import; `pegboard` is this very package by default
 */
export function createImporter(root: string, hosts: Readonly<Record<string, string>> = {}): Importer {
  const tag = randomBytes(6).toString('hex')
  let generation = 1
  let hooked = false

  const hook = (): void => {
    if (hooked) return
    hooked = true
    const home = import.meta.url
    // Run from source (tests, development) there is no built package to resolve to.
    const fromSource = home.endsWith('.ts')
    const own = fromSource ? { pegboard: new URL('../index.ts', home).href } : {}
    const strip = new URL(fromSource ? '../../dist/loader/strip.js' : './loader/strip.js', home).href
    register(hookUrl({ tag, root: `${pathToFileURL(root).href}/`, home, strip, hosts: { ...own, ...hosts } }))
  }

  return {
    async load(file) {
      hook()
      const native = (await import(/* @vite-ignore */ NATIVE)) as { default(url: string): Promise<Namespace> }
      return await native.default(`${pathToFileURL(file).href}?v=${tag}.${generation}`)
    },
    renew() {
      generation++
      // CommonJS is remembered by path, whatever the URL says.
      if (!hooked) return
      const { cache: cjs } = createRequire(import.meta.url)
      for (const path of Object.keys(cjs))
        if (path.startsWith(root + sep) && !path.includes(`${sep}node_modules${sep}`)) delete cjs[path]
    },
  }
}
