import { type Dirent, promises as fs, readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { SwitchedOffRecord } from './switched-off.ts'

/** One file of a modules folder, or one subfolder with an index file. */
export interface ModuleEntry {
  /** The file to import, absolute. */
  readonly file: string
  /** The path relative to the modules folder, with `/`, for messages. */
  readonly label: string
  /** Name without extension; for a folder its name. */
  readonly stem: string
  /** The folder itself, absolute, if the entry is a folder. */
  readonly folder?: string
  /** True if the name begins with `_`: a helper that is evaluated first, shared with the others, and never a module. */
  readonly helper: boolean
  readonly bundled: boolean
  /**
   * Description used instead of importing the code while the configuration does not enable the module. Bundled modules
   * only.
   */
  readonly switchedOff?: SwitchedOffRecord | undefined
}

const CODE = /\.(?:js|mjs|cjs|ts|mts)$/
const NOT_CODE = /\.d\.m?ts$|\.(?:test|spec)\.[cm]?[jt]s$/
const INDEX = ['index.js', 'index.mjs', 'index.cjs', 'index.ts', 'index.mts']

/** True for names of files that can be modules or parts of modules. */
export const isCode = (name: string): boolean => CODE.test(name) && !NOT_CODE.test(name) && !name.startsWith('.')

/**
 * The entries of a modules folder: helpers (`_`) first, then the others, each in alphabetical order, ignoring case. A
 * missing folder has none.
 */
export async function discoverModules(dir: string, bundled: boolean): Promise<ModuleEntry[]> {
  const entries: ModuleEntry[] = []
  for (const child of listFolder(dir)) {
    if (child.name.startsWith('.') || child.name === 'node_modules') continue
    const path = join(dir, child.name)
    const helper = child.name.startsWith('_')
    const isFolder = child.isSymbolicLink() ? await isDirectory(path) : child.isDirectory()
    if (isFolder) {
      const childNames = new Set(listFolder(path).map((child) => child.name))
      const index = INDEX.find((name) => childNames.has(name))
      if (index)
        entries.push({
          file: join(path, index),
          label: `${child.name}/${index}`,
          stem: child.name,
          folder: path,
          helper,
          bundled,
        })
    } else if (isCode(child.name))
      entries.push({ file: path, label: child.name, stem: child.name.replace(CODE, ''), helper, bundled })
  }
  return entries.sort(
    (a, b) =>
      Number(b.helper) - Number(a.helper) ||
      compare(a.stem.toLowerCase(), b.stem.toLowerCase()) ||
      compare(a.label, b.label),
  )
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

function listFolder(dir: string): Dirent[] {
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

/** True if the path does not exist, or was removed while it was read. */
export const isMissing = (error: unknown): boolean =>
  ['ENOENT', 'ENOTDIR', 'ELOOP'].includes((error as NodeJS.ErrnoException).code ?? '')
