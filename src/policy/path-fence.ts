import { resolve, sep } from 'node:path'
import { deniedByDefault, foldPath, pathRules, protectedByDefault } from './denied-paths.ts'
import { containsAny } from './glob.ts'
import { ownFilesIn } from './own-files.ts'
import { pinFolder } from './pinned-folders.ts'
import { createRealPathCache, isInside, type LookUp, pathBelow, realForm } from './real-path.ts'

export interface FenceOptions {
  /** Absolute folders (or single files) that may be used. */
  readonly roots: readonly string[]
  /** Exact paths that may be used although a default rule denies them. */
  readonly allowed?: readonly string[]
  /** Additional rules for paths that tools can neither use nor list; see `pathRules`. */
  readonly denied?: readonly string[]
  /** Names that are denied in any folder. */
  readonly denyNames?: readonly string[]
  /** Additional rules for paths that tools can read but not write. */
  readonly protected?: readonly string[]
  /** The entries of `denied` and `denyNames` that no setting contains. Errors about them name no setting. */
  readonly fixed?: readonly string[]
}

/** What denies a path: a fixed rule or one of two settings. */
export type DenialSource = 'fixed' | 'denied_paths' | 'deny_names'

export interface Root {
  readonly configured: string
  /** The real path; undefined while the root does not exist, or if it has moved. */
  readonly real: string | undefined
  /** True if the path leads elsewhere than when Pegboard started. */
  readonly moved?: true
}

/** Which paths are inside the roots and which are denied, with links resolved at one moment. */
export interface Fence {
  readonly roots: readonly Root[]
  /** The root that contains a real path; the innermost one if roots are nested. */
  rootOf(real: string): string | undefined
  isDenied(path: string, root: string): boolean
  deniedBy(path: string, root: string): Promise<DenialSource>
  /** True if the path may be read but not written. @param kind of the entry that is to be created */
  isProtected(path: string, root: string, kind?: 'folder'): boolean
  /** True if Pegboard runs or trusts this file. */
  isOwn(path: string, root: string): boolean
  /** True if a file that Pegboard runs or trusts is, or will be, below the path. */
  containsOwn(path: string): boolean
  /** A real path as results show it: relative to the first root, otherwise absolute. */
  nameOf(real: string): string
}

/** Rules with absolute paths apply to the path as written and to its real path. */
export function createFence(options: FenceOptions): () => Promise<Fence> {
  const { roots } = options
  const allowedPaths = (options.allowed ?? []).map((path) => resolve(path))
  const lookUp = createRealPathCache()
  const getDeniedTest = pathRules([...deniedByDefault, ...(options.denied ?? [])], lookUp)
  const getProtectedTest = pathRules([...protectedByDefault, ...(options.protected ?? [])], lookUp)
  const holdsDeniedName = containsAny((options.denyNames ?? []).map((name) => ({ text: foldPath(name), whole: true })))

  const resolveFence = async (): Promise<Fence> => {
    const [resolvedRoots, isDeniedByRule, isProtectedByRule, realAllowedPaths] = await Promise.all([
      Promise.all(roots.map((root) => resolveRoot(root, lookUp))),
      getDeniedTest(),
      getProtectedTest(),
      Promise.all(allowedPaths.map((path) => realForm(path, lookUp))),
    ])
    const ownFiles = await ownFilesIn(resolvedRoots.flatMap(({ real }) => (real === undefined ? [] : [real])))
    const allowed = new Set([...allowedPaths, ...realAllowedPaths])
    const firstRoot = resolvedRoots[0]?.real
    const starts = new Map<string, string>()
    /** A path as rules compare it: relative to its root, and absolute. */
    const foldBoth = (path: string, root: string): readonly [string, string] => {
      const whole = foldPath(path)
      const start = starts.get(root) ?? `${foldPath(root).replace(/\/$/, '')}/`
      starts.set(root, start)
      return [whole.startsWith(start) ? whole.slice(start.length) : foldPath(pathBelow(path, root)), whole]
    }
    return {
      roots: resolvedRoots,
      rootOf: (real) =>
        resolvedRoots
          .flatMap((root) => (root.real !== undefined && isInside(real, root.real) ? [root.real] : []))
          .sort((a, b) => b.length - a.length)[0],
      isDenied(path, root) {
        if (ownFiles.isSecret(path, root)) return true
        if (allowed.has(path)) return false
        const [belowRoot, whole] = foldBoth(path, root)
        return isDeniedByRule(belowRoot, whole) || holdsDeniedName(belowRoot)
      },
      async deniedBy(path, root) {
        if (ownFiles.isSecret(path, root)) return 'fixed'
        const [belowRoot, whole] = foldBoth(path, root)
        // Computed on demand, because only a failed check needs it.
        const isFixed = await pathRules([...deniedByDefault, ...(options.fixed ?? [])], lookUp)()
        if (isFixed(belowRoot, whole)) return 'fixed'
        return isDeniedByRule(belowRoot, whole) ? 'denied_paths' : 'deny_names'
      },
      isProtected: (path, root, kind) =>
        ownFiles.isFixed(path, root, kind) || (!allowed.has(path) && isProtectedByRule(...foldBoth(path, root))),
      isOwn: ownFiles.isFixed,
      containsOwn: ownFiles.isAbove,
      nameOf: (real) =>
        firstRoot !== undefined && isInside(real, firstRoot)
          ? pathBelow(real, firstRoot) || '.'
          : real.replaceAll(sep, '/'),
    }
  }
  // Concurrent callers share one lookup.
  let pending: Promise<Fence> | undefined
  return () => {
    pending ??= resolveFence().finally(() => {
      pending = undefined
    })
    return pending
  }
}

async function resolveRoot(configured: string, lookUp: LookUp): Promise<Root> {
  const [real, pinned] = await Promise.all([lookUp(configured), pinFolder(configured)])
  return real === undefined || real === pinned ? { configured, real } : { configured, real: undefined, moved: true }
}
