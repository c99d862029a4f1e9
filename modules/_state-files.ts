import { isUtf8 } from 'node:buffer'
import { promises as fs } from 'node:fs'
import { join } from 'node:path'
import { createPaths, exclusively, isPegboardError, ToolError } from 'pegboard'

const MAX_BYTES = 4 * 1024 * 1024
const UNWRITABLE: ReadonlySet<string> = new Set(['EACCES', 'EPERM', 'EROFS', 'ENOTDIR', 'EEXIST', 'ENOSPC'])

/** Text files that a module keeps for people and agents to read and mend. */
export interface StateFiles {
  /** Empty where there is none. @throws ToolError E_TOO_LARGE */
  read(name: string): Promise<string>
  /** Replaces it at once. */
  write(name: string, text: string): Promise<void>
  /** Does work that nobody else may do meanwhile, in this process or another. */
  alone<T>(work: () => Promise<T>): Promise<T>
}

/** Who waits in this process stands in line here, and asks for the lock file when it is their turn. */
const lines = new Map<string, Promise<unknown>>()

/**
 * @param dir is made, for its owner alone, when it is first written to
 * @param lock the name of the file that says somebody is writing
 * @param setting the part of the configuration that errors name
 */
export function stateFiles(dir: string, lock: string, setting: string): StateFiles {
  const paths = createPaths({ roots: [dir], setting })

  async function made(): Promise<void> {
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
    throw new ToolError('The folder of the files cannot be written to.', {
      code: 'E_READ_ONLY',
      hint: `${setting}.file_state_dir says which one it is.`,
      cause: error,
    })
  }

  return {
    async read(name) {
      try {
        return await paths.readFile(name, async ({ handle, size }) => {
          if (size > MAX_BYTES)
            throw new ToolError(`${name} has ${size} bytes; up to ${MAX_BYTES} are read.`, {
              code: 'E_TOO_LARGE',
              hint: 'Move older parts of it to another file.',
            })
          const bytes = await handle.readFile()
          // Written back it would not be what it was.
          if (!isUtf8(bytes))
            throw new ToolError(`${name} is no text in UTF-8.`, {
              hint: 'It was left as it is: save it as UTF-8, or move it away.',
            })
          return String(bytes)
        })
      } catch (error) {
        if (isPegboardError(error) && error.code === 'E_NOT_FOUND') return ''
        throw error
      }
    },
    async write(name, text) {
      await made()
      await paths.writeFile(name, text, { mode: 0o600 })
    },
    async alone(work) {
      const file = join(dir, lock)
      const busy = (): never => {
        throw new ToolError('The files are being changed by somebody else.', { hint: 'Try again.', retryable: true })
      }
      const turn = (lines.get(file) ?? Promise.resolve()).then(async () => {
        await made().catch(notWritable)
        return await exclusively(file, work, busy).catch(notWritable)
      })
      const done = turn.catch(() => undefined)
      lines.set(file, done)
      try {
        return await turn
      } finally {
        if (lines.get(file) === done) lines.delete(file)
      }
    },
  }
}
