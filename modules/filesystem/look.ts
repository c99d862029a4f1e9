import { type FolderEntry, isPegboardError, type ToolDef, z } from 'pegboard'
import { folder, path, type Settings, SKIPPED } from './config.ts'
import { walkTree } from './ignored.ts'
import { pathsFor } from './places.ts'

const List = z.object({
  path: folder.describe('The folder.'),
  recursive: z.boolean().default(false).describe('Also what is in its folders.'),
  show_hidden: z.boolean().default(false).describe('Also names that begin with a dot.'),
  limit: z.int().min(1).max(5000).default(500).describe('Entries to give at most.'),
})

export const ls: ToolDef<Settings, typeof List> = {
  title: 'List a folder',
  description:
    'Lists what is in a folder: names and kinds (file, dir, link). Use find to look for files by name, grep to look for text in them.',
  aliases: ['list files', 'list directory', 'dir', 'lister', 'lister fichiers', 'contenu du dossier'],
  tags: ['files', 'folders'],
  input: List,
  effect: 'read',
  opaque: ['entries'],
  sideEffects: ['none'],
  examples: [{ input: {} }, { input: { path: 'src', recursive: true, limit: 100 } }],
  async run({ path: wanted, recursive, show_hidden, limit }, { config, signal }) {
    const paths = pathsFor(config)
    const { path: shown, entries: direct } = await paths.listFolder(wanted)
    const hidden = (name: string): boolean => !show_hidden && name.startsWith('.')
    const found: FolderEntry[] = []
    if (!recursive) found.push(...direct.filter(({ name }) => !hidden(name)).slice(0, limit + 1))
    else
      for await (const entry of paths.walk(wanted, ({ name }) => hidden(name))) {
        signal.throwIfAborted()
        if (!hidden(entry.name)) found.push(entry)
        if (found.length > limit) break
      }
    const entries = found.slice(0, limit).map(({ path: one, kind }) => ({ path: one, kind }))
    if (found.length > limit) return { path: shown, entries, count: limit, truncated: true }
    const others = shown === '.' && paths.roots.length > 1 ? { other_roots: paths.roots.slice(1) } : {}
    return { path: shown, entries, count: entries.length, truncated: false, ...others }
  },
}

const Tree = z.object({
  path: folder.describe('The folder.'),
  depth: z.int().min(1).max(20).default(3).describe('Levels to show.'),
  show_hidden: z.boolean().default(false).describe('Also names that begin with a dot.'),
  ignored: z.boolean().default(false).describe('Also what .gitignore leaves out, and node_modules.'),
  limit: z.int().min(1).max(5000).default(500).describe('Entries to show at most.'),
})

export const tree: ToolDef<Settings, typeof Tree> = {
  title: 'Show a folder as a tree',
  description:
    'Shows folders and files below a folder as an indented text, to get an overview of a project. Folders end with a slash; one with … is not shown further. Use ls for entries with their kinds.',
  aliases: ['directory tree', 'project structure', 'folder overview', 'arborescence', 'structure du projet'],
  tags: ['files', 'folders'],
  input: Tree,
  effect: 'read',
  sideEffects: ['none'],
  examples: [{ input: {} }, { input: { path: 'src', depth: 5 } }],
  async run({ path: wanted, depth, show_hidden, ignored, limit }, { config, signal }) {
    const paths = pathsFor(config)
    const { path: base } = await paths.listFolder(wanted)
    const top = base === '.' ? 0 : base.split('/').length
    const level = (shown: string): number => shown.split('/').length - top
    const hidden = (name: string): boolean => !show_hidden && name.startsWith('.')
    const lines: string[] = []
    const counts = { folders: 0, files: 0 }
    const shut = (entry: { name: string; path: string }): boolean =>
      hidden(entry.name) || level(entry.path) >= depth || SKIPPED.has(entry.name)
    for await (const entry of walkTree(paths, wanted, { ignored, skip: shut })) {
      signal.throwIfAborted()
      if (hidden(entry.name)) continue
      if (lines.length === limit) return { path: base, tree: lines.join('\n'), ...counts, truncated: true }
      const mark = entry.kind === 'dir' ? (shut(entry) ? '/…' : '/') : entry.kind === 'link' ? '@' : ''
      lines.push(`${'  '.repeat(level(entry.path) - 1)}${entry.name}${mark}`)
      if (entry.kind === 'dir') counts.folders++
      else counts.files++
    }
    return { path: base, tree: lines.join('\n'), ...counts, truncated: false }
  },
}

const Stat = z.object({ path: path.describe('The file or folder.') })

export const stat: ToolDef<Settings, typeof Stat> = {
  title: 'Facts about a file',
  description:
    'Tells kind, size, times and permissions of a file or folder, without reading it. Links are followed. Fails if there is nothing; exists says whether there is.',
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
  examples: [{ input: { path: 'package.json' } }],
  async run({ path: wanted }, { config }) {
    const { mode, mtime, atime, birthtime, ...facts } = await pathsFor(config).stat(wanted)
    return {
      ...facts,
      mode: mode.toString(8).padStart(3, '0'),
      mtime: mtime.toISOString(),
      atime: atime.toISOString(),
      created: birthtime.toISOString(),
    }
  },
}

export const exists: ToolDef<Settings, typeof Stat> = {
  title: 'Whether a file exists',
  description:
    'Says whether there is a file or folder at a path, and of which kind. What is protected or outside the folders is an error, not an answer.',
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
  async run({ path: wanted }, { config }) {
    try {
      return { path: wanted, exists: true, kind: (await pathsFor(config).stat(wanted)).kind }
    } catch (error) {
      if (isPegboardError(error) && error.code === 'E_NOT_FOUND') return { path: wanted, exists: false }
      throw error
    }
  },
}
