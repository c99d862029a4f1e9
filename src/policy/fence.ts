import { resolve, sep } from 'node:path'
import { deniedByDefault, foldPath, pathRules, protectedByDefault } from './denied.ts'
import { holdsAny } from './glob.ts'
import { ownFilesIn } from './own-files.ts'
import { below, isInside, realForm, rememberReal } from './real.ts'

export interface FenceOptions {
  readonly roots: readonly string[]
  readonly allowed?: readonly string[]
  readonly denied?: readonly string[]
  readonly denyNames?: readonly string[]
  readonly protected?: readonly string[]
  /** Of `denied` and `denyNames`, as rules, what stands in no setting: it changes what messages say and nothing else. */
  readonly fixed?: readonly string[]
}

/** What denies a path: nothing the operator can set, or one of two settings. */
export type Denier = 'fixed' | 'denied_paths' | 'deny_names'

export interface Root {
  readonly given: string
  /** Where it really is; undefined while it does not exist. */
  readonly real: string | undefined
}

/** What is inside and what is denied, with links as they are at one moment. */
export interface Fence {
  readonly roots: readonly Root[]
  /** The root a real path lies in, the innermost if they are nested. */
  rootOf(real: string): string | undefined
  isDenied(path: string, root: string): boolean
  /** Of a path that is denied. */
  deniedBy(path: string, root: string): Promise<Denier>
  /** May be read, not written. @param kind of what is to be made there */
  isProtected(path: string, root: string, kind?: 'folder'): boolean
  /** Whether it belongs to what Pegboard runs or trusts. */
  isOwn(path: string, root: string): boolean
  /** Whether such a file lies, or will lie, below it. */
  holdsOwn(path: string): boolean
  /** How results name a real path. */
  nameOf(real: string): string
}

/** Every rule that names an absolute path holds for the path as given and for where it really is. */
export function createFence(options: FenceOptions): () => Promise<Fence> {
  const { roots } = options
  const given = (options.allowed ?? []).map((path) => resolve(path))
  const lookUp = rememberReal()
  const deniedNow = pathRules([...deniedByDefault, ...(options.denied ?? [])], lookUp)
  const protectedNow = pathRules([...protectedByDefault, ...(options.protected ?? [])], lookUp)
  const holdsDeniedName = holdsAny((options.denyNames ?? []).map((name) => ({ text: foldPath(name), whole: true })))

  const look = async (): Promise<Fence> => {
    const [all, isDeniedByRule, isProtectedByRule, really] = await Promise.all([
      Promise.all(roots.map(async (root): Promise<Root> => ({ given: root, real: await lookUp(root) }))),
      deniedNow(),
      protectedNow(),
      Promise.all(given.map((path) => realForm(path, lookUp))),
    ])
    const own = await ownFilesIn(all.flatMap(({ real }) => (real === undefined ? [] : [real])))
    const allowed = new Set([...given, ...really])
    const first = all[0]?.real
    const starts = new Map<string, string>()
    /** As rules compare it: seen from its root, and whole. */
    const folded = (path: string, root: string): readonly [string, string] => {
      const whole = foldPath(path)
      const start = starts.get(root) ?? `${foldPath(root).replace(/\/$/, '')}/`
      starts.set(root, start)
      return [whole.startsWith(start) ? whole.slice(start.length) : foldPath(below(path, root)), whole]
    }
    return {
      roots: all,
      rootOf: (real) =>
        all
          .flatMap((root) => (root.real !== undefined && isInside(real, root.real) ? [root.real] : []))
          .sort((a, b) => b.length - a.length)[0],
      isDenied(path, root) {
        if (own.isSecret(path, root)) return true
        if (allowed.has(path)) return false
        const [short, whole] = folded(path, root)
        return isDeniedByRule(short, whole) || holdsDeniedName(short)
      },
      async deniedBy(path, root) {
        if (own.isSecret(path, root)) return 'fixed'
        const [short, whole] = folded(path, root)
        // Only who has failed asks, so nothing is made ready for it.
        const isFixed = await pathRules([...deniedByDefault, ...(options.fixed ?? [])], lookUp)()
        if (isFixed(short, whole)) return 'fixed'
        return isDeniedByRule(short, whole) ? 'denied_paths' : 'deny_names'
      },
      isProtected: (path, root, kind) =>
        own.isFixed(path, root, kind) || (!allowed.has(path) && isProtectedByRule(...folded(path, root))),
      isOwn: own.isFixed,
      holdsOwn: own.isAbove,
      nameOf: (real) =>
        first !== undefined && isInside(real, first) ? below(real, first) || '.' : real.replaceAll(sep, '/'),
    }
  }
  // Those who come while somebody looks already need not look again.
  let looking: Promise<Fence> | undefined
  return () => {
    looking ??= look().finally(() => {
      looking = undefined
    })
    return looking
  }
}
