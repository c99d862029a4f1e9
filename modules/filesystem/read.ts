import { isUtf8 } from 'node:buffer'
import { type OpenFile, type ToolDef, z } from 'pegboard'
import { folder, path, pathsFor, type Settings } from './config.ts'

const Read = z.object({
  path: path.describe('The file.'),
  offset: z.int().min(0).default(0).describe('Lines to leave out at the start.'),
  limit: z.int().min(1).max(2000).default(2000).describe('Lines to give at most.'),
  numbered: z.boolean().default(false).describe('Put the line number before each line.'),
  encoding: z.enum(['utf8', 'utf16le', 'latin1', 'base64']).default('utf8').describe('How bytes become text.'),
})

const CHUNK = 64 * 1024
/** Of text in one answer: what a model can read, whatever the file holds. */
const MAX_TEXT = 1024 * 1024

export const read: ToolDef<Settings, typeof Read> = {
  title: 'Read a file',
  description:
    'Reads a text file, whole or by lines (offset, limit). A long file comes in parts: go on at next_offset. Not for folders (ls), nor to search in files (grep).',
  aliases: ['read file', 'open file', 'cat', 'view', 'lire', 'lire fichier', 'ouvrir fichier', 'afficher'],
  tags: ['files', 'text'],
  input: Read,
  hidden: ['encoding'],
  effect: 'read',
  sideEffects: ['none'],
  examples: [
    { input: { path: 'README.md' } },
    { input: { path: 'src/index.ts', offset: 100, limit: 50, numbered: true }, note: 'lines 101 to 150' },
  ],
  async run({ path: wanted, offset, limit, numbered, encoding }, { config, signal }) {
    return await pathsFor(config).readFile(wanted, async (file) => {
      const facts = { path: file.path, size: file.size, mtime: file.mtime.toISOString() }
      if (encoding === 'base64') return { ...facts, ...(await readBytes(file, config.max_file_size)) }
      const found = await readLines(file, {
        offset,
        limit,
        encoding,
        maxBytes: Math.min(config.max_file_size, MAX_TEXT),
        signal,
      })
      if (found.binary) return { ...facts, content: '', lines: 0, truncated: file.size > 0, binary: true }
      const content = numbered
        ? found.lines.map((line, index) => `${offset + index + 1}\t${line}`).join('')
        : found.lines.join('')
      return {
        ...facts,
        content,
        lines: found.lines.length,
        truncated: found.more,
        ...(found.more ? { next_offset: offset + found.lines.length } : {}),
      }
    })
  },
}

async function readBytes({ handle, size }: OpenFile, maxBytes: number): Promise<object> {
  const buffer = Buffer.alloc(Math.min(Math.max(size, 1), maxBytes))
  const { bytesRead } = await handle.read(buffer, 0, buffer.length, 0)
  return { content: buffer.toString('base64', 0, bytesRead), lines: 0, truncated: size > bytesRead, encoding: 'base64' }
}

interface LineRequest {
  readonly offset: number
  readonly limit: number
  readonly encoding: 'utf8' | 'utf16le' | 'latin1'
  readonly maxBytes: number
  readonly signal: AbortSignal
}

/** Reads as far as needed, a chunk at a time, whatever the size of the file. Lines keep their ends. */
async function readLines(
  { handle }: OpenFile,
  { offset, limit, encoding, maxBytes, signal }: LineRequest,
): Promise<{ lines: string[]; more: boolean; binary: boolean }> {
  const decoder = new TextDecoder(encoding === 'utf16le' ? 'utf-16le' : encoding === 'latin1' ? 'latin1' : 'utf-8', {
    ignoreBOM: true,
  })
  const buffer = Buffer.alloc(CHUNK)
  const lines: string[] = []
  let [index, kept, partial] = [0, 0, '']
  /** Takes one line; false when the answer is full. */
  const take = (line: string): boolean => {
    if (index++ < offset) return true
    if (lines.length === limit || kept + line.length > maxBytes) return false
    lines.push(line)
    kept += line.length
    return true
  }
  for (let first = true; ; first = false) {
    signal.throwIfAborted()
    const { bytesRead } = await handle.read(buffer, 0, CHUNK, null)
    if (first && encoding === 'utf8' && isBinary(buffer.subarray(0, Math.min(bytesRead, 8192))))
      return { lines, more: false, binary: true }
    const text =
      partial + (bytesRead > 0 ? decoder.decode(buffer.subarray(0, bytesRead), { stream: true }) : decoder.decode())
    const parts = text.split(/(?<=\n)/)
    partial = bytesRead > 0 ? (parts.pop() ?? '') : ''
    for (const line of parts) if (line !== '' && !take(line)) return { lines, more: true, binary: false }
    if (bytesRead === 0) return { lines, more: false, binary: false }
    // A line longer than an answer can be: its beginning is all there is to say.
    if (partial.length > maxBytes) {
      if (index >= offset && lines.length === 0) lines.push(partial.slice(0, maxBytes))
      if (index >= offset) return { lines, more: true, binary: false }
      partial = partial.slice(-1)
    }
  }
}

/** As git does it: a zero byte near the start. */
export const isBinary = (head: Uint8Array): boolean => head.includes(0)

/** The whole of a small text file; undefined for binary or larger ones. */
export async function textOf({ handle, size }: OpenFile, maxBytes: number): Promise<string | undefined> {
  if (size > maxBytes) return undefined
  const bytes = await handle.readFile()
  return bytes.length > maxBytes || isBinary(bytes.subarray(0, 8192))
    ? undefined
    : bytes.toString(isUtf8(bytes) ? 'utf8' : 'latin1')
}

const List = z.object({
  path: folder.describe('The folder.'),
  recursive: z.boolean().default(false).describe('Also what is in its folders.'),
  show_hidden: z.boolean().default(false).describe('Also names that begin with a dot.'),
  limit: z.int().min(1).max(5000).default(500).describe('Entries to give at most.'),
})

export const ls: ToolDef<Settings, typeof List> = {
  title: 'List a folder',
  description:
    'Lists what is in a folder: names and kinds (file, dir, link). Use find to look for files by name, grep to look for text in them.',
  aliases: ['list files', 'list directory', 'dir', 'tree', 'lister', 'lister fichiers', 'contenu du dossier'],
  tags: ['files', 'folders'],
  input: List,
  effect: 'read',
  sideEffects: ['none'],
  examples: [{ input: {} }, { input: { path: 'src', recursive: true, limit: 100 } }],
  async run({ path: wanted, recursive, show_hidden, limit }, { config, signal }) {
    const paths = pathsFor(config)
    const { path: shown, entries: direct } = await paths.listFolder(wanted)
    const hidden = (name: string): boolean => !show_hidden && name.startsWith('.')
    const entries: { path: string; kind: string }[] = []
    for await (const entry of recursive ? paths.walk(wanted, ({ name }) => hidden(name)) : direct) {
      signal.throwIfAborted()
      if (hidden(entry.name)) continue
      if (entries.length === limit) return { path: shown, entries, count: limit, truncated: true }
      entries.push({ path: entry.path, kind: entry.kind })
    }
    const others = shown === '.' && paths.roots.length > 1 ? { other_roots: paths.roots.slice(1) } : {}
    return { path: shown, entries, count: entries.length, truncated: false, ...others }
  },
}
