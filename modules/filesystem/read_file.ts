import { realpath } from 'node:fs/promises'
import { isAbsolute, resolve } from 'node:path'
import { isPegboardError, type ToolDef, ToolError, z } from 'pegboard'
import { lazySchema } from '../_lazy-schema.ts'
import { requiredText } from '../_required-text.ts'
import type { Settings } from './config.ts'
import { pathsFor } from './paths.ts'

const READ_BYTES = 256 * 1024

const ReadFile = lazySchema(() =>
  z.object({
    path: requiredText('path')
      .max(4096)
      .describe('File path; file_cache_dir/… and file_state_dir/… are separate folders.'),
  }),
)

/** The requirements fix behaviour and texts of this tool: existing agents call it. */
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
      const denyRule =
        isPegboardError(error) && error.code === 'E_PATH_DENIED' ? findDenyRule(requestedPath, config) : undefined
      if (denyRule === undefined) throw error
      throw new ToolError(`read_file denied for path "${requestedPath}" (matched "${await denyRule}")`, {
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
