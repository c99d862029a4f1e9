import { normalize } from 'node:path/posix'
import { isPegboardError, type Paths, type ToolDef, ToolError, z } from 'pegboard'
import { invalid } from '../_errors.ts'
import { lazySchema } from '../_lazy-schema.ts'
import { path, relativeTo, type Settings, writable } from './config.ts'
import { pathsFor } from './paths.ts'

const Rm = lazySchema(() =>
  z.object({
    path: path.describe('File or folder path.'),
    recursive: z.boolean().default(false).describe('Remove a folder with everything in it.'),
  }),
)

export const rm: ToolDef<Settings, typeof Rm> = {
  title: 'Remove a file or folder',
  description:
    'Remove (delete) a file, a link or an empty folder permanently; recursive removes full folders, too. A folder that holds something protected is not removed.',
  aliases: [
    'get rid of',
    'delete folder for good',
    'löschen',
    'borrar',
    'удалить',
    '删除',
    'delete',
    'delete file',
    'remove file',
    'delete folder',
    'erase',
    'supprimer',
    'supprimer fichier',
    'effacer',
  ],
  tags: ['files', 'folders'],
  input: Rm,
  effect: 'destructive',
  available: writable,
  sideEffects: ['removes files and folders'],
  examples: [{ input: { path: 'old.txt' } }, { input: { path: 'build', recursive: true } }],
  run: ({ path: requestedPath, recursive }, { config, signal }) =>
    pathsFor(config).remove(requestedPath, { recursive, signal }),
}

const Move = lazySchema(() =>
  z.object({
    from: path.describe('Current path.'),
    to: path.describe('New path of the file itself, not the folder for it.'),
    overwrite: z.boolean().default(false).describe('Overwrite an existing file.'),
  }),
)

export const mv: ToolDef<Settings, typeof Move> = {
  title: 'Move or rename',
  description:
    'Move or rename a file or folder; missing folders are created. Never overwrites, except a file with overwrite. To keep the old one use cp.',
  aliases: [
    'put into folder',
    'call differently',
    'give another name',
    'umbenennen',
    'verschieben',
    'cambiar el nombre',
    'mover',
    'переименовать',
    '重命名',
    '移动文件',
    'move file',
    'rename',
    'rename file',
    'déplacer',
    'renommer',
    'renommer fichier',
  ],
  tags: ['files', 'folders'],
  input: Move,
  effect: 'destructive',
  available: writable,
  sideEffects: ['moves files and folders', 'creates folders'],
  examples: [{ input: { from: 'draft.md', to: 'posts/final.md' } }],
  async run({ from, to, overwrite }, { config }) {
    const { path: shown, created } = await pathsFor(config).move(from, to, { overwrite })
    return { from, path: shown, replaced: !created }
  },
}

export const cp: ToolDef<Settings, typeof Move> = {
  title: 'Copy a file or folder',
  description:
    'Copy a file, or a folder with all in it; missing folders are created. Never overwrites, except files with overwrite. Links and protected files are not copied.',
  aliases: [
    'backup copy',
    'make a backup',
    'kopieren',
    'copiar',
    'скопировать',
    '复制',
    'copy',
    'copy file',
    'copy folder',
    'duplicate',
    'copier',
    'copier fichier',
    'dupliquer',
  ],
  tags: ['files', 'folders'],
  input: Move,
  effect: 'destructive',
  available: writable,
  sideEffects: ['creates or replaces files', 'creates folders'],
  examples: [{ input: { from: 'config.example.yaml', to: 'config.local.yaml' } }],
  async run({ from, to, overwrite }, { config, signal }) {
    const paths = pathsFor(config)
    const { kind, path: base } = await paths.stat(from)
    if (kind !== 'dir') {
      const { path: shown, created } = await copyFile(paths, from, to, overwrite)
      return { from, path: shown, replaced: !created, files: 1 }
    }
    const isSameOrInside = (shown: string): boolean => base === '.' || `${normalize(shown)}/`.startsWith(`${base}/`)
    const createRefusal = (): ToolError =>
      invalid(`'${to}' is the same as '${from}', or inside it.`, 'Choose another path.')
    if (isSameOrInside(to)) throw createRefusal()
    const target = await paths.makeFolder(to)
    if (isSameOrInside(target.path)) throw createRefusal()
    if (!target.created && !overwrite)
      throw new ToolError(`'${to}' already exists.`, { hint: 'Choose another name, or set overwrite: true.' })
    let files = 0
    const skipped: string[] = []
    for await (const entry of paths.walk(from)) {
      signal.throwIfAborted()
      const targetPath = `${target.path}/${relativeTo(base, entry.path)}`
      try {
        if (entry.kind === 'dir') await paths.makeFolder(targetPath)
        else if (entry.kind === 'file') {
          await copyFile(paths, entry.path, targetPath, overwrite)
          files++
        } else skipped.push(entry.path)
      } catch (error) {
        if (!isPegboardError(error) || error.code !== 'E_PATH_DENIED') throw error
        skipped.push(entry.path)
      }
    }
    return { from, path: target.path, files, ...(skipped.length > 0 ? { skipped: skipped.slice(0, 100) } : {}) }
  },
}

const copyFile = (paths: Paths, from: string, to: string, overwrite: boolean) =>
  paths.readFile(from, ({ handle, mode }) =>
    paths.writeFile(to, handle.createReadStream({ autoClose: false }), { mode, exclusive: !overwrite }),
  )
