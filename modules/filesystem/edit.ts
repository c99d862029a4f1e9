import { isUtf8 } from 'node:buffer'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type CallContext, type ToolDef, type ToolError, z } from 'pegboard'
import { invalid, tooLarge } from '../_errors.ts'
import { lazySchema } from '../_lazy-schema.ts'
import { path, type Settings, writable } from './config.ts'
import { countLines, diffOf } from './diff.ts'
import { createHistory, type History } from './history.ts'
import { pathsFor } from './paths.ts'
import { LINE_FEED, replaceIn } from './replace.ts'
import { writeTool } from './write.ts'

const Edit = lazySchema(() =>
  z.object({
    path: path.describe('The file.'),
    old: z.string().min(1).describe('Text to replace, exactly as in the file, with spaces and line breaks.'),
    new: z.string().describe('New text.'),
    replace_all: z.boolean().default(false).describe('Replace every match; otherwise there must be exactly one.'),
    more: z
      .array(z.object({ old: z.string().min(1), new: z.string() }))
      .max(50)
      .default([])
      .describe('Further replacements, made in order after the first: all or none.'),
    dry_run: z.boolean().default(false).describe('Only show the changes, as a diff.'),
  }),
)

const Insert = lazySchema(() =>
  z.object({
    path: path.describe('The file.'),
    line: z.int().min(0).describe('Line number to insert after; 0 is the beginning.'),
    content: z.string().describe('Lines to insert.'),
  }),
)

const Undo = lazySchema(() => z.object({ path: path.optional().describe('File path; default the file changed last.') }))

/** The tools that change text. Each instance of the module has its own history, known by its configuration. */
export function createEdits() {
  const histories = new WeakMap<Settings, History>()
  const historyOf = (config: Settings): History => {
    const history = histories.get(config) ?? createHistory()
    histories.set(config, history)
    return history
  }

  const edit: ToolDef<Settings, typeof Edit> = {
    title: 'Edit a file',
    description:
      'Change a file: replace a piece of text, or several, all or none. The old text must occur exactly once, unless replace_all is true; read the file first. Use insert to add lines, write to replace the whole file.',
    aliases: [
      'change text',
      'swap words',
      'ersetzen',
      'ändern',
      'sustituir',
      'заменить',
      '替换',
      'edit file',
      'replace text',
      'search and replace',
      'str_replace',
      'modifier',
      'modifier fichier',
      'remplacer texte',
    ],
    tags: ['files', 'text'],
    input: Edit,
    effect: 'destructive',
    available: writable,
    sideEffects: ['changes a file'],
    examples: [{ input: { path: 'src/index.ts', old: 'const port = 80\n', new: 'const port = 8080\n' } }],
    run: ({ path: requestedPath, more, replace_all, dry_run, ...first }, ctx) =>
      changeFile(
        historyOf(ctx.config),
        requestedPath,
        ctx,
        async (bytes) => {
          let [current, replaced, line] = [bytes, 0, 0]
          for (const replacement of [first, ...more]) {
            const result = replaceIn(current, replacement, {
              all: replace_all,
              maxBytes: ctx.config.max_file_size,
              maxCount: MAX_REPLACED - replaced,
              filePath: requestedPath,
              createTooLargeError: (size) => createFileTooLargeError(size, ctx.config),
            })
            current = result.bytes
            replaced += result.count
            if (line === 0) line = result.line
            await nextTurn()
            ctx.signal.throwIfAborted()
          }
          return { bytes: current, details: { replaced, line } }
        },
        dry_run,
      ),
  }

  const insert: ToolDef<Settings, typeof Insert> = {
    title: 'Insert lines',
    description:
      'Insert lines into a text file after a given line, 0 for the beginning. To replace text use edit, to add at the end write with append.',
    aliases: [
      'put lines',
      'einfügen',
      'insertar',
      'вставить строки',
      '插入',
      'insert text',
      'add lines',
      'insérer',
      'insérer lignes',
      'ajouter des lignes',
    ],
    tags: ['files', 'text'],
    input: Insert,
    effect: 'write',
    available: writable,
    sideEffects: ['changes a file'],
    examples: [{ input: { path: 'notes.md', line: 0, content: '# Notes\n' } }],
    run: ({ path: requestedPath, line, content }, ctx) =>
      changeFile(historyOf(ctx.config), requestedPath, ctx, (bytes) => {
        const start = findLineEnd(bytes, line, requestedPath)
        const lineBreak = bytes.includes('\r\n') ? '\r\n' : '\n'
        const before = start === 0 || bytes[start - 1] === LINE_FEED ? '' : lineBreak
        const isWhole = content === '' || content.endsWith('\n') || start === bytes.length
        const added = Buffer.from(isWhole ? content : content + lineBreak)
        return {
          bytes: Buffer.concat([bytes.subarray(0, start), Buffer.from(before), added, bytes.subarray(start)]),
          details: { line: line + 1, lines: Math.max(1, countLines(added)) },
        }
      }),
  }

  const undo: ToolDef<Settings, typeof Undo> = {
    title: 'Undo an edit',
    description:
      'Undo the last write, edit or insert; with path, the last of that file. A new file is removed. Only for changes since the server started, to files under 1 MiB that are the same since.',
    aliases: [
      'take back',
      'rückgängig',
      'deshacer',
      'отменить',
      '撤销',
      'undo edit',
      'revert',
      'annuler',
      'annuler modification',
      'défaire',
    ],
    tags: ['files', 'text'],
    input: Undo,
    effect: 'destructive',
    available: writable,
    sideEffects: ['changes or removes a file'],
    examples: [{ input: {} }, { input: { path: 'src/index.ts' } }],
    run: ({ path: requestedPath }, { config, caller }) =>
      historyOf(config).undo(pathsFor(config), caller, requestedPath),
  }

  return { write: writeTool(historyOf), edit, insert, undo }
}

/** Beginning of the line after `line`. @throws ToolError E_VALIDATION if there are fewer lines */
function findLineEnd(bytes: Buffer, line: number, filePath: string): number {
  let index = 0
  for (let remaining = line; remaining > 0; remaining--) {
    if (index === bytes.length)
      throw invalid(`'${filePath}' has no line ${line}.`, `Use a line from 0 to ${countLines(bytes)}.`)
    while (index < bytes.length && bytes[index] !== LINE_FEED) index++
    if (index < bytes.length) index++
  }
  return index
}

/** Maximum number of replacements per call; more would block other work. */
const MAX_REPLACED = 1_000_000

function changeFile(
  history: History,
  requestedPath: string,
  { config, caller }: CallContext<Settings>,
  createResult: (bytes: Buffer) => EditResult | Promise<EditResult>,
  isDryRun = false,
): Promise<object> {
  const paths = pathsFor(config)
  return history.runInTurn(requestedPath, async () => {
    const { bytes, expect } = await paths.readFile(requestedPath, async ({ handle, size, mtime }) => {
      if (size > config.max_file_size) throw createFileTooLargeError(size, config)
      const bytes = await handle.readFile()
      if (bytes.includes(0) || !isUtf8(bytes))
        throw invalid(`'${requestedPath}' is not UTF-8 text.`, 'Replace the whole file.')
      return { bytes, expect: { size, mtime } }
    })
    const edited = await createResult(bytes)
    const size = edited.bytes.length
    if (size > config.max_file_size) throw createFileTooLargeError(size, config)
    if (isDryRun)
      return { path: requestedPath, bytes: size, ...edited.details, diff: diffOf(requestedPath, bytes, edited.bytes) }
    const { path: shown } = await history.write(paths, caller, requestedPath, edited.bytes, { expect })
    return { path: shown, bytes: size, ...edited.details }
  })
}

interface EditResult {
  readonly bytes: Buffer
  /** Additional members of the answer, besides path and size. */
  readonly details: object
}

const createFileTooLargeError = (bytes: number, { max_file_size }: Settings): ToolError =>
  tooLarge(
    `The file has ${bytes} bytes; the limit is ${max_file_size}.`,
    'See modules.filesystem.config.max_file_size.',
  )
