import { basename } from 'node:path'
import { type CallContext, type OpenFile, type ToolDef, ToolError, z } from 'pegboard'
import { invalid } from '../_errors.ts'
import { lazySchema } from '../_lazy-schema.ts'
import { mediaType } from '../_media-type.ts'
import { path, type Settings } from './config.ts'
import { pathsFor } from './paths.ts'
import { HEAD_BYTES, isBinary, MAX_TEXT, readLines, readStart, readTail } from './text.ts'

const Read = lazySchema(() =>
  z.object({
    path: path.describe('The file.'),
    offset: z.int().min(0).default(0).describe('Number of lines to skip.'),
    limit: z.int().min(1).max(2000).default(2000).describe('Maximum number of lines.'),
    tail: z.int().min(1).max(2000).optional().describe('Number of last lines to read. Not with offset.'),
    numbered: z.boolean().default(false).describe('Add line numbers.'),
    encoding: z.enum(['utf8', 'utf16le', 'latin1', 'base64']).default('utf8').describe('Text encoding.'),
  }),
)

type ReadInput = z.infer<typeof Read>

export const read: ToolDef<Settings, typeof Read> = {
  title: 'Read a file',
  description:
    'Read the content of a text file, whole or by lines (offset, limit, tail); show an image. A long file comes in parts: continue at next_offset. Not for folders (ls), nor to search in files (grep).',
  aliases: [
    'read file',
    'read a file',
    'lire un fichier',
    'open file',
    'cat',
    'view',
    'lire',
    'lire fichier',
    'ouvrir fichier',
    'afficher',
  ],
  tags: ['files', 'text'],
  input: Read,
  hidden: ['encoding'],
  effect: 'read',
  opaque: ['content'],
  sideEffects: ['none'],
  examples: [
    { input: { path: 'README.md' } },
    { input: { path: 'src/index.ts', offset: 100, limit: 50, numbered: true }, note: 'lines 101 to 150' },
  ],
  async run(input, ctx) {
    if (input.tail !== undefined && (input.offset > 0 || input.numbered || input.encoding === 'utf16le'))
      throw invalid('tail cannot be combined with offset or numbered.', 'Leave out one of them.')
    return await pathsFor(ctx.config).readFile(input.path, (file) => readContent(file, input, ctx))
  },
}

async function readContent(file: OpenFile, input: ReadInput, ctx: CallContext<Settings>): Promise<object> {
  const { config, signal } = ctx
  const { encoding, offset } = input
  const fileInfo = { path: file.path, size: file.size, mtime: file.mtime.toISOString() }
  if (encoding === 'base64') return { ...fileInfo, ...(await readBytes(file, config.max_file_size)) }
  const maxBytes = Math.min(config.max_file_size, MAX_TEXT)
  const start = await readStart(file)
  if (encoding === 'utf8') {
    const head = start.bytes.subarray(0, HEAD_BYTES)
    const type = mediaType(head)
    if (type !== undefined && file.size <= config.max_file_size) {
      ctx.sendFile({ data: await file.handle.readFile(), filename: basename(file.path), mimetype: type })
      return { ...fileInfo, content: '', lines: 0, truncated: false, media: type }
    }
    if (isBinary(head)) return { ...fileInfo, content: '', lines: 0, truncated: file.size > 0, binary: true }
  }
  if (input.tail !== undefined) return { ...fileInfo, ...(await readTail(file, input.tail, maxBytes)) }
  const result = await readLines(file, { offset, limit: input.limit, encoding, maxBytes, signal, start })
  const content = input.numbered
    ? result.lines.map((line, index) => `${offset + index + 1}\t${line}`).join('')
    : result.lines.join('')
  return {
    ...fileInfo,
    content,
    lines: result.lines.length,
    truncated: result.more,
    ...(result.more ? { next_offset: offset + result.lines.length } : {}),
  }
}

async function readBytes({ handle, size }: OpenFile, maxBytes: number): Promise<object> {
  const buffer = Buffer.alloc(Math.min(Math.max(size, 1), maxBytes))
  const { bytesRead } = await handle.read(buffer, 0, buffer.length, 0)
  return { content: buffer.toString('base64', 0, bytesRead), lines: 0, truncated: size > bytesRead, encoding: 'base64' }
}

/** One file of read_many. */
interface OneFile {
  readonly path: string
  readonly content?: string
  readonly size?: number
  readonly truncated?: boolean
  readonly binary?: true
  readonly error?: string
}

async function readWhole(file: OpenFile, maxBytes: number, signal: AbortSignal): Promise<OneFile> {
  const { path, size } = file
  const start = await readStart(file)
  if (isBinary(start.bytes.subarray(0, HEAD_BYTES))) return { path, content: '', size, truncated: true, binary: true }
  const options = { offset: 0, limit: Number.POSITIVE_INFINITY, encoding: 'utf8', maxBytes, signal, start } as const
  const { lines, more } = await readLines(file, options)
  return { path, content: lines.join(''), size, truncated: more }
}

/** As many complete lines as fit. */
function shortenTo(file: OneFile, maxChars: number): OneFile {
  const shortened = file.content?.slice(0, maxChars) ?? ''
  return { ...file, content: shortened.slice(0, shortened.lastIndexOf('\n') + 1), truncated: true }
}

const ReadMany = lazySchema(() =>
  z.object({
    paths: z.array(path).min(1).max(50).describe('The files.'),
  }),
)

export const read_many: ToolDef<Settings, typeof ReadMany> = {
  title: 'Read several files',
  description:
    'Read up to 50 text files at once, each whole. A file that cannot be read has an error in its place; together they return at most 1 MiB of text. For parts of files, images or long files use read.',
  aliases: [
    'read several files',
    'files together',
    'in one go',
    'mehrere dateien auf einmal',
    'varios archivos de una vez',
    'сразу несколько файлов',
    '一次读取多个文件',
    'multiple files at once',
    'plusieurs fichiers',
  ],
  tags: ['files', 'text'],
  input: ReadMany,
  effect: 'read',
  opaque: ['files.*.content'],
  sideEffects: ['none'],
  examples: [{ input: { paths: ['package.json', 'src/index.ts'] } }],
  async run({ paths: requestedPaths }, { config, signal }) {
    const paths = pathsFor(config)
    const maxChars = Math.min(config.max_file_size, MAX_TEXT)
    const readOne = async (path: string): Promise<OneFile> => {
      signal.throwIfAborted()
      try {
        return await paths.readFile(path, (file) => readWhole(file, maxChars, signal))
      } catch (error) {
        if (!(error instanceof ToolError)) throw error
        return { path, error: error.message }
      }
    }
    let remaining = maxChars
    const files = (await Promise.all(requestedPaths.map(readOne))).map((file) => {
      const { length } = file.content ?? ''
      const shownFile = length <= remaining ? file : shortenTo(file, remaining)
      remaining -= Math.min(length, remaining)
      return shownFile
    })
    return { files, count: files.length }
  },
}
