import { resolve } from 'node:path'
import { ToolError } from 'pegboard'
import { denied } from '../_errors.ts'
import { pathsFor, type Settings } from './config.ts'
import { baseName, obeysRepository, opensFiles } from './programs.ts'

/** Options with which read-only programs take file names from a file. */
const NAMES_IN_FILES: Readonly<Record<string, RegExp>> = {
  wc: /^--f/,
  du: /^--f|^-\w*X|^--exclude-f/,
  cksum: /^--c|^-\w*c/,
  md5sum: /^--c|^-\w*c/,
  sha1sum: /^--c|^-\w*c/,
  sha256sum: /^--c|^-\w*c/,
  sha512sum: /^--c|^-\w*c/,
}

interface CommandLine {
  readonly command: string
  readonly args: readonly string[]
  readonly cwd: string
}

/**
 * Without a sandbox, the arguments of a read-only program must name files that the other tools may read.
 * @throws ToolError E_DENIED_BY_POLICY, E_PATH_OUTSIDE_ROOT, E_PATH_DENIED
 */
export async function checkReads(settings: Settings, { command, args, cwd }: CommandLine): Promise<void> {
  if (!opensFiles(command)) return
  const listOption = args.find((arg) => NAMES_IN_FILES[baseName(command)]?.test(arg))
  if (listOption !== undefined)
    throw denied(
      `'${listOption.slice(0, 80)}' reads file names from a file, which needs a sandbox.`,
      'Name the files directly.',
    )
  await checkPaths(settings, args, cwd)
}

/**
 * Outside the sandbox, the arguments of git must name files that the other tools may read: `git commit -F` and many others
 * show any file.
 * @throws ToolError E_PATH_OUTSIDE_ROOT, E_PATH_DENIED
 */
export async function checkGitPaths(settings: Settings, { command, args, cwd }: CommandLine): Promise<void> {
  if (!obeysRepository(command)) return
  // The value of a short option may follow its letter: -F../key.
  const optionValues = args.flatMap((arg) =>
    /^-[^-]/.test(arg) ? Array.from({ length: Math.min(arg.length, MAX_LETTERS) }, (_, at) => arg.slice(at + 2)) : [],
  )
  await checkPaths(settings, [...args, ...optionValues], cwd)
}

const MAX_LETTERS = 16

async function checkPaths(settings: Settings, words: readonly string[], cwd: string): Promise<void> {
  const paths = pathsFor(settings, [...settings.readable, cwd])
  // Only existing paths are checked; any other word is harmless.
  for (const arg of words)
    for (const word of [arg, arg.replace(/^[^=]*=/, '')])
      if (word !== '' && word !== '-')
        await paths.stat(resolve(cwd, word)).catch((error: unknown) => {
          if (!(error instanceof ToolError) || !HARMLESS_ERRORS.has(error.code)) throw error
        })
}

/** A long text is no path. */
const HARMLESS_ERRORS: ReadonlySet<string> = new Set(['E_NOT_FOUND', 'E_VALIDATION'])
