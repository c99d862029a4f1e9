import { randomBytes } from 'node:crypto'
import { createRequire, register } from 'node:module'
import { sep } from 'node:path'
import { pathToFileURL } from 'node:url'
import { MessageChannel, type MessagePort } from 'node:worker_threads'
import { messageOf } from '../core/errors.ts'
import { hookUrl } from './hook.ts'
import { SourceError, stripTypes } from './strip.ts'

export type Namespace = Readonly<Record<string, unknown>>

/** Imports drop-in files, from any folder, `.ts` too, and again when they have changed. */
export interface Importer {
  /** Files imported until the next `renew` share one instance of their relative helpers. */
  import(file: string): Promise<Namespace>
  /** What is imported from now on is read anew, relative helpers included. */
  renew(): void
  dispose(): void
}

// A bundler or a test runner may put its own function in place of import(); code from a URL keeps Node's.
const NATIVE = 'data:text/javascript,export default (url) => import(url)'

/**
 * @param root the modules folder, absolute
 * @param hosts specifier to file URL for what drop-ins import; `pegboard` is this very package by default
 */
export function createImporter(root: string, hosts: Readonly<Record<string, string>> = {}): Importer {
  const tag = randomBytes(6).toString('hex')
  const cjs = createRequire(import.meta.url).cache
  let generation = 1
  let port: MessagePort | undefined

  const hook = (): void => {
    if (port) return
    const { port1, port2 } = new MessageChannel()
    port = port1
    port1.on('message', (request: StripRequest) => void answer(port1, request))
    port1.unref()
    const home = import.meta.url
    // Run from source (tests, development) there is no built package to resolve to.
    const own = home.endsWith('.ts') ? { pegboard: new URL('../index.ts', home).href } : {}
    const url = hookUrl({ tag, root: `${pathToFileURL(root).href}/`, home, hosts: { ...own, ...hosts } })
    register(url, { data: { port: port2 }, transferList: [port2] })
  }

  return {
    async import(file) {
      hook()
      const native = (await import(/* @vite-ignore */ NATIVE)) as { default(url: string): Promise<Namespace> }
      return await native.default(`${pathToFileURL(file).href}?v=${tag}.${generation}`)
    },
    renew() {
      generation++
      // CommonJS is remembered by path, whatever the URL says.
      if (port)
        for (const path of Object.keys(cjs))
          if (path.startsWith(root + sep) && !path.includes(`${sep}node_modules${sep}`)) delete cjs[path]
    },
    dispose() {
      port?.close()
      port = undefined
    },
  }
}

interface StripRequest {
  readonly id: number
  readonly source: string
  readonly file: string
}

async function answer(port: MessagePort, { id, source, file }: StripRequest): Promise<void> {
  try {
    port.postMessage({ id, code: await stripTypes(source, file) })
  } catch (error) {
    port.postMessage({ id, error: messageOf(error), line: error instanceof SourceError ? error.line : 0 })
  }
}
