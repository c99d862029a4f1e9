import { lstatSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { foldPath } from './denied-paths.ts'
import { createRealPathCache, isInside, realForm, statOrNone } from './real-path.ts'

/** Files that decide what Pegboard runs, trusts or keeps secret. Absolute paths; a folder includes everything in it. */
export interface OwnFiles {
  /** Tools never read, list or write these. */
  readonly secret: readonly string[]
  /** Like `secret`, but the operator may give a folder below them to a module as a root. */
  readonly kept: readonly string[]
  /** Tools read but never write these. */
  readonly fixed: readonly string[]
  /** Folders that programs load code from; tools may write only documents there. A root below such a folder is not restricted. */
  readonly code: readonly string[]
}

/** How a path relates to own files. */
export interface OwnFilesCheck {
  isSecret(path: string, root: string): boolean
  isFixed(path: string, root: string, kind?: 'folder'): boolean
  /** True if an own file is, or will be, below the path: renaming the path would replace that file. */
  isAbove(path: string): boolean
}

/** @param except path of a server's entry in the configuration, to leave out what only this server needs */
type FindOwnFiles = (except?: string) => OwnFiles

/** One function for each app of this process. The files of all apps are protected from every module. */
const sources = new Set<FindOwnFiles>()

/** @param files is called when a module first uses a path @returns a function that removes the protection */
export function protectOwnFiles(files: FindOwnFiles): () => void {
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
const CACHE_MS = 1_000
const lookUp = createRealPathCache()

function currentPlaces(): Promise<readonly Place[]> {
  if (places === undefined || places.until < performance.now())
    places = { list: findPlaces(), until: performance.now() + CACHE_MS }
  return places.list
}

/** Finds the real forms of many paths, most of which do not exist and are in the same folders. */
function createFolderCache(): (path: string) => Promise<string> {
  const folders = new Map<string, Promise<string>>()
  return async (path) => {
    // Also true for a broken link.
    if (statOrNone(path, lstatSync)) return await realForm(path, lookUp)
    const folder = dirname(path)
    const real = folders.get(folder) ?? realForm(folder, lookUp)
    folders.set(folder, real)
    return join(await real, basename(path))
  }
}

/** The own files of all apps, with absolute paths. @param except see `FindOwnFiles` */
const listConfigured = (except?: string): Array<{ readonly kind: keyof OwnFiles; readonly path: string }> =>
  [...sources]
    .flatMap((source) => Object.entries(source(except)) as Array<[keyof OwnFiles, readonly string[]]>)
    .flatMap(([kind, paths]) => paths.map((path) => ({ kind, path: resolve(path) })))

/** Each path as written and as it really is, because a folder on the way may be a link. */
async function findPlaces(): Promise<readonly Place[]> {
  const formOf = createFolderCache()
  const found = new Map<string, Place>()
  for (const { kind, path } of listConfigured())
    for (const form of new Set([path, await formOf(path)])) {
      const start = foldFolder(form)
      found.set(`${kind} ${start}`, { kind, start })
    }
  return [...found.values()]
}

const isHiddenKind = (kind: keyof OwnFiles): boolean => kind === 'secret' || kind === 'kept'
const foldFolder = (path: string): string => foldPath(path).replace(/\/+$/, '')
const isAtOrBelow = (path: string, start: string): boolean =>
  path.startsWith(start) && (path.length === start.length || path[start.length] === '/')

/** The own files inside or around these roots, as they are at this moment. */
export async function ownFilesIn(roots: readonly string[]): Promise<OwnFilesCheck> {
  const allPlaces = sources.size === 0 ? [] : await currentPlaces()
  const byRoot = new Map<string, readonly Place[]>()
  const placesFor = (root: string): readonly Place[] => {
    const cached = byRoot.get(root)
    if (cached) return cached
    const foldedRoot = foldFolder(root)
    const found = allPlaces.filter(({ kind, start }) => {
      const isBelow = foldedRoot !== start && isAtOrBelow(foldedRoot, start)
      return isAtOrBelow(start, foldedRoot) || (isBelow && kind !== 'kept' && kind !== 'code')
    })
    byRoot.set(root, found)
    return found
  }
  for (const root of roots) placesFor(root)
  return {
    isSecret(path, root) {
      const list = placesFor(root)
      if (list.length === 0) return false
      const foldedPath = foldFolder(path)
      return list.some(({ kind, start }) => isHiddenKind(kind) && isAtOrBelow(foldedPath, start))
    },
    isFixed(path, root, entryKind) {
      const list = placesFor(root)
      if (list.length === 0) return false
      const whole = foldFolder(path)
      return list.some(({ kind, start }) => {
        if (!isAtOrBelow(whole, start)) return false
        if (kind !== 'code') return true
        return entryKind === 'folder' ? whole === start : !isDocument(path)
      })
    },
    isAbove(path) {
      const whole = foldFolder(path)
      return allPlaces.some(({ start }) => start.length > whole.length && isAtOrBelow(start, whole))
    },
  }
}

// Programs may load files with any other extension, or none.
const DOCUMENTS = new Set(
  'md markdown txt text rst adoc csv tsv jsonl ndjson log diff patch html htm css ics vcf eml pdf rtf doc docx odt xls xlsx ods ppt pptx odp epub tex bib png jpg jpeg gif webp bmp tif tiff svg ico heic avif wav mp3 ogg oga opus flac m4a mp4 m4v mov webm mkv avi srt vtt zip gz tgz bz2 xz tar 7z db sqlite sqlite3 parquet ipynb drawio mmd'.split(
    ' ',
  ),
)
/** Files with the extension of a document that package managers or build tools read. */
const NOT_DOCUMENTS = /^(?:requirements.*|constraints.*|cmakelists|runtime)\.txt$/i

function isDocument(path: string): boolean {
  const name = basename(path)
  const [, ending] = /[^.].*\.([^.]+)$/.exec(name) ?? []
  return ending !== undefined && DOCUMENTS.has(ending.toLowerCase()) && !NOT_DOCUMENTS.test(name)
}

/** How a sandbox treats own files in its writable folders. */
export interface OwnFilesBelow {
  /** Hidden. */
  readonly secret: readonly string[]
  /** Read-only. */
  readonly fixed: readonly string[]
  /**
   * Folders that contain an own file or may get one: nothing may be created, removed or renamed in them. A mask over
   * a single file would disappear when a program outside the sandbox replaces the file, and a missing file cannot be
   * masked.
   */
  readonly closed: readonly string[]
}

/** Own files in folders of a sandbox. @param except the entry of the server that runs in it */
export async function ownFilesBelow(folders: readonly string[], except?: string): Promise<OwnFilesBelow> {
  const secret = new Set<string>()
  const fixed = new Set<string>()
  const closed = new Set<string>()
  const formOf = createFolderCache()
  for (const { kind, path } of listConfigured(except)) {
    const real = await formOf(path)
    const list = isHiddenKind(kind) ? secret : fixed
    if (folders.some((folder) => isInside(real, folder))) list.add(real)
    if (kind === 'fixed' || kind === 'secret')
      for (const folder of folders) if (isInside(folder, real)) list.add(folder)
    // A link is replaced at its own path, not at its target.
    for (const form of new Set([real, join(await formOf(dirname(path)), basename(path))])) {
      const parent = nearestFolderOf(form)
      if (parent !== undefined && folders.some((folder) => isInside(parent, folder))) closed.add(parent)
    }
  }
  // Nothing inside a hidden folder needs to be hidden again.
  const isHidden = (path: string): boolean => [...secret].some((one) => one !== path && isInside(path, one))
  const isCovered = (path: string): boolean => [...secret, ...fixed].some((one) => isInside(path, one))
  return {
    secret: [...secret].filter((path) => !isHidden(path)),
    fixed: [...fixed].filter((path) => !secret.has(path) && !isHidden(path)),
    closed: [...closed].filter((path) => !isCovered(path)),
  }
}

/** The nearest existing folder above a file, link or missing path; undefined for a folder. */
function nearestFolderOf(path: string): string | undefined {
  if (statOrNone(path, lstatSync)?.isDirectory()) return undefined
  let folder = dirname(path)
  while (!statOrNone(folder)?.isDirectory()) folder = dirname(folder)
  return folder
}
