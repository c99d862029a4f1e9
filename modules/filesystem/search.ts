import {
  type CallContext,
  compileGlob,
  isPegboardError,
  type Matcher,
  type OpenFile,
  type Paths,
  type ToolDef,
  ToolError,
  z,
} from 'pegboard'
import { badPattern, folder, path, type Settings, under } from './config.ts'
import { walkTree } from './ignored.ts'
import { createLineFinder, type LineFinder } from './lines.ts'
import { pathsFor } from './places.ts'
import { textOf } from './text.ts'
import { createTurns, type Turns } from './turns.ts'

/** A pattern without a slash is about names, wherever they are; one with a slash is about paths below the folder. */
function globOf(pattern: string): Matcher {
  try {
    const fits = compileGlob(pattern)
    return pattern.includes('/') ? fits : (full) => fits(full.slice(full.lastIndexOf('/') + 1))
  } catch (error) {
    if (error instanceof RangeError) throw badPattern(error.message)
    throw error
  }
}

const Find = z.object({
  pattern: z.string().min(1).max(1024).describe('Glob such as "*.ts" (names anywhere) or "src/**/*.test.ts" (paths).'),
  path: folder.describe('The folder to search.'),
  type: z.enum(['file', 'dir', 'any']).default('any').describe('What to give.'),
  ignored: z.boolean().default(false).describe('Also what .gitignore names, and node_modules.'),
  max_results: z.int().min(1).max(5000).default(500).describe('Paths to give at most.'),
})

export const find: ToolDef<Settings, typeof Find> = {
  title: 'Find files by name',
  description:
    'Finds files and folders whose name or path fits a glob pattern. It does not look into files (grep does), and leaves out .git and node_modules.',
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
  async run({ pattern, path: wanted, type, ignored, max_results }, { config, signal }) {
    const paths = pathsFor(config)
    const fits = globOf(pattern)
    const { path: base } = await paths.listFolder(wanted)
    const found: string[] = []
    for await (const entry of walkTree(paths, wanted, { ignored })) {
      signal.throwIfAborted()
      if ((type !== 'any' && entry.kind !== type) || !fits(under(base, entry.path))) continue
      if (found.length === max_results) return { paths: found, count: found.length, truncated: true }
      found.push(entry.path)
    }
    return { paths: found, count: found.length, truncated: false }
  },
}

const Grep = z.object({
  pattern: z.string().min(1).max(1024).describe('JavaScript regular expression, or plain text with literal.'),
  path: path.default('.').describe('Folder or file to search.'),
  include: z.string().min(1).max(1024).optional().describe('Glob: only files that fit, such as "*.ts".'),
  output_mode: z
    .enum(['content', 'files_with_matches', 'count'])
    .default('content')
    .describe('Lines, paths, or numbers of lines.'),
  context: z.int().min(0).max(20).default(0).describe('Lines to show around each match.'),
  ignore_case: z.boolean().default(false).describe('Treat capitals as small letters.'),
  literal: z.boolean().default(false).describe('The pattern is text, not an expression.'),
  multiline: z.boolean().default(false).describe('Let a match span lines; the line it begins on counts.'),
  ignored: z.boolean().default(false).describe('Also what .gitignore names, and node_modules.'),
  max_results: z.int().min(1).max(2000).default(250).describe('Matches to give at most.'),
})

/** Lines as they are shown: nobody reads a minified file in one piece. */
const MAX_LINE = 500

/** Expressions at work at once; each has a thread. */
const MAX_THREADS = 3

/** Every instance of the module has its own turns; it is known by its configuration, which is made when it starts. */
export function createGrep(): ToolDef<Settings, typeof Grep> {
  const ofInstance = new WeakMap<Settings, Turns>()
  return {
    ...grep,
    run(input, ctx) {
      const turns = ofInstance.get(ctx.config) ?? createTurns(MAX_THREADS)
      ofInstance.set(ctx.config, turns)
      return search(input, ctx, turns)
    },
  }
}

const grep: Omit<ToolDef<Settings, typeof Grep>, 'run'> = {
  title: 'Search in files',
  description:
    'Searches the text of files for a regular expression or plain text and gives matching lines with their numbers. Use find for file names. It leaves out binary and very large files, .git and node_modules.',
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

async function search(
  input: z.infer<typeof Grep>,
  { config, signal }: CallContext<Settings>,
  turns: Turns,
): Promise<object> {
  const paths = pathsFor(config)
  const finder = await createLineFinder(input, signal, turns)
  const state: Search = { matches: [], files: [], counts: [], skipped: 0, found: 0 }
  try {
    let truncated = false
    for await (const { file, named } of filesIn(paths, input.path, input.include, input.ignored)) {
      signal.throwIfAborted()
      const searched = paths.readFile(file, (open) => searchFile(open, finder, input, config.max_file_size, state))
      await (named ? searched : searched.catch(unlessGone))
      truncated = state.found >= input.max_results
      if (truncated) break
    }
    const shown = {
      content: { matches: state.matches },
      files_with_matches: { files: state.files },
      count: { counts: state.counts },
    }[input.output_mode]
    return { ...shown, total: state.found, truncated, ...(state.skipped > 0 ? { skipped_files: state.skipped } : {}) }
  } finally {
    await finder.close()
  }
}

interface Search {
  readonly matches: { path: string; line: number; text: string; before?: string[]; after?: string[] }[]
  readonly files: string[]
  readonly counts: { path: string; count: number }[]
  skipped: number
  found: number
}

async function* filesIn(
  paths: Paths,
  wanted: string,
  include: string | undefined,
  ignored: boolean,
): AsyncGenerator<{ readonly file: string; readonly named: boolean }> {
  let base: string
  try {
    base = (await paths.listFolder(wanted)).path
  } catch (error) {
    if (!isPegboardError(error) || error.code !== 'E_NOT_FOUND') throw error
    // Not a folder: perhaps a file, which says so itself if not.
    yield { file: wanted, named: true }
    return
  }
  const fits = include === undefined ? () => true : globOf(include)
  for await (const entry of walkTree(paths, wanted, { ignored }))
    if (entry.kind === 'file' && fits(under(base, entry.path))) yield { file: entry.path, named: false }
}

async function searchFile(
  file: OpenFile,
  finder: LineFinder,
  input: z.infer<typeof Grep>,
  maxBytes: number,
  state: Search,
): Promise<void> {
  const text = await textOf(file, maxBytes)
  if (text === undefined) {
    state.skipped++
    return
  }
  const left = input.max_results - state.found
  const numbers = await finder.find(text, input.output_mode === 'files_with_matches' ? 1 : left, file.path)
  if (numbers.length === 0) return
  state.found += numbers.length
  state.files.push(file.path)
  state.counts.push({ path: file.path, count: numbers.length })
  if (input.output_mode !== 'content') return
  const lines = text.split(/\r?\n/)
  const cut = (from: number, to: number): string[] => lines.slice(Math.max(from, 0), Math.max(to, 0)).map(short)
  for (const line of numbers) {
    const around =
      input.context > 0
        ? { before: cut(line - 1 - input.context, line - 1), after: cut(line, line + input.context) }
        : {}
    state.matches.push({ path: file.path, line, text: short(lines[line - 1] ?? ''), ...around })
  }
}

const short = (line: string): string => (line.length > MAX_LINE ? `${line.slice(0, MAX_LINE)}…` : line)

/** Files come and go, and some are closed to us, while a tree is searched. */
function unlessGone(error: unknown): void {
  if (error instanceof ToolError && ['E_TIMEOUT', 'E_TOO_LARGE', 'E_VALIDATION'].includes(error.code)) throw error
  if (!isPegboardError(error)) throw error
}
