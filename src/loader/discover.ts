import { type Dirent, promises as fs, readdirSync } from 'node:fs'
import { join } from 'node:path'

/** One file of a modules folder, or one folder in it with an index file. */
export interface Entry {
  /** The file to import, absolute. */
  readonly file: string
  /** The same below the modules folder, with `/`: what people are shown. */
  readonly label: string
  /** Name without extension; a folder's name. */
  readonly stem: string
  /** The folder itself, absolute, when the entry is one. */
  readonly folder?: string
  /** `_` in front: evaluated first, shared with the others, never a module. */
  readonly helper: boolean
  readonly bundled: boolean
}

const CODE = /\.(?:js|mjs|cjs|ts|mts)$/
const NOT_CODE = /\.d\.m?ts$|\.(?:test|spec)\.[cm]?[jt]s$/
const INDEX = ['index.js', 'index.mjs', 'index.cjs', 'index.ts', 'index.mts']

/** True for the names of files that could be modules or parts of them. */
export const isCode = (name: string): boolean => CODE.test(name) && !NOT_CODE.test(name) && !name.startsWith('.')

/**
 * The entries of a modules folder: `_` first, then the others, each in alphabetical order whatever the case.
 * A folder that does not exist has none.
 */
export async function discover(dir: string, bundled: boolean): Promise<Entry[]> {
  const entries: Entry[] = []
  for (const found of list(dir)) {
    if (found.name.startsWith('.') || found.name === 'node_modules') continue
    const path = join(dir, found.name)
    const helper = found.name.startsWith('_')
    const isFolder = found.isSymbolicLink() ? await isDirectory(path) : found.isDirectory()
    if (isFolder) {
      const inside = new Set(list(path).map((child) => child.name))
      const index = INDEX.find((name) => inside.has(name))
      if (index)
        entries.push({
          file: join(path, index),
          label: `${found.name}/${index}`,
          stem: found.name,
          folder: path,
          helper,
          bundled,
        })
    } else if (isCode(found.name))
      entries.push({ file: path, label: found.name, stem: found.name.replace(CODE, ''), helper, bundled })
  }
  return entries.sort(
    (a, b) =>
      Number(b.helper) - Number(a.helper) ||
      compare(a.stem.toLowerCase(), b.stem.toLowerCase()) ||
      compare(a.label, b.label),
  )
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

function list(dir: string): Dirent[] {
  try {
    return readdirSync(dir, { withFileTypes: true })
  } catch (error) {
    if (isMissing(error)) return []
    throw error
  }
}

async function isDirectory(path: string): Promise<boolean> {
  try {
    return (await fs.stat(path)).isDirectory()
  } catch (error) {
    if (isMissing(error)) return false
    throw error
  }
}

/** The path is not there, or was taken away while we looked. */
export const isMissing = (error: unknown): boolean =>
  ['ENOENT', 'ENOTDIR', 'ELOOP'].includes((error as NodeJS.ErrnoException).code ?? '')
