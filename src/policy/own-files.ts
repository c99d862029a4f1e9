import { basename, resolve } from 'node:path'
import { foldPath } from './denied.ts'
import { isInside, realForm, rememberReal } from './real.ts'

/** Files that decide what Pegboard runs, trusts or keeps secret; absolute paths, folders with all in them. */
export interface OwnFiles {
  /** Never read, listed or written. */
  readonly secret: readonly string[]
  /** The same; but a folder further down may be the root of a module that the operator gave it to. */
  readonly kept: readonly string[]
  /** Read, never written. */
  readonly fixed: readonly string[]
  /** Folders that programs load code from: only documents are written there. A root further down is not part of it. */
  readonly code: readonly string[]
}

/** How a path relates to own files. */
export interface OwnTest {
  isSecret(path: string, root: string): boolean
  isFixed(path: string, root: string, kind?: 'folder'): boolean
  /** Whether an own file lies, or will lie, below the path: whoever renames that replaces the file. */
  isAbove(path: string): boolean
}

/** Each app of this process has its own files; all of them bind every module. */
const sources = new Set<() => OwnFiles>()

/** @param files is asked when a module first uses a path. @returns how to end it */
export function protectOwnFiles(files: () => OwnFiles): () => void {
  sources.add(files)
  places = undefined
  return () => {
    sources.delete(files)
    places = undefined
  }
}

interface Place {
  readonly kind: keyof OwnFiles
  readonly start: string
}

let places: { readonly list: Promise<readonly Place[]>; readonly until: number } | undefined
const KEPT_MS = 1_000
const lookUp = rememberReal()

function placesNow(): Promise<readonly Place[]> {
  if (places === undefined || places.until < performance.now())
    places = { list: findPlaces(), until: performance.now() + KEPT_MS }
  return places.list
}

/** Each as it is named and as it really is: a folder on the way may be a link. */
async function findPlaces(): Promise<readonly Place[]> {
  const found = new Map<string, Place>()
  for (const source of sources)
    for (const [kind, paths] of Object.entries(source()) as [keyof OwnFiles, readonly string[]][])
      for (const path of paths)
        for (const form of new Set([resolve(path), await realForm(resolve(path), lookUp)])) {
          const start = folded(form)
          found.set(`${kind} ${start}`, { kind, start })
        }
  return [...found.values()]
}

const folded = (path: string): string => foldPath(path).replace(/\/+$/, '')
const isAt = (path: string, start: string): boolean =>
  path.startsWith(start) && (path.length === start.length || path[start.length] === '/')

/** Own files as they are now, as seen from some roots. */
export async function ownFilesIn(roots: readonly string[]): Promise<OwnTest> {
  const all = sources.size === 0 ? [] : await placesNow()
  const byRoot = new Map<string, readonly Place[]>()
  const near = (root: string): readonly Place[] => {
    const known = byRoot.get(root)
    if (known) return known
    const at = folded(root)
    const found = all.filter(({ kind, start }) => {
      const isBelow = at !== start && isAt(at, start)
      return isAt(start, at) || (isBelow && kind !== 'kept' && kind !== 'code')
    })
    byRoot.set(root, found)
    return found
  }
  for (const root of roots) near(root)
  return {
    isSecret(path, root) {
      const list = near(root)
      if (list.length === 0) return false
      const whole = folded(path)
      return list.some(({ kind, start }) => (kind === 'secret' || kind === 'kept') && isAt(whole, start))
    },
    isFixed(path, root, folder) {
      const list = near(root)
      if (list.length === 0) return false
      const whole = folded(path)
      return list.some(({ kind, start }) => {
        if (!isAt(whole, start)) return false
        if (kind !== 'code') return true
        return folder === 'folder' ? whole === start : !isDocument(path)
      })
    },
    isAbove(path) {
      const whole = folded(path)
      return all.some(({ start }) => start.length > whole.length && isAt(start, whole))
    },
  }
}

// What a program may load by itself can have any other ending, or none.
const DOCUMENTS = new Set(
  'md markdown txt text rst adoc csv tsv jsonl ndjson log diff patch html htm css ics vcf eml pdf rtf doc docx odt xls xlsx ods ppt pptx odp epub tex bib png jpg jpeg gif webp bmp tif tiff svg ico heic avif wav mp3 ogg oga opus flac m4a mp4 m4v mov webm mkv avi srt vtt zip gz tgz bz2 xz tar 7z db sqlite sqlite3 parquet ipynb drawio mmd'.split(
    ' ',
  ),
)
/** Documents by their ending, but programs that install or build something read them. */
const NOT_DOCUMENTS = /^(?:requirements.*|constraints.*|cmakelists|runtime)\.txt$/i

function isDocument(path: string): boolean {
  const name = basename(path)
  const [, ending] = /[^.].*\.([^.]+)$/.exec(name) ?? []
  return ending !== undefined && DOCUMENTS.has(ending.toLowerCase()) && !NOT_DOCUMENTS.test(name)
}

/** Own files in folders that a sandbox lets be written: what it hides, and what it lets be read only. */
export async function ownFilesBelow(
  folders: readonly string[],
): Promise<{ readonly secret: readonly string[]; readonly fixed: readonly string[] }> {
  const secret = new Set<string>()
  const fixed = new Set<string>()
  for (const source of sources)
    for (const [kind, paths] of Object.entries(source()) as [keyof OwnFiles, readonly string[]][])
      for (const path of paths) {
        const real = await realForm(resolve(path), lookUp)
        const list = kind === 'secret' || kind === 'kept' ? secret : fixed
        for (const folder of folders) {
          if (isInside(real, folder)) list.add(real)
          else if ((kind === 'fixed' || kind === 'secret') && isInside(folder, real)) list.add(folder)
        }
      }
  // What is hidden has nothing in it to hide.
  const isHidden = (path: string): boolean => [...secret].some((one) => one !== path && isInside(path, one))
  return {
    secret: [...secret].filter((path) => !isHidden(path)),
    fixed: [...fixed].filter((path) => !secret.has(path) && !isHidden(path)),
  }
}
