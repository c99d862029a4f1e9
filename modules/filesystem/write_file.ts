import { isAbsolute, resolve } from 'node:path'
import { type ToolDef, ToolError, z } from 'pegboard'
import { tooLarge } from '../_errors.ts'
import { ALIASES } from '../_folders.ts'
import { lazySchema } from '../_lazy-schema.ts'
import { anyText, requiredText } from '../_required-text.ts'
import type { Settings } from './config.ts'
import { pathsFor, resolveAlias } from './paths.ts'

const WriteFile = lazySchema(() =>
  z.object({
    path: requiredText('path').max(4096).describe('File path; a relative path is inside file_cache_dir.'),
    content: anyText('content').describe('Text to write; can be empty.'),
    mode: z
      .enum(['overwrite', 'append'], {
        error: ({ input }) =>
          `invalid mode: ${typeof input === 'string' ? input : typeof input} (expected overwrite|append)`,
      })
      .default('overwrite')
      .describe('Replace the file, or append to it.'),
  }),
)

/** The requirements fix behaviour and texts of this tool: existing agents call it. */
export const write_file: ToolDef<Settings, typeof WriteFile> = {
  title: 'Write a file of your own',
  description:
    'Write a text file into one of two folders of your own: file_cache_dir/… (relative paths too) or file_state_dir/…; up to 512 KiB. For files of the project use write.',
  aliases: [
    'cache directory',
    'keep intermediate result',
    'cache ablegen',
    'dossier de cache',
    'carpeta de caché',
    'папка кэша',
    '缓存目录',
    'scratch file',
    'fichier de travail',
  ],
  tags: ['files', 'text'],
  input: WriteFile,
  effect: 'destructive',
  available: ({ config }) => config.readonly !== true || 'modules.filesystem.config.readonly is true',
  sideEffects: ['creates or replaces a file', 'creates folders'],
  examples: [
    { input: { path: 'file_state_dir/a.txt', content: 'x' } },
    { input: { path: 'log.txt', content: 'one more\n', mode: 'append' } },
  ],
  async run({ path: requestedPath, content, mode }, { config }) {
    const bytes = Buffer.byteLength(content)
    const max = config.write_file_max_bytes
    if (bytes > max)
      throw tooLarge(`content too large (${bytes} bytes > ${max} max)`, 'Write it in parts, with mode append.')
    const aliased =
      resolveAlias(config, requestedPath, 'write') ??
      (isAbsolute(requestedPath) ? undefined : resolveAlias(config, `file_cache_dir/${requestedPath}`, 'write'))
    if (!aliased)
      throw new ToolError(`refusing to write outside allowed base dirs (${ALIASES.join(', ')})`, {
        code: 'E_PATH_OUTSIDE_ROOT',
        hint: 'Use a relative path, or one that begins with file_state_dir/.',
      })
    const { alias, rest } = aliased
    const { path } = await pathsFor(config).writeFile(`${alias}/${rest}`, content, { append: mode === 'append' })
    return { path, abs_path: resolve(config[alias], rest), base_dir: alias, bytes, mode, max_bytes: max }
  },
}
