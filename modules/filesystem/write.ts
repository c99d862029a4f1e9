import { type ToolDef, ToolError, z } from 'pegboard'
import { path, type Settings, writable } from './config.ts'
import type { History } from './history.ts'
import { pathsFor } from './places.ts'

const Write = z.object({
  path: path.describe('The file.'),
  content: z.string().describe('The whole text, or what to add with append.'),
  append: z.boolean().default(false).describe('Add at the end instead of replacing the file.'),
  create_dirs: z.boolean().default(true).describe('Make missing folders.'),
})

/** @param historyOf where what was there before is kept */
export const writeTool = (historyOf: (config: Settings) => History): ToolDef<Settings, typeof Write> => ({
  title: 'Write a file',
  description:
    'Creates a text file or replaces it whole, at once or not at all; with append it adds at the end. What was there before is lost: read it first. Not for folders (mkdir).',
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
  async run({ path: wanted, content, append, create_dirs }, { config, caller }) {
    const bytes = Buffer.byteLength(content)
    if (bytes > config.max_file_size)
      throw new ToolError(`The content has ${bytes} bytes; ${config.max_file_size} are allowed.`, {
        code: 'E_TOO_LARGE',
        hint: 'Write less, or in parts with append; modules.filesystem.config.max_file_size decides.',
      })
    const history = historyOf(config)
    const { path: shown, created } = await history.inTurn(wanted, () =>
      history.write(pathsFor(config), caller.principal, wanted, content, { append, createFolders: create_dirs }),
    )
    return { path: shown, bytes, created, appended: append && !created }
  },
})

const Mkdir = z.object({
  path: path.describe('The folder.'),
  parents: z.boolean().default(true).describe('Make missing folders above it, too.'),
})

export const mkdir: ToolDef<Settings, typeof Mkdir> = {
  title: 'Make a folder',
  description:
    'Makes a folder, by default with those above it. One that exists already is left as it is. Not needed before write, which makes folders itself.',
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
  async run({ path: wanted, parents }, { config }) {
    return await pathsFor(config).makeFolder(wanted, { parents })
  },
}
