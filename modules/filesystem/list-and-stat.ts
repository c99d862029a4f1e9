import { lstat } from 'node:fs/promises'
import {
  type FolderEntry,
  type HeldFolder,
  isPegboardError,
  type OpenFolder,
  type Paths,
  type ToolDef,
  z,
} from 'pegboard'
import { lazySchema } from '../_lazy-schema.ts'
import { createBudget } from './budget.ts'
import { createExcludeMatcher, exclude, folder, path, type Settings, SKIPPED } from './config.ts'
import { walkTree } from './ignored.ts'
import { pathsFor } from './paths.ts'

const List = lazySchema(() =>
  z.object({
    path: folder.describe('Folder path.'),
    recursive: z.boolean().default(false).describe('Include what is in its folders.'),
    show_hidden: z.boolean().default(false).describe('Include names that begin with a dot.'),
    details: z.boolean().default(false).describe('Include sizes and times.'),
    sort: z
      .enum(['name', 'size', 'time'])
      .default('name')
      .describe('Sort by size (largest first), time (newest first) or name.'),
    limit: z.int().min(1).max(5000).default(500).describe('Maximum number of entries.'),
  }),
)

interface Entry {
  readonly path: string
  readonly kind: string
  readonly size?: number
  readonly mtime?: string
}

const COMPARE = {
  size: (a: Entry, b: Entry) => (b.size ?? 0) - (a.size ?? 0),
  time: (a: Entry, b: Entry) => ((b.mtime ?? '') < (a.mtime ?? '') ? -1 : 1),
}

/** Maximum number of entries sorted by anything but name. */
const MAX_SORTED = 50_000
const STAT_BATCH = 64

/** Size and times of the entries of an open folder that still exist. */
async function* statEach(anchor: string, entries: readonly FolderEntry[], signal: AbortSignal) {
  for (let start = 0; start < entries.length; start += STAT_BATCH) {
    signal.throwIfAborted()
    const stats = entries.slice(start, start + STAT_BATCH).map(async (entry) => {
      const found = await lstat(`${anchor}/${entry.name}`).catch(() => undefined)
      return found && ([entry, found] as const)
    })
    for (const found of await Promise.all(stats)) if (found) yield found
  }
}

export const ls: ToolDef<Settings, typeof List> = {
  title: 'List a folder',
  description:
    'List what is in a folder: names and kinds (file, dir, link); details adds sizes and times. Use find to look for files by name, grep to look for text in them.',
  aliases: ['list files', 'list directory', 'dir', 'lister', 'lister fichiers', 'contenu du dossier'],
  tags: ['files', 'folders'],
  input: List,
  effect: 'read',
  opaque: ['entries'],
  sideEffects: ['none'],
  examples: [{ input: {} }, { input: { path: 'src', recursive: true, limit: 100 } }],
  async run(input, { config, signal: caller }) {
    const { path: requestedPath, recursive, show_hidden, details, sort, limit } = input
    const paths = pathsFor(config)
    const budget = createBudget(caller)
    const { signal } = budget
    const isShown = ({ name }: FolderEntry): boolean => show_hidden || !name.startsWith('.')
    const listing: Listing = { found: [], details: new Map(), isPartial: false }
    let folderPath = (await paths.stat(requestedPath)).path
    const isLate = await budget.spend(async () => {
      if (recursive || details || sort !== 'name') return await walkFolder(paths, input, isShown, signal, listing)
      const folder = await paths.listFolder(requestedPath, { signal })
      folderPath = folder.path
      listing.isPartial = folder.truncated === true
      for (const entry of folder.entries) if (isShown(entry)) listing.found.push(entry)
    })
    const allEntries = listing.found.map(
      ({ path: entryPath, kind }): Entry => ({ path: entryPath, kind, ...listing.details.get(entryPath) }),
    )
    if (sort !== 'name') allEntries.sort(COMPARE[sort])
    const entries = allEntries.slice(0, limit)
    const otherRoots = folderPath === '.' && paths.roots.length > 1 ? { other_roots: paths.roots.slice(1) } : {}
    const truncated = listing.isPartial || isLate || allEntries.length > limit
    return { path: folderPath, count: entries.length, truncated, ...otherRoots, entries }
  },
}

interface Listing {
  readonly found: FolderEntry[]
  /** By path. */
  readonly details: Map<string, Omit<Entry, 'path' | 'kind'>>
  isPartial: boolean
}

/** Adds to the listing, so that it keeps what was found if the time is up. */
async function walkFolder(
  paths: Paths,
  { path: requestedPath, recursive, details, sort, limit }: z.infer<typeof List>,
  isShown: (entry: FolderEntry) => boolean,
  signal: AbortSignal,
  listing: Listing,
): Promise<void> {
  const inside = async ({ anchor, entries }: HeldFolder): Promise<void> => {
    // Sorted by name, only the shown entries need their details.
    const entriesToStat = sort === 'name' ? entries.filter(isShown).slice(0, limit) : entries
    for await (const [{ path: entryPath }, fileStat] of statEach(anchor, entriesToStat, signal))
      listing.details.set(entryPath, {
        ...(fileStat.isFile() ? { size: fileStat.size } : {}),
        mtime: fileStat.mtime.toISOString(),
      })
  }
  const walkOptions = {
    signal,
    skip: (entry: FolderEntry) => !recursive || !isShown(entry),
    entered: async ({ truncated }: OpenFolder) => {
      if (truncated) listing.isPartial = true
    },
    ...(details || sort !== 'name' ? { inside } : {}),
  }
  // With another order the last entry may come first.
  const max = sort === 'name' ? limit : MAX_SORTED
  for await (const entry of paths.walk(requestedPath, walkOptions)) {
    if (isShown(entry)) listing.found.push(entry)
    if (listing.found.length > max) return
  }
}

const Tree = lazySchema(() =>
  z.object({
    path: folder.describe('Folder path.'),
    depth: z.int().min(1).max(20).default(3).describe('Number of levels to show.'),
    show_hidden: z.boolean().default(false).describe('Include names that begin with a dot.'),
    ignored: z.boolean().default(false).describe('Include files ignored by .gitignore, and node_modules.'),
    exclude,
    limit: z.int().min(1).max(5000).default(500).describe('Maximum number of entries.'),
  }),
)

export const tree: ToolDef<Settings, typeof Tree> = {
  title: 'Show a folder as a tree',
  description:
    'Show files and folders below a folder as an indented tree, for an overview of a project. Folders end with a slash; one with … is not expanded. Use ls for entries with their kinds.',
  aliases: ['directory tree', 'project structure', 'folder overview', 'arborescence', 'structure du projet'],
  tags: ['files', 'folders'],
  input: Tree,
  effect: 'read',
  sideEffects: ['none'],
  examples: [{ input: {} }, { input: { path: 'src', depth: 5 } }],
  async run(
    { path: requestedPath, depth, show_hidden, ignored, exclude: patterns, limit },
    { config, signal: caller },
  ) {
    const paths = pathsFor(config)
    const budget = createBudget(caller)
    let [base, isFull, partial] = ['', false, false]
    const entered = ({ truncated }: OpenFolder): void => {
      if (truncated) partial = true
    }
    if (
      await budget.spend(async (signal) => {
        base = (await paths.listFolder(requestedPath, { signal })).path
      })
    )
      return { path: requestedPath, tree: '', folders: 0, files: 0, truncated: true }
    const baseLevel = base === '.' ? 0 : base.split('/').length
    const levelOf = (shown: string): number => shown.split('/').length - baseLevel
    const isHidden = (name: string): boolean => !show_hidden && name.startsWith('.')
    const isExcluded = createExcludeMatcher(patterns, base)
    const lines: string[] = []
    const counts = { folders: 0, files: 0 }
    const isCollapsed = (entry: { name: string; path: string }): boolean =>
      isHidden(entry.name) || levelOf(entry.path) >= depth || SKIPPED.has(entry.name) || isExcluded(entry.path)
    const isLate = await budget.spend(async (signal) => {
      for await (const entry of walkTree(paths, requestedPath, { ignored, skip: isCollapsed, signal, entered })) {
        if (isHidden(entry.name) || isExcluded(entry.path)) continue
        if (lines.length === limit) {
          isFull = true
          return
        }
        const mark = entry.kind === 'dir' ? (isCollapsed(entry) ? '/…' : '/') : entry.kind === 'link' ? '@' : ''
        lines.push(`${'  '.repeat(levelOf(entry.path) - 1)}${entry.name}${mark}`)
        if (entry.kind === 'dir') counts.folders++
        else counts.files++
      }
    })
    return { path: base, tree: lines.join('\n'), ...counts, truncated: isFull || partial || isLate }
  },
}

/** Bytes and numbers of files below a folder. Links are neither followed nor counted. */
async function measureFolder(paths: Paths, path: string, caller: AbortSignal) {
  let [size, files, folders, partial] = [0, 0, 0, false]
  const isLate = await createBudget(caller).spend(async (signal) => {
    const inside = async ({ anchor, entries }: HeldFolder): Promise<void> => {
      const fileEntries = entries.filter(({ kind }) => kind === 'file')
      for await (const [, stats] of statEach(anchor, fileEntries, signal)) size += stats.size
    }
    const entered = async ({ truncated }: OpenFolder): Promise<void> => {
      if (truncated) partial = true
    }
    for await (const { kind } of paths.walk(path, { signal, inside, entered })) {
      if (kind === 'dir') folders++
      if (kind === 'file') files++
    }
  })
  return { size, files, folders, truncated: partial || isLate }
}

const Stat = lazySchema(() => z.object({ path: path.describe('File or folder path.') }))

export const stat: ToolDef<Settings, typeof Stat> = {
  title: 'File information',
  description:
    'Show kind, size, times and permissions of a file or folder, without reading it; the size of a folder is that of all files below it. Follows links. Fails if it does not exist; exists checks that.',
  aliases: [
    'how big',
    'when changed',
    'file permissions',
    'wie groß',
    'qué tamaño',
    'tamaño del archivo',
    'размер файла',
    '文件大小',
    '文件有多大',
    'file_stat',
    'file info',
    'file size',
    'modification date',
    'informations fichier',
    'taille du fichier',
  ],
  tags: ['files', 'folders'],
  input: Stat,
  effect: 'read',
  sideEffects: ['none'],
  volatile: ['atime'],
  examples: [{ input: { path: 'package.json' } }],
  async run({ path: requestedPath }, { config, signal }) {
    const paths = pathsFor(config)
    const { path: shown, kind, size, mode, names, mtime, atime, birthtime } = await paths.stat(requestedPath)
    return {
      path: shown,
      kind,
      ...(kind === 'dir' ? await measureFolder(paths, requestedPath, signal) : { size, hard_links: names }),
      mode: mode.toString(8).padStart(3, '0'),
      mtime: mtime.toISOString(),
      atime: atime.toISOString(),
      created: birthtime.toISOString(),
    }
  },
}

export const exists: ToolDef<Settings, typeof Stat> = {
  title: 'Check whether a file exists',
  description:
    'Check whether there is a file or folder at a path, and its kind. A protected path or one outside the folders is an error.',
  aliases: [
    'is there a file',
    'check file is there',
    'gibt es die datei',
    'existe el archivo',
    'есть ли файл',
    '文件存在',
    '是否存在',
    'file exists',
    'path exists',
    'existe',
    'fichier existe',
  ],
  tags: ['files', 'folders'],
  input: Stat,
  effect: 'read',
  sideEffects: ['none'],
  examples: [{ input: { path: 'src/index.ts' } }],
  async run({ path: requestedPath }, { config }) {
    try {
      return { path: requestedPath, exists: true, kind: (await pathsFor(config).stat(requestedPath)).kind }
    } catch (error) {
      if (isPegboardError(error) && error.code === 'E_NOT_FOUND') return { path: requestedPath, exists: false }
      throw error
    }
  },
}
