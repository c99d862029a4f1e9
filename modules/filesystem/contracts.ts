import { realpath } from 'node:fs/promises'
import { isAbsolute, resolve } from 'node:path'
import { isPegboardError, type ToolDef, ToolError, z } from 'pegboard'
import { tooLarge } from '../_errors.ts'
import { ALIASES } from '../_folders.ts'
import { lazySchema } from '../_lazy-schema.ts'
import { anyText, requiredText } from '../_required-text.ts'
import type { Settings } from './config.ts'
import { pathsFor, placeOf } from './places.ts'

/** Behaviour and texts of these two tools are fixed by the requirements: existing agents call them. */
const READ_BYTES = 256 * 1024

const ReadFile = lazySchema(() =>
  z.object({
    path: requiredText('path')
      .max(4096)
      .describe('File path; file_cache_dir/… and file_state_dir/… are separate folders.'),
  }),
)

export const read_file: ToolDef<Settings, typeof ReadFile> = {
  title: 'Text as agents expect it',
  description:
    'Read a file like read, for agents that know this name: up to 256 KiB of text, with a note if cut. Prefer read, which supports lines, ends and images.',
  aliases: ['morph reader'],
  tags: ['contract'],
  input: ReadFile,
  effect: 'read',
  opaque: ['content'],
  sideEffects: ['none'],
  examples: [{ input: { path: 'file_state_dir/a.txt' } }],
  async run({ path: requestedPath }, { config }) {
    try {
      return await pathsFor(config).readFile(requestedPath, async ({ handle, path, size }) => {
        const buffer = Buffer.alloc(READ_BYTES)
        let length = 0
        for (let bytesRead = 1; bytesRead > 0 && length < READ_BYTES; length += bytesRead)
          bytesRead = (await handle.read(buffer, length, READ_BYTES - length, length)).bytesRead
        if (size <= length) return { path, content: buffer.toString('utf8', 0, length), truncated: false }
        const end = characterEnd(buffer.subarray(0, length))
        const content = `${buffer.toString('utf8', 0, end)}\n[truncated: the first ${end} of ${size} bytes]`
        return { path, content, truncated: true }
      })
    } catch (error) {
      const matched =
        isPegboardError(error) && error.code === 'E_PATH_DENIED' ? findDenyRule(requestedPath, config) : undefined
      if (matched === undefined) throw error
      throw new ToolError(`read_file denied for path "${requestedPath}" (matched "${await matched}")`, {
        code: 'E_PATH_DENIED',
        hint: 'See modules.filesystem.config.deny_names and denied_paths.',
      })
    }
  },
}

/** The setting's name for a denied path, or for what it leads to. */
async function findDenyRule(requestedPath: string, { deny_names, workspace, roots, root }: Settings): Promise<string> {
  const names = async (): Promise<string[]> => {
    const absolute = isAbsolute(requestedPath)
      ? requestedPath
      : resolve(workspace, roots?.[0] ?? root ?? '.', requestedPath)
    const real = await realpath(absolute).catch(() => '')
    return [...requestedPath.split(/[\\/]/), ...real.split(/[\\/]/)].map((name) => name.toLowerCase())
  }
  const pathNames = new Set(await names())
  return deny_names.find((name) => pathNames.has(name.toLowerCase())) ?? 'denied_paths'
}

/** End of the last complete character. */
function characterEnd(bytes: Uint8Array): number {
  let start = bytes.length - 1
  while (start > 0 && bytes.length - start < 4 && ((bytes[start] as number) & 0xc0) === 0x80) start--
  const lead = bytes[start] ?? 0
  const length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1
  return bytes.length - start < length ? start : bytes.length
}

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
    const place =
      placeOf(config, requestedPath, 'write') ??
      (isAbsolute(requestedPath) ? undefined : placeOf(config, `file_cache_dir/${requestedPath}`, 'write'))
    if (!place)
      throw new ToolError(`refusing to write outside allowed base dirs (${ALIASES.join(', ')})`, {
        code: 'E_PATH_OUTSIDE_ROOT',
        hint: 'Use a relative path, or one that begins with file_state_dir/.',
      })
    const { alias, rest } = place
    const { path } = await pathsFor(config).writeFile(`${alias}/${rest}`, content, { append: mode === 'append' })
    return { path, abs_path: resolve(config[alias], rest), base_dir: alias, bytes, mode, max_bytes: max }
  },
}
