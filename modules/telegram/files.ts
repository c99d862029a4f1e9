import { basename } from 'node:path'
import { isPegboardError, type OpenFile, ToolError } from 'pegboard'
import { tooLarge } from '../_errors.ts'
import { pathInCache } from '../_folders.ts'
import { cachePaths, MAX_FILE_BYTES, SETTING, type Settings } from './config.ts'

/** Reads a file of the cache folder, by an absolute path, a relative path, or its alias. */
export async function readCachedFile(
  requestedPath: string,
  settings: Settings,
): Promise<{ name: string; bytes: Uint8Array }> {
  const path = pathInCache(requestedPath)
  const paths = cachePaths(settings)
  try {
    return await paths.readFile(path, async (file) => {
      if (file.size > MAX_FILE_BYTES)
        throw tooLarge(`file too large to send (>${MAX_FILE_BYTES} bytes): ${requestedPath}`, 'Send a smaller file.')
      return { name: basename(file.path), bytes: await readContent(file) }
    })
  } catch (error) {
    if (!isPegboardError(error)) throw error
    if (error.code === 'E_PATH_OUTSIDE_ROOT')
      throw new ToolError(`refusing to send file outside file_cache_dir: ${requestedPath}`, {
        code: 'E_PATH_OUTSIDE_ROOT',
        hint: `Copy it there first; see ${SETTING}.file_cache_dir.`,
      })
    if (error.code === 'E_NOT_REGULAR_FILE' && (await paths.stat(path).catch(() => undefined))?.kind === 'dir')
      throw new ToolError(`path is a directory: ${requestedPath}`, {
        code: 'E_NOT_REGULAR_FILE',
        hint: 'Name a file in it.',
      })
    throw error
  }
}

/** The current content, limited even if the file grows. */
async function readContent({ handle, size }: OpenFile): Promise<Uint8Array> {
  const buffer = new Uint8Array(size)
  let length = 0
  for (let read = 1; read > 0 && length < size; length += read)
    read = (await handle.read(buffer, length, size - length, length)).bytesRead
  return buffer.subarray(0, length)
}

const MAX_NAME_CHARS = 120
const MAX_NAME_BYTES = 200

/** The name without folders, control characters and characters that file systems do not allow, cut to a length. */
export function safeFileName(originalName: string): string {
  const name = basename(originalName.replaceAll('\\', '/'))
    .replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029<>:"|?*\u202a-\u202e\u2066-\u2069]/g, '_')
    .trim()
  const characters = [...name].slice(0, MAX_NAME_CHARS)
  while (Buffer.byteLength(characters.join('')) > MAX_NAME_BYTES) characters.pop()
  return characters.join('') || 'file'
}
