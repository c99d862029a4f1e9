export interface HookSettings {
  /** Prefix of the `v` parameter of every URL that this loader imports. Other files stay unchanged. */
  readonly tag: string
  /** The modules folder as a file URL. CommonJS files in it import without a `v` parameter. */
  readonly root: string
  /** A file URL inside Pegboard, from which `pegboard` and `zod` are resolved. */
  readonly home: string
  /**
   * The file URL of the built `strip.ts`. The hook strips types itself, because the importing thread may be blocked.
   */
  readonly strip: string
  /** Specifiers and their file URLs, checked first. */
  readonly hosts: Readonly<Record<string, string>>
}

/**
 * Node runs hooks in their own thread and loads them by URL. A `data:` URL works wherever the bundler puts this file,
 * and gives every loader its own instance.
 */
export const hookUrl = (settings: HookSettings): string =>
  `data:text/javascript,${encodeURIComponent(`const settings = ${JSON.stringify(settings)};${CODE}`)}`

const CODE = `
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'

async function strip(source, file) {
  const { stripTypes } = await import(settings.strip)
  try {
    return await stripTypes(source)
  } catch (error) {
    throw new SyntaxError(file + ':' + (error.line ?? 0) + ': ' + error.message)
  }
}

const parseVersion = (url) => /^file:[^?#]*(\\?v=([^.&#]*)\\.[0-9]+)$/.exec(url ?? '')
const isMissing = (error) => error?.code === 'ERR_MODULE_NOT_FOUND'

export async function resolve(specifier, context, next) {
  const [, version, tag] = parseVersion(context.parentURL) ?? []
  const isFresh = tag === settings.tag
  if (!isFresh && !context.parentURL?.startsWith(settings.root)) return next(specifier, context)
  if (settings.hosts[specifier]) return { url: settings.hosts[specifier], shortCircuit: true }
  if (specifier === 'pegboard') return next(specifier, { ...context, parentURL: settings.home })
  if (isFresh && /^\\.{1,2}\\//.test(specifier)) {
    const resolved = await resolveRelative(specifier, context, next)
    return resolved.url.includes('/node_modules/') ? resolved : { ...resolved, url: resolved.url.replace(/[?#].*$/, '') + version }
  }
  try {
    return await next(specifier, context)
  } catch (error) {
    // The folder has no zod of its own.
    if (!isMissing(error) || !/^zod(\\/|$)/.test(specifier)) throw error
    return next(specifier, { ...context, parentURL: settings.home })
  }
}

// TypeScript sources import './x.ts' as './x.js'.
async function resolveRelative(specifier, context, next) {
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
