import { isUtf8 } from 'node:buffer'
import { type CallContext, type ToolDef, ToolError, z } from 'pegboard'
import { path, type Settings, writable } from './config.ts'
import { createHistory, type History } from './history.ts'
import { pathsFor } from './places.ts'
import { writeTool } from './write.ts'

const Edit = z.object({
  path: path.describe('The file.'),
  old: z.string().min(1).describe('The text to replace, exactly as it stands there, with spaces and line breaks.'),
  new: z.string().describe('The text to put in its place.'),
  replace_all: z.boolean().default(false).describe('Replace every one; otherwise there must be only one.'),
  more: z
    .array(z.object({ old: z.string().min(1), new: z.string() }))
    .max(50)
    .default([])
    .describe('Further replacements, made in this order after the first: all of them or none.'),
  dry_run: z.boolean().default(false).describe('Only show what would change, as a diff.'),
})

const Insert = z.object({
  path: path.describe('The file.'),
  line: z.int().min(0).describe('After which line; 0 is the beginning.'),
  content: z.string().describe('The lines to put there.'),
})

const Undo = z.object({ path: path.optional().describe('The file; default the one changed last.') })

/** The tools that change text. Each instance of the module has a history; it is known by its configuration. */
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
      'Replaces a piece of text in a file, or several, at once or not at all. The old text must stand there exactly once, or replace_all be true; read the file first. Use insert to add lines, write to replace the whole file.',
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
    run: ({ path: wanted, more, replace_all, dry_run, ...first }, ctx) =>
      change(
        historyOf(ctx.config),
        wanted,
        ctx,
        (text) => {
          let [now, replaced, line] = [text, 0, 0]
          for (const one of [first, ...more]) {
            const done = replace(now, one, replace_all, wanted)
            now = done.text
            replaced += done.count
            if (line === 0) line = done.line
          }
          return { text: now, said: { replaced, line } }
        },
        dry_run,
      ),
  }

  const insert: ToolDef<Settings, typeof Insert> = {
    title: 'Insert lines',
    description:
      'Puts lines into a text file after a given line, 0 for the beginning. To replace text use edit, to add at the end write with append.',
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
    run: ({ path: wanted, line, content }, ctx) =>
      change(historyOf(ctx.config), wanted, ctx, (text) => {
        const lines = text.split(/(?<=\n)/)
        const count = text === '' ? 0 : lines.length
        if (line > count)
          throw new ToolError(`'${wanted}' has ${count} lines.`, {
            code: 'E_VALIDATION',
            hint: `Give a line from 0 to ${count}.`,
          })
        const end = text.includes('\r\n') ? '\r\n' : '\n'
        const before = lines.slice(0, line).join('')
        const joined = before === '' || before.endsWith('\n') ? before : before + end
        const after = lines.slice(line).join('')
        const added = content === '' || content.endsWith('\n') || after === '' ? content : content + end
        return { text: joined + added + after, said: { line: line + 1, lines: added.split(/(?<=\n)/).length } }
      }),
  }

  const undo: ToolDef<Settings, typeof Undo> = {
    title: 'Take back a change',
    description:
      'Takes back the latest write, edit or insert, of one file if its path is given; a file that was new is removed. Only changes of this run to files under 1 MiB, and only while nobody else changed the file since.',
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
    run: ({ path: wanted }, { config, caller }) => historyOf(config).undo(pathsFor(config), caller.principal, wanted),
  }

  return { write: writeTool(historyOf), edit, insert, undo }
}

interface Replacement {
  readonly old: string
  readonly new: string
}

function replace(text: string, { old, new: put }: Replacement, all: boolean, shown: string) {
  const [find, replacement] = fitting(text, old, put)
  const parts = text.split(find)
  const count = parts.length - 1
  if (count === 0)
    throw new ToolError(`The old text is not in '${shown}'.`, {
      code: 'E_VALIDATION',
      hint: 'Read the file and copy the text exactly, with its spaces.',
    })
  if (count > 1 && !all)
    throw new ToolError(`The old text is ${count} times in '${shown}'.`, {
      code: 'E_VALIDATION',
      hint: 'Take more of the lines around it, or set replace_all.',
    })
  return { text: parts.join(replacement), count, line: (parts[0] as string).split('\n').length }
}

/** Lines around a change that a diff shows. */
const AROUND = 3

/** From the first line that differs to the last, as `diff -u` shows it. */
function diffOf(path: string, before: string, after: string): string {
  const [a, b] = [before, after].map((text) => text.replace(/\r?\n$/, '').split(/\r?\n/)) as [string[], string[]]
  let start = 0
  while (start < Math.min(a.length, b.length) && a[start] === b[start]) start++
  let end = 0
  while (end < Math.min(a.length, b.length) - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++
  const from = Math.max(0, start - AROUND)
  const after3 = a.slice(a.length - end, a.length - end + AROUND)
  const lines = [
    ...a.slice(from, start).map((line) => ` ${line}`),
    ...a.slice(start, a.length - end).map((line) => `-${line}`),
    ...b.slice(start, b.length - end).map((line) => `+${line}`),
    ...after3.map((line) => ` ${line}`),
  ]
  const count = (all: readonly string[]): number => all.length - end - from + after3.length
  return [`--- ${path}`, `+++ ${path}`, `@@ -${from + 1},${count(a)} +${from + 1},${count(b)} @@`, ...lines, ''].join(
    '\n',
  )
}

/** A model writes `\n`; a file may have `\r\n`. */
const fitting = (text: string, old: string, put: string): readonly [string, string] =>
  text.includes(old) || !text.includes('\r\n') ? [old, put] : [crlf(old), crlf(put)]
const crlf = (text: string): string => text.replaceAll(/\r?\n/g, '\r\n')

function change(
  history: History,
  wanted: string,
  { config, caller }: CallContext<Settings>,
  make: (text: string) => { readonly text: string; readonly said: object },
  isDry = false,
): Promise<object> {
  const paths = pathsFor(config)
  return history.inTurn(wanted, async () => {
    const { text, expect } = await paths.readFile(wanted, async ({ handle, size, mtime }) => {
      if (size > config.max_file_size) throw tooLarge(size, config)
      const bytes = await handle.readFile()
      if (bytes.includes(0) || !isUtf8(bytes))
        throw new ToolError(`'${wanted}' is not UTF-8 text.`, { code: 'E_VALIDATION', hint: 'Write it whole.' })
      return { text: bytes.toString('utf8'), expect: { size, mtime } }
    })
    const made = make(text)
    const bytes = Buffer.byteLength(made.text)
    if (bytes > config.max_file_size) throw tooLarge(bytes, config)
    if (isDry) return { path: wanted, bytes, ...made.said, diff: diffOf(wanted, text, made.text) }
    const { path: shown } = await history.write(paths, caller.principal, wanted, made.text, { expect })
    return { path: shown, bytes, ...made.said }
  })
}

const tooLarge = (bytes: number, { max_file_size }: Settings): ToolError =>
  new ToolError(`The file has ${bytes} bytes; ${max_file_size} are allowed.`, {
    code: 'E_TOO_LARGE',
    hint: 'modules.filesystem.config.max_file_size decides.',
  })
