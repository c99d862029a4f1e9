/** What one loader's hook has to know. */
export interface HookSettings {
  /** Starts the `v` of every URL this loader imports; other files are left alone. */
  readonly tag: string
  /** The modules folder as a file URL: CommonJS in it asks without a `v`. */
  readonly root: string
  /** A file URL inside Pegboard: `pegboard` and `zod` are resolved from there. */
  readonly home: string
  /** A file URL of the built `strip.ts`: types are stripped where the hook runs, because the thread that asks may be waiting. */
  readonly strip: string
  /** Specifier to file URL, before anything else. */
  readonly hosts: Readonly<Record<string, string>>
}

/**
 * Node runs hooks in a thread of their own and loads them by URL; as a `data:` URL the code is found wherever the bundler
 * has put us, and every loader has an instance of its own.
 */
export const hookUrl = (settings: HookSettings): string =>
  `data:text/javascript,${encodeURIComponent(`const settings = ${JSON.stringify(settings)};${CODE}`)}`

const CODE = `
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'

async function strip(source, file) {
  const { stripTypes } = await import(settings.strip)
  try {
    return await stripTypes(source, file)
  } catch (error) {
    throw new SyntaxError(file + ':' + (error.line ?? 0) + ': ' + error.message)
  }
}

const search = (url) => /^file:[^?#]*(\\?v=([^.&#]*)\\.[0-9]+)$/.exec(url ?? '')
const isMissing = (error) => error?.code === 'ERR_MODULE_NOT_FOUND'

export async function resolve(specifier, context, next) {
  const [, version, tag] = search(context.parentURL) ?? []
  const fresh = tag === settings.tag
  if (!fresh && !context.parentURL?.startsWith(settings.root)) return next(specifier, context)
  if (settings.hosts[specifier]) return { url: settings.hosts[specifier], shortCircuit: true }
  if (specifier === 'pegboard') return next(specifier, { ...context, parentURL: settings.home })
  if (fresh && /^\\.{1,2}\\//.test(specifier)) {
    const found = await relative(specifier, context, next)
    return found.url.includes('/node_modules/') ? found : { ...found, url: found.url.replace(/[?#].*$/, '') + version }
  }
  try {
    return await next(specifier, context)
  } catch (error) {
    // A folder's own zod wins; a folder without one gets ours.
    if (!isMissing(error) || !/^zod(\\/|$)/.test(specifier)) throw error
    return next(specifier, { ...context, parentURL: settings.home })
  }
}

// TypeScript habit: './x.js' may mean './x.ts'.
async function relative(specifier, context, next) {
  try {
    return await next(specifier, context)
  } catch (error) {
    if (!isMissing(error) || !/\\.m?js$/.test(specifier)) throw error
    try {
      return await next(specifier.replace(/js$/, 'ts'), context)
    } catch {
      throw error
    }
  }
}

export async function load(url, context, next) {
  if (!/^file:[^?#]*\\.m?ts([?#]|$)/.test(url) || url.includes('/node_modules/')) return next(url, context)
  const file = fileURLToPath(url.replace(/[?#].*$/, ''))
  const source = await strip(await readFile(file, 'utf8'), file)
  return { format: 'module', source, shortCircuit: true }
}
`
