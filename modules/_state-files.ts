import { isUtf8 } from 'node:buffer'
import { promises as fs } from 'node:fs'
import { join } from 'node:path'
import { createPaths, exclusively, isPegboardError, ToolError } from 'pegboard'
import { tooLarge } from './_errors.ts'

const MAX_BYTES = 4 * 1024 * 1024
const UNWRITABLE: ReadonlySet<string> = new Set(['EACCES', 'EPERM', 'EROFS', 'ENOTDIR', 'EEXIST', 'ENOSPC'])

/** Text files of a module that people and agents may also edit. */
export interface StateFiles {
  /** Empty if the file does not exist. @throws ToolError E_TOO_LARGE */
  read(name: string): Promise<string>
  /** Replaces the file atomically. */
  write(name: string, text: string): Promise<void>
  /** Runs work with an exclusive lock, across processes. */
  alone<T>(work: () => Promise<T>): Promise<T>
}

/** Callers in this process queue here and take the lock file in turn. */
const lines = new Map<string, Promise<unknown>>()

/**
 * @param dir created on first write, private to its owner
 * @param lock name of the lock file
 * @param setting part of the configuration that errors name
 */
export function stateFiles(dir: string, lock: string, setting: string): StateFiles {
  const paths = createPaths({ roots: [dir], setting })

  async function ensureFolder(): Promise<void> {
    await fs.mkdir(dir, { recursive: true, mode: 0o700 })
    if ((await fs.lstat(dir)).isSymbolicLink())
      throw new ToolError('The folder of the files is a symbolic link.', {
        code: 'E_PATH_OUTSIDE_ROOT',
        hint: `Set ${setting}.file_state_dir to the folder itself.`,
      })
  }

  const notWritable = (error: unknown): never => {
    const { code } = error as NodeJS.ErrnoException
    if (!UNWRITABLE.has(code ?? '')) throw error
    throw new ToolError('The folder of the files is not writable.', {
      code: 'E_READ_ONLY',
      hint: `Check ${setting}.file_state_dir.`,
      cause: error,
    })
  }

  return {
    async read(name) {
      try {
        return await paths.readFile(name, async ({ handle, size }) => {
          if (size > MAX_BYTES)
            throw tooLarge(`${name} has ${size} bytes; the limit is ${MAX_BYTES}.`, 'Move old entries to another file.')
          const bytes = await handle.readFile()
          // Other bytes would be changed by writing them back.
          if (!isUtf8(bytes))
            throw new ToolError(`${name} is not UTF-8 text.`, {
              hint: 'The file was not changed. Save it as UTF-8, or move it away.',
            })
          return String(bytes)
        })
      } catch (error) {
        if (isPegboardError(error) && error.code === 'E_NOT_FOUND') return ''
        throw error
      }
    },
    async write(name, text) {
      await ensureFolder()
      await paths.writeFile(name, text, { mode: 0o600 })
    },
    async alone(work) {
      const file = join(dir, lock)
      const throwBusy = (): never => {
        throw new ToolError('Another process is changing the files.', { hint: 'Try again.', retryable: true })
      }
      const turn = (lines.get(file) ?? Promise.resolve()).then(async () => {
        await ensureFolder().catch(notWritable)
        return await exclusively(file, work, throwBusy).catch(notWritable)
      })
      const settled = turn.catch(() => undefined)
      lines.set(file, settled)
      try {
        return await turn
      } finally {
        if (lines.get(file) === settled) lines.delete(file)
      }
    },
  }
}
