import {
  type CallContext,
  type FolderEntry,
  type HeldFolder,
  isPegboardError,
  type OpenFolder,
  type Paths,
  type ToolDef,
  z,
} from 'pegboard'
import { lazySchema } from '../_lazy-schema.ts'
import { createTurns, type Turns } from '../_turns.ts'
import { createBudget } from './budget.ts'
import { createExcludeMatcher, exclude, folder, globOf, path, relativeTo, type Settings } from './config.ts'
import { walkTree } from './ignored.ts'
import { pathsFor } from './paths.ts'
import { createScanner, type Scanner, type ScanResult } from './scan.ts'

const Find = lazySchema(() =>
  z.object({
    pattern: z
      .string()
      .min(1)
      .max(1024)
      .describe('Glob such as "*.ts" (names anywhere) or "src/**/*.test.ts" (paths).'),
    path: folder.describe('Folder to search.'),
    type: z.enum(['file', 'dir', 'any']).default('any').describe('Kind to return.'),
    ignored: z.boolean().default(false).describe('Include files ignored by .gitignore, and node_modules.'),
    exclude,
    max_results: z.int().min(1).max(5000).default(500).describe('Maximum number of paths.'),
  }),
)

export const find: ToolDef<Settings, typeof Find> = {
  title: 'Find files by name',
  description:
    'Find files and folders by name or path with a glob pattern. It does not search in files (use grep), and skips .git and node_modules.',
  aliases: [
    'glob',
    'find file',
    'search files by name',
    'locate',
    'chercher fichier',
    'trouver fichier',
    'rechercher un fichier',
  ],
  tags: ['files', 'search'],
  input: Find,
  effect: 'read',
  sideEffects: ['none'],
  examples: [{ input: { pattern: '*.md' } }, { input: { pattern: 'src/**/*.{ts,js}', type: 'file' } }],
  async run(
    { pattern, path: requestedPath, type, ignored, exclude: patterns, max_results },
    { config, signal: caller, warn },
  ) {
    const paths = pathsFor(config)
    const matches = globOf(pattern)
    const { path: base } = await paths.stat(requestedPath)
    const isExcluded = createExcludeMatcher(patterns, base)
    const found: string[] = []
    let truncated = false
    const entered = (folder: OpenFolder): void => {
      if (folder.truncated) truncated = true
    }
    const isLate = await createBudget(caller).spend(async (signal) => {
      const walkOptions = {
        ignored,
        signal,
        entered,
        skip: ({ path: entryPath }: FolderEntry) => isExcluded(entryPath),
      }
      for await (const entry of walkTree(paths, requestedPath, walkOptions)) {
        if (isExcluded(entry.path) || (type !== 'any' && entry.kind !== type) || !matches(relativeTo(base, entry.path)))
          continue
        if (found.length === max_results) {
          truncated = true
          return
        }
        found.push(entry.path)
      }
    })
    if (found.length === 0 && /^[\p{L}\p{N}_-]+$/u.test(pattern))
      warn(`"${pattern}" matches only this exact name. For names that contain it, use "*${pattern}*".`)
    return { count: found.length, truncated: truncated || isLate, paths: found }
  },
}

const Grep = lazySchema(() =>
  z.object({
    pattern: z.string().min(1).max(1024).describe('Regular expression (RE2 syntax), or plain text with literal.'),
    path: path.default('.').describe('Folder or file to search.'),
    include: z.string().min(1).max(1024).optional().describe('Glob: only matching files, such as "*.ts".'),
    output_mode: z
      .enum(['content', 'files_with_matches', 'count'])
      .default('content')
      .describe('Return matching lines, paths, or counts.'),
    context: z.int().min(0).max(20).default(0).describe('Lines of context around each match.'),
    ignore_case: z.boolean().default(false).describe('Ignore case.'),
    literal: z.boolean().default(false).describe('Treat the pattern as plain text.'),
    multiline: z.boolean().default(false).describe('Let a match span lines; its first line counts.'),
    ignored: z.boolean().default(false).describe('Include files ignored by .gitignore, and node_modules.'),
    max_results: z.int().min(1).max(2000).default(250).describe('Maximum number of matches.'),
  }),
)

/** Maximum number of threads for all calls together. */
const MAX_THREADS = 3
/** Files per batch. */
const BATCH_FILES = 200

/** Each instance of the module has its own thread slots, known by its configuration. */
export function createGrep(): ToolDef<Settings, typeof Grep> {
  const turnsByConfig = new WeakMap<Settings, Turns>()
  return {
    ...grep,
    run(input, ctx) {
      const turns = turnsByConfig.get(ctx.config) ?? createTurns(MAX_THREADS)
      turnsByConfig.set(ctx.config, turns)
      return searchText(input, ctx, turns)
    },
  }
}

const grep: Omit<ToolDef<Settings, typeof Grep>, 'run'> = {
  title: 'Search in files',
  description:
    'Search the text of files for a regular expression or plain text and return matching lines with their numbers. Use find for file names. Skips binary and very large files, .git and node_modules.',
  aliases: [
    'search in files',
    'search text',
    'ripgrep',
    'find in files',
    'chercher dans les fichiers',
    'rechercher du texte',
    'chercher texte',
  ],
  tags: ['files', 'search', 'text'],
  input: Grep,
  effect: 'read',
  opaque: ['matches'],
  sideEffects: ['none'],
  examples: [
    { input: { pattern: 'TODO', include: '*.ts' } },
    { input: { pattern: 'function \\w+\\(', path: 'src', context: 2 } },
  ],
}

async function searchText(
  input: z.infer<typeof Grep>,
  { config, caller: { principal }, signal: caller }: CallContext<Settings>,
  turns: Turns,
): Promise<object> {
  const paths = pathsFor(config)
  // One more than requested, to know whether there are more.
  const limit = input.max_results + 1
  const scanner = await createScanner(
    {
      pattern: input.pattern,
      literal: input.literal,
      ignoreCase: input.ignore_case,
      multiline: input.multiline,
      mode: input.output_mode,
      context: input.context,
      maxBytes: config.max_file_size,
    },
    { principal, signal: caller },
    turns,
  )
  try {
    return createAnswer(await searchFiles(paths, input, limit, scanner, caller), input)
  } finally {
    await scanner.close()
  }
}

/** Results of file batches, in order. */
interface GrepResult {
  readonly batches: readonly (ScanResult | undefined)[]
  /** Name of a file in a batch. */
  readonly nameOf: (batch: number, name: string) => string
  /** True if part of the tree was not searched. */
  readonly partial: boolean
}

async function searchFiles(
  paths: Paths,
  input: z.infer<typeof Grep>,
  limit: number,
  scanner: Scanner,
  caller: AbortSignal,
): Promise<GrepResult> {
  const batches: (ScanResult | undefined)[] = []
  const folder = await findFolder(paths, input.path)
  // Not a folder; if it is not a file either, reading it reports the error.
  if (folder === undefined) {
    const filePath = await paths.readFile(input.path, async ({ handle, path: shown }) => {
      batches.push(await scanner.scan({ fd: handle.fd, names: [shown], limit }))
      return shown
    })
    return { batches, nameOf: () => filePath, partial: false }
  }
  const matches = input.include === undefined ? () => true : globOf(input.include)
  const folders: string[] = []
  let remaining = limit
  const inside = async ({ anchor, path: folderPath, entries }: HeldFolder): Promise<void> => {
    const names = entries.flatMap(({ name, kind, path: entryPath }) =>
      kind === 'file' && matches(relativeTo(folder, entryPath)) ? [name] : [],
    )
    const scans: Promise<void>[] = []
    for (let start = 0; start < names.length; start += BATCH_FILES) {
      const index = folders.push(folderPath === '.' ? '' : `${folderPath}/`) - 1
      const batch = { folder: anchor, names: names.slice(start, start + BATCH_FILES), limit }
      scans.push(
        scanner.scan(batch).then((scanned) => {
          batches[index] = scanned
          remaining -= countMatches(scanned)
        }),
      )
    }
    await Promise.all(scans)
  }
  let partial = false
  const entered = (enteredFolder: OpenFolder): void => {
    if (enteredFolder.truncated) partial = true
  }
  const isLate = await createBudget(caller).spend(async (signal) => {
    const stop = (): void => scanner.stop(signal.reason)
    signal.addEventListener('abort', stop, { once: true })
    for await (const _ of walkTree(paths, input.path, { ignored: input.ignored, signal, entered, inside }))
      if (remaining <= 0) break
  })
  return { batches, nameOf: (batch, name) => `${folders[batch]}${name}`, partial: partial || isLate }
}

const countMatches = ({ found }: ScanResult): number => found.reduce((sum, { count }) => sum + count, 0)

async function findFolder(paths: Paths, requestedPath: string): Promise<string | undefined> {
  try {
    const { path: shown, kind } = await paths.stat(requestedPath)
    return kind === 'dir' ? shown : undefined
  } catch (error) {
    if (isPegboardError(error) && error.code === 'E_NOT_FOUND') return undefined
    throw error
  }
}

function createAnswer({ batches, nameOf, partial }: GrepResult, input: z.infer<typeof Grep>): object {
  const files: {
    readonly path: string
    readonly count: number
    readonly matches: ScanResult['found'][0]['matches']
  }[] = []
  let [returned, skipped, truncated] = [0, 0, partial]
  for (const [index, scanned] of batches.entries()) {
    skipped += scanned?.skipped ?? 0
    for (const { name, count, matches } of scanned?.found ?? []) {
      const shownCount = Math.min(count, input.max_results - returned)
      if (shownCount < count) truncated = true
      if (shownCount > 0)
        files.push({ path: nameOf(index, name), count: shownCount, matches: matches.slice(0, shownCount) })
      returned += shownCount
    }
  }
  files.sort((a, b) => compareTreePaths(a.path, b.path))
  const output = {
    content: () => ({
      matches: files.flatMap(({ path: at, matches }) => matches.map((one) => ({ path: at, ...one }))),
    }),
    files_with_matches: () => ({ files: files.map((file) => file.path) }),
    count: () => ({ counts: files.map(({ path: at, count }) => ({ path: at, count })) }),
  }[input.output_mode]()
  // First, because a model sees only the beginning of a long result.
  return { count: returned, truncated, ...(skipped > 0 ? { skipped_files: skipped } : {}), ...output }
}

/** Order of a tree view: by name, each folder followed by its content. */
function compareTreePaths(first: string, second: string): number {
  const [a, b] = [first.split('/'), second.split('/')]
  const difference = a.findIndex((name, index) => name !== b[index])
  return (a[difference] ?? '') < (b[difference] ?? '') ? -1 : 1
}
