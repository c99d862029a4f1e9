import { dirname } from 'node:path/posix'
import {
  compileGlob,
  type FolderEntry,
  type HeldFolder,
  isPegboardError,
  type Matcher,
  type OpenFolder,
  type Paths,
} from 'pegboard'
import { relativeTo, SKIPPED } from './config.ts'
import { readSmallText } from './text.ts'

interface Rule {
  /** Folder of the .gitignore file. */
  readonly base: string
  readonly matches: Matcher
  readonly foldersOnly: boolean
  /** Negates earlier rules. */
  readonly isNegated: boolean
}

const MAX_BYTES = 256 * 1024

/** The rules of one `.gitignore`. Invalid patterns are skipped, as git does. */
export function parseIgnoreRules(text: string, base: string): Rule[] {
  return text.split(/\r?\n/).flatMap((line) => {
    const trimmed = line.replace(/(?<!\\) +$/, '')
    if (trimmed === '' || trimmed.startsWith('#')) return []
    const isNegated = trimmed.startsWith('!')
    const foldersOnly = trimmed.endsWith('/')
    const pattern = trimmed.slice(isNegated ? 1 : 0, foldersOnly ? -1 : undefined)
    // A slash at the start or in the middle anchors the pattern; braces have no meaning in git.
    const anchored = pattern.includes('/') ? pattern.replace(/^\//, '') : `**/${pattern}`
    try {
      const matches = compileGlob(anchored.replaceAll(/[{}]/g, '\\$&').replace(/\/\*\*$/, '/**/*'))
      return pattern === '' ? [] : [{ base, matches, foldersOnly, isNegated }]
    } catch (error) {
      if (error instanceof RangeError) return []
      throw error
    }
  })
}

export interface TreeOptions {
  /** Include what `.gitignore` files exclude, and node_modules. */
  readonly ignored: boolean
  /** Additional folders to list without descending. */
  readonly skip?: (entry: FolderEntry) => boolean
  readonly signal?: AbortSignal
  /** Called for each folder before its entries. */
  readonly entered?: (folder: OpenFolder) => void
  /** Called for each folder with its entries while it is held open. */
  readonly inside?: (folder: HeldFolder) => Promise<void>
}

/** Everything below a folder, except what `.gitignore` files above and in it exclude. */
export async function* walkTree(
  paths: Paths,
  requestedPath: string,
  options: TreeOptions,
): AsyncGenerator<FolderEntry> {
  const { ignored, skip = () => false, inside, signal } = options
  const signalOption = signal ? { signal } : {}
  if (ignored) {
    yield* paths.walk(requestedPath, {
      ...signalOption,
      entered: async (folder) => options.entered?.(folder),
      skip: (entry) => entry.name === '.git' || skip(entry),
      ...(inside ? { inside } : {}),
    })
    return
  }
  const rulesOf = new Map<string, readonly Rule[]>()
  const isIgnored = (entry: FolderEntry): boolean => {
    const rules = rulesOf.get(dirname(entry.path)) ?? []
    for (let index = rules.length - 1; index >= 0; index--) {
      const rule = rules[index] as Rule
      if ((!rule.foldersOnly || entry.kind === 'dir') && rule.matches(relativeTo(rule.base, entry.path)))
        return !rule.isNegated
    }
    return false
  }
  const entered = async (folder: OpenFolder): Promise<void> => {
    options.entered?.(folder)
    const hasRules = folder.entries.some(({ name, kind }) => name === '.gitignore' && kind === 'file')
    const outerRules = rulesOf.get(dirname(folder.path)) ?? (await readRulesAbove(paths, folder.path))
    rulesOf.set(folder.path, hasRules ? [...outerRules, ...(await readRules(paths, folder.path))] : outerRules)
  }
  const isSkipped = (entry: FolderEntry): boolean => SKIPPED.has(entry.name) || skip(entry) || isIgnored(entry)
  const withoutIgnored = (folder: HeldFolder): HeldFolder => ({
    ...folder,
    entries: folder.entries.filter((entry) => !isIgnored(entry)),
  })
  const walkOptions = {
    ...signalOption,
    skip: isSkipped,
    entered,
    ...(inside ? { inside: (folder: HeldFolder) => inside(withoutIgnored(folder)) } : {}),
  }
  for await (const entry of paths.walk(requestedPath, walkOptions)) if (!isIgnored(entry)) yield entry
}

/** From the outermost readable folder down to the parent. */
async function readRulesAbove(paths: Paths, folder: string): Promise<readonly Rule[]> {
  const rules: Rule[] = []
  for (let current = folder; current !== dirname(current); ) {
    current = dirname(current)
    rules.unshift(...(await readRules(paths, current)))
  }
  return rules
}

async function readRules(paths: Paths, folder: string): Promise<Rule[]> {
  try {
    const text = await paths.readFile(`${folder}/.gitignore`, (file) => readSmallText(file, MAX_BYTES))
    return parseIgnoreRules(text ?? '', folder)
  } catch (error) {
    // Missing or not readable.
    if (isPegboardError(error)) return []
    throw error
  }
}
