import {
  type CallContext,
  type FileData,
  isPegboardError,
  type OpenFile,
  type Paths,
  ToolError,
  type WriteOptions,
  type WriteResult,
} from 'pegboard'
import { notFound } from '../_errors.ts'

interface SavedVersion {
  readonly owner: string
  readonly path: string
  /** The previous content; undefined if the file did not exist. */
  readonly before: Uint8Array | undefined
  /** Size after the change. */
  readonly size: number
  readonly mtime: Date
}

/** Whose change it is: each principal of a profile undoes its own changes. */
export type Owner = Pick<CallContext['caller'], 'principal' | 'profile'>

/** Changes that can be undone. */
export interface History {
  /** Runs changes of the same file one after the other. */
  runInTurn<T>(path: string, work: () => Promise<T>): Promise<T>
  write(paths: Paths, owner: Owner, path: string, data: FileData, options?: WriteOptions): Promise<WriteResult>
  /** Undoes the latest change of this owner, of one file if a path is given. */
  undo(paths: Paths, owner: Owner, path?: string): Promise<{ readonly path: string; readonly removed: boolean }>
}

/** Changes of one owner. */
const MAX_STEPS = 50
/** Maximum size of all previous contents together. An owner with more of them loses its oldest first. */
const MAX_TOTAL = 128 * 1024 * 1024
/** Added to the size of each step, so that the number of steps is limited, too. */
const STEP_BYTES = 1_024
/** Maximum size of the previous content; changes of larger files cannot be undone. */
const MAX_BYTES = 1024 * 1024

export function createHistory(): History {
  const steps: SavedVersion[] = []
  const pendingByPath = new Map<string, Promise<unknown>>()
  const readPrevious = async (paths: Paths, path: string): Promise<Uint8Array | undefined | 'large'> => {
    try {
      return await paths.readFile(path, async ({ handle, size }: OpenFile) =>
        size > MAX_BYTES ? 'large' : await handle.readFile(),
      )
    } catch (error) {
      if (isPegboardError(error) && error.code === 'E_NOT_FOUND') return undefined
      throw error
    }
  }
  const keyOf = ({ principal, profile }: Owner): string => JSON.stringify([principal, profile])
  function addStep(step: SavedVersion): void {
    steps.push(step)
    const dropOldest = (owner: string): unknown =>
      steps.splice(
        steps.findIndex((step) => step.owner === owner),
        1,
      )
    if (steps.filter(({ owner }) => owner === step.owner).length > MAX_STEPS) dropOldest(step.owner)
    for (;;) {
      const sizes = new Map<string, number>()
      for (const { owner, before } of steps)
        sizes.set(owner, (sizes.get(owner) ?? 0) + (before?.length ?? 0) + STEP_BYTES)
      const [largest] = [...sizes].sort(([, one], [, other]) => other - one)
      if (!largest || [...sizes.values()].reduce((sum, size) => sum + size, 0) <= MAX_TOTAL) return
      dropOldest(largest[0])
    }
  }
  return {
    async runInTurn(path, work) {
      const previous = pendingByPath.get(path)
      const current = (async () => {
        await previous?.catch(() => undefined)
        return await work()
      })()
      pendingByPath.set(path, current)
      try {
        return await current
      } finally {
        if (pendingByPath.get(path) === current) pendingByPath.delete(path)
      }
    },
    async write(paths, owner, path, data, options) {
      const before = await readPrevious(paths, path)
      const written = await paths.writeFile(path, data, options)
      if (before === 'large') return written
      const { size, mtime } = await paths.stat(path)
      addStep({ owner: keyOf(owner), path: written.path, before, size, mtime })
      return written
    },
    async undo(paths, owner, path) {
      const requestedPath = path === undefined ? undefined : (await paths.stat(path)).path
      const index = steps.findLastIndex(
        (step) => step.owner === keyOf(owner) && (requestedPath === undefined || step.path === requestedPath),
      )
      const step = steps[index]
      if (!step)
        throw notFound(
          'There is nothing to undo.',
          'Only write, edit and insert on files under 1 MiB since the start can be undone.',
        )
      const { before, size, mtime } = step
      const current = await paths.stat(step.path)
      if (current.size !== size || current.mtime.getTime() !== mtime.getTime())
        throw new ToolError(`'${step.path}' was changed by another program since.`, { hint: 'Read it, then edit it.' })
      if (before) await paths.writeFile(step.path, before, { expect: { size, mtime } })
      else await paths.remove(step.path)
      steps.splice(index, 1)
      // The previous change of this file is the state now.
      const previousIndex = steps.findLastIndex((previous) => previous.path === step.path)
      if (before && previousIndex >= 0) {
        const stats = await paths.stat(step.path)
        steps[previousIndex] = { ...(steps[previousIndex] as SavedVersion), size: stats.size, mtime: stats.mtime }
      }
      return { path: step.path, removed: !before }
    },
  }
}
