import { createReadStream, existsSync, readFileSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'
import type { Config } from '../config/load-config.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import { formatCount } from '../core/format-count.ts'
import { countMissingLines, readAnchors } from '../observe/audit-anchor.ts'
import { type ChainBreak, createChainVerifier, parseSignedLine } from '../observe/hash-chain.ts'
import { KEY_BYTES } from '../state/secret-file.ts'
import { type Args, readOption } from './args.ts'
import { type Io, UsageError, writeJson } from './io.ts'
import { openConfig } from './open-app.ts'

/** `pegboard audit verify`: verifies the audit log. Exit code 1 if it was changed. */
export async function run(args: Args, io: Io): Promise<number> {
  const [action, ...namedFiles] = args.positionals
  if (action !== 'verify')
    throw new UsageError('audit takes "verify" and optional log files (default: those of the configuration)')
  const { config } = await openConfig(args, io)
  const files =
    namedFiles.length > 0 ? namedFiles.map((file) => requireFile(resolve(io.cwd, file))) : findLogFiles(config)
  const key = readKey(readOption(args, 'key'), config, io)
  const report = await verifyFiles(files, key)
  // A named file may be a copy of any part of a log.
  const endsVerified = namedFiles.length === 0
  const breaks = endsVerified ? await addMissingEnds(report, config, key) : report.breaks
  if (args.values['json'] === true) writeJson(io, { files, lines: report.lines, breaks, ends_verified: endsVerified })
  else printReport({ ...report, breaks }, endsVerified, io)
  return breaks.length === 0 ? 0 : 1
}

type Break = ChainBreak & { readonly file: string }
/** The first and last line of each writer. */
type Runs = Map<string, { readonly first: number; readonly last: number }>

interface Report {
  readonly files: readonly string[]
  readonly breaks: readonly Break[]
  /** Number of lines in all files. */
  readonly lines: number
  readonly lastFileLines: number
  readonly runs: Runs
}

async function verifyFiles(files: readonly string[], key: Buffer): Promise<Report> {
  const verifyLine = createChainVerifier(key)
  const runs: Runs = new Map()
  const breaks: Break[] = []
  let [lines, lastFileLines] = [0, 0]
  for (const file of files) {
    let line = 0
    for await (const text of readLines(file)) {
      line++
      const problem = verifyLine(text)
      if (problem !== undefined) breaks.push({ file, line, what: problem })
      const signed = problem === 'changed' ? undefined : parseSignedLine(text)
      if (signed) runs.set(signed.run, { first: runs.get(signed.run)?.first ?? signed.seq, last: signed.seq })
    }
    lines += line
    lastFileLines = line
  }
  return { files, breaks, lines, lastFileLines, runs }
}

/** Adds lines that are missing before the first file and after the last one. */
async function addMissingEnds(report: Report, config: Config, key: Buffer): Promise<readonly Break[]> {
  const { files, breaks, lastFileLines, runs } = report
  const anchors = await readAnchors(join(config.dirs.state, 'audit'), logFileOf(config), key)
  const { atStart, atEnd } = countMissingLines(anchors, runs)
  const [first = '', last = ''] = [files[0], files.at(-1)]
  return [
    ...(atStart > 0 ? [{ file: first, line: 1, what: 'lines before it are missing' } as const] : []),
    ...breaks,
    ...(atEnd > 0 ? [{ file: last, line: lastFileLines + 1, what: 'lines from here on are missing' } as const] : []),
  ]
}

function printReport({ files, breaks, lines }: Report, endsVerified: boolean, io: Io): void {
  for (const { file, line, what: problem } of breaks) io.stdout(`${basename(file)}:${line}: ${problem}\n`)
  const result =
    breaks.length === 0 ? 'no line changed, inserted or deleted' : `${breaks.length} changed, inserted or deleted`
  io.stdout(`${formatCount(lines, 'line')} in ${formatCount(files.length, 'file')}, ${result}.\n`)
  if (!endsVerified)
    io.stdout('Named files can be parts of a log: lines may be missing before the first line and after the last one.\n')
}

/** Reports a missing file before a missing key. */
function requireFile(file: string): string {
  if (existsSync(file)) return file
  throw new PegboardError('E_NOT_FOUND', `There is no audit log at ${file}.`)
}

const logFileOf = ({ audit, dirs }: Config): string => audit.file ?? join(dirs.state, 'audit.jsonl')

/** Oldest first. */
function findLogFiles(config: Config): string[] {
  const { audit } = config
  const file = logFileOf(config)
  const older = Array.from({ length: audit.keep }, (_, n) => `${file}.${audit.keep - n}`)
  const existing = [...older, file].filter((path) => existsSync(path))
  if (existing.length > 0) return existing
  throw new PegboardError('E_NOT_FOUND', `There is no audit log at ${file}.`, {
    hint: 'Set audit.enabled to true to write one, or name another file.',
  })
}

/** A missing key is not created, because it would match no log. */
function readKey(keyFile: string | undefined, { dirs }: Config, io: Io): Buffer {
  const file = keyFile === undefined ? join(dirs.state, 'audit.key') : resolve(io.cwd, keyFile)
  let key: Buffer
  try {
    key = readFileSync(file)
  } catch (error) {
    throw new PegboardError('E_NOT_FOUND', `The key of the audit log cannot be read: ${messageOf(error)}.`, {
      hint: 'The key is audit.key in the state folder of the Pegboard that wrote the log. Use --key to name another file.',
    })
  }
  if (key.length === KEY_BYTES) return key
  throw new PegboardError(
    'E_STATE',
    `The key of the audit log is damaged: ${file} has ${key.length} bytes instead of ${KEY_BYTES}.`,
    {
      hint: 'Lines that were signed with it cannot be verified. Restore the file from a backup, or delete it: Pegboard then creates a new key at the next start.',
    },
  )
}

async function* readLines(file: string): AsyncGenerator<string> {
  let rest = ''
  try {
    // Not with node:readline, which also splits lines at some characters inside texts.
    for await (const chunk of createReadStream(file, 'utf8')) {
      const lines = (rest + chunk).split('\n')
      rest = lines.pop() ?? ''
      yield* lines
    }
    if (rest !== '') yield rest
  } catch (error) {
    throw new PegboardError('E_NOT_FOUND', `An audit log cannot be read: ${messageOf(error)}.`)
  }
}
