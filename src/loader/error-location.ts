import { readFile } from 'node:fs/promises'
import { basename, dirname, relative, resolve, sep } from 'node:path'
import { pathToFileURL } from 'node:url'
import { messageOf } from '../core/errors.ts'
import { SourceError, stripTypes } from './strip-types.ts'

/**
 * Describes an error during the import of a file, as `weather.ts:12: sentence`. It names the file with the error, which
 * may be a helper. Omits the line if it is unknown.
 * @param root folder that file names are shown relative to
 */
export async function locateError(error: unknown, file: string, root: string): Promise<string> {
  const place =
    findInStack(error, root) ?? (await findInImports(error, root)) ?? (await findSyntaxError(error, file, root))
  const name = relative(root, place?.file ?? file)
    .split(sep)
    .join('/')
    .replaceAll('\n', '?')
  const sentence = place?.sentence ?? messageOf(error).split('\n')[0] ?? ''
  return `${name}${place?.line ? `:${place.line}` : ''}: ${sentence}`
}

interface SourceLocation {
  readonly file: string
  readonly line: number
  readonly sentence?: string
}

/** The first `path:line` below the folder, as a path or as a URL. */
function findInStack(error: unknown, root: string): SourceLocation | undefined {
  if (!isErrorLike(error)) return undefined
  const url = pathToFileURL(root).href
  for (const line of `${error.message}\n${error.stack ?? ''}`.split('\n')) {
    for (const prefix of [`${url}/`, root + sep]) {
      const start = line.indexOf(prefix)
      if (start < 0) continue
      const [, rest, number, sentence] =
        /^(.+?\.[cm]?[jt]s)(?:\?v=[^:]*)?:(\d+)(?:: (.*))?/.exec(line.slice(start + prefix.length)) ?? []
      if (!rest) continue
      const name = prefix.startsWith('file:') ? decodeURIComponent(rest) : rest
      return { file: resolve(root, name), line: Number(number), ...(sentence ? { sentence } : {}) }
    }
  }
  return undefined
}

/** "Cannot find X imported from FILE" has no line, so the line that contains X is used. */
async function findInImports(error: unknown, root: string): Promise<SourceLocation | undefined> {
  const [, specifier, importer] = /'([^']+)' imported from (.+)$/m.exec(messageOf(error)) ?? []
  if (!specifier || !importer?.startsWith(root)) return undefined
  const line = (await readLines(importer)).findIndex(
    (text) => /\b(?:import|from|require)\b/.test(text) && text.includes(basename(specifier)),
  )
  return line < 0 ? undefined : { file: importer, line: line + 1 }
}

/** Node does not report the location of an ESM syntax error, so the file and its imports are parsed again. */
async function findSyntaxError(error: unknown, file: string, root: string): Promise<SourceLocation | undefined> {
  if ((error as Error | undefined)?.name !== 'SyntaxError') return undefined
  const queue = [file]
  for (let i = 0; i < queue.length && i < 50; i++) {
    const path = queue[i] as string
    const source = (await readLines(path)).join('\n')
    try {
      await stripTypes(source)
    } catch (problem) {
      if (problem instanceof SourceError && problem.line > 0) return { file: path, line: problem.line }
    }
    for (const [, specifier] of source.matchAll(/\b(?:from|import)\s*\(?\s*['"](\.[^'"]+)['"]/g)) {
      const next = resolve(dirname(path), specifier ?? '')
      if (next.startsWith(root) && !queue.includes(next)) queue.push(next)
    }
  }
  return undefined
}

async function readLines(file: string): Promise<string[]> {
  try {
    return (await readFile(file, 'utf8')).split('\n')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code) return []
    throw error
  }
}

const isErrorLike = (error: unknown): error is Error =>
  typeof error === 'object' && error !== null && typeof (error as Error).message === 'string'
