import {
  type FileData,
  isPegboardError,
  type OpenFile,
  type Paths,
  ToolError,
  type WriteOptions,
  type Written,
} from 'pegboard'

interface Step {
  readonly owner: string
  readonly path: string
  /** What was there; undefined when nothing was. */
  readonly before: Uint8Array | undefined
  /** As the change left it. */
  readonly size: number
  readonly mtime: Date
}

/** Changes that can be taken back. */
export interface History {
  /** Runs what changes a file when whatever was begun before on the same one is over. */
  inTurn<T>(path: string, work: () => Promise<T>): Promise<T>
  write(paths: Paths, owner: string, path: string, data: FileData, options?: WriteOptions): Promise<Written>
  /** Takes back the latest change, of one file if a path is given. */
  undo(paths: Paths, owner: string, path?: string): Promise<{ readonly path: string; readonly removed: boolean }>
}

const MOST = 50
/** Of what was there before; a larger file is changed for good. */
const MAX_BYTES = 1024 * 1024

export function createHistory(): History {
  const steps: Step[] = []
  const last = new Map<string, Promise<unknown>>()
  const kept = async (paths: Paths, path: string): Promise<Uint8Array | undefined | 'large'> => {
    try {
      return await paths.readFile(path, async ({ handle, size }: OpenFile) =>
        size > MAX_BYTES ? 'large' : await handle.readFile(),
      )
    } catch (error) {
      if (isPegboardError(error) && error.code === 'E_NOT_FOUND') return undefined
      throw error
    }
  }
  return {
    async inTurn(path, work) {
      const before = last.get(path)
      const now = (async () => {
        await before?.catch(() => undefined)
        return await work()
      })()
      last.set(path, now)
      try {
        return await now
      } finally {
        if (last.get(path) === now) last.delete(path)
      }
    },
    async write(paths, owner, path, data, options) {
      const before = await kept(paths, path)
      const written = await paths.writeFile(path, data, options)
      if (before === 'large') return written
      const { size, mtime } = await paths.stat(path)
      steps.push({ owner, path: written.path, before, size, mtime })
      if (steps.length > MOST) steps.shift()
      return written
    },
    async undo(paths, owner, path) {
      const wanted = path === undefined ? undefined : (await paths.stat(path)).path
      const at = steps.findLastIndex((step) => step.owner === owner && (wanted === undefined || step.path === wanted))
      const step = steps[at]
      if (!step)
        throw new ToolError('There is nothing to take back.', {
          code: 'E_NOT_FOUND',
          hint: 'Only what write, edit and insert did to files under 1 MiB since the start is kept.',
        })
      const { before, size, mtime } = step
      const now = await paths.stat(step.path)
      if (now.size !== size || now.mtime.getTime() !== mtime.getTime())
        throw new ToolError(`'${step.path}' was changed by somebody else since.`, { hint: 'Read it, then edit it.' })
      if (before) await paths.writeFile(step.path, before, { expect: { size, mtime } })
      else await paths.remove(step.path)
      steps.splice(at, 1)
      // The one before it, if any, left the file as it is now.
      const earlier = steps.findLastIndex((one) => one.path === step.path)
      if (before && earlier >= 0) {
        const facts = await paths.stat(step.path)
        steps[earlier] = { ...(steps[earlier] as Step), size: facts.size, mtime: facts.mtime }
      }
      return { path: step.path, removed: !before }
    },
  }
}
