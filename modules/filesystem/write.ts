import { type ToolDef, z } from 'pegboard'
import { tooLarge } from '../_errors.ts'
import { lazySchema } from '../_lazy-schema.ts'
import { path, type Settings, writable } from './config.ts'
import type { History } from './history.ts'
import { pathsFor } from './paths.ts'

const Write = lazySchema(() =>
  z.object({
    path: path.describe('The file.'),
    content: z.string().describe('Full content, or the text to append.'),
    append: z.boolean().default(false).describe('Append instead of replacing the file.'),
    create_dirs: z.boolean().default(true).describe('Create missing folders.'),
  }),
)

/** @param historyOf where previous contents are stored */
export const writeTool = (historyOf: (config: Settings) => History): ToolDef<Settings, typeof Write> => ({
  title: 'Write a file',
  description:
    'Write a text file: create it or replace it whole, all or nothing; append adds at the end. The old content is lost: read it first. Not for folders (mkdir).',
  aliases: ['write file', 'create file', 'save file', 'écrire', 'écrire fichier', 'enregistrer', 'créer un fichier'],
  tags: ['files', 'text'],
  input: Write,
  effect: 'destructive',
  available: writable,
  sideEffects: ['creates or replaces a file', 'creates folders'],
  examples: [
    { input: { path: 'notes/today.md', content: '# Today\n' } },
    { input: { path: 'log.txt', content: 'one more line\n', append: true } },
  ],
  async run({ path: requestedPath, content, append, create_dirs }, { config, caller }) {
    const bytes = Buffer.byteLength(content)
    if (bytes > config.max_file_size)
      throw tooLarge(
        `The content has ${bytes} bytes; the limit is ${config.max_file_size}.`,
        'Write less, or in parts with append. See modules.filesystem.config.max_file_size.',
      )
    const history = historyOf(config)
    const { path: shown, created } = await history.runInTurn(requestedPath, () =>
      history.write(pathsFor(config), caller, requestedPath, content, { append, createFolders: create_dirs }),
    )
    return { path: shown, bytes, created, appended: append && !created }
  },
})

const Mkdir = lazySchema(() =>
  z.object({
    path: path.describe('Folder path.'),
    parents: z.boolean().default(true).describe('Create missing parent folders.'),
  }),
)

export const mkdir: ToolDef<Settings, typeof Mkdir> = {
  title: 'Make a folder',
  description:
    'Create a folder, by default with its parent folders. An existing folder is left unchanged. Not needed before write, which creates folders itself.',
  aliases: [
    'make directory',
    'create folder',
    'create directory',
    'créer dossier',
    'créer un répertoire',
    'nouveau dossier',
  ],
  tags: ['files', 'folders'],
  input: Mkdir,
  effect: 'write',
  available: writable,
  idempotent: true,
  sideEffects: ['creates folders'],
  examples: [{ input: { path: 'reports/2026' } }],
  async run({ path: requestedPath, parents }, { config }) {
    return await pathsFor(config).makeFolder(requestedPath, { parents })
  },
}
