import { compileGlob, type Matcher, ToolError, z } from 'pegboard'
import { ownFolders } from '../_folders.ts'

const list = (what: string) => z.array(z.string().min(1)).default([]).describe(what)

/** Unknown keys are refused: a misspelt `readonly` must not leave writing on. */
export const Config = z.strictObject({
  root: z.string().min(1).optional().describe('The folder that tools work in; default the workspace.'),
  roots: z.array(z.string().min(1)).min(1).optional().describe('The same, several. Relative paths start at the first.'),
  allowed_paths: list(
    'More folders or files that may be used. An exact file here is allowed although it is protected.',
  ),
  denied_paths: list('What is never touched nor listed: globs or folders below a root, or absolute paths.'),
  deny_names: z
    .array(z.string().min(1))
    .default(['config.yaml', 'mcp.config.json', '.env'])
    .describe('File and folder names that are denied everywhere.'),
  write_roots: z.array(z.string().min(1)).optional().describe('Of the folders, where writing is allowed; default all.'),
  readonly: z
    .boolean()
    .optional()
    .describe('true switches all writing off; default true until root or roots are named, false then.'),
  max_file_size: z
    .int()
    .min(1)
    .default(10 * 1024 * 1024)
    .describe('Bytes: larger files are read in part, not searched, and not written.'),
  write_file_max_bytes: z
    .int()
    .min(1)
    .default(512 * 1024)
    .describe('Bytes that one call of write_file may have.'),
  file_cache_dir: z
    .string()
    .default('{{cache_dir}}/files')
    .describe('The folder behind file_cache_dir/…, where write_file puts relative paths; empty: there is none.'),
  file_state_dir: z
    .string()
    .default('{{state_dir}}/files')
    .describe('The folder behind file_state_dir/…; empty: there is none.'),
  ...ownFolders,
})

export type Settings = z.infer<typeof Config>

/** Nobody who only pasted a configuration meant to let a model write beside it. */
export const isReadonly = ({ readonly, root, roots }: Settings): boolean =>
  readonly ?? (root === undefined && roots === undefined)

/** Why a tool that writes is not there, or that it is. */
export const writable = ({ config }: { readonly config: Settings }): true | string =>
  !isReadonly(config) ||
  (config.readonly
    ? 'modules.filesystem.config.readonly is true'
    : 'name the folders in modules.filesystem.config.roots to allow writing')

/** A path as a parameter. */
export const path = z.string().min(1).max(4096)
export const folder = path.default('.')

/** `dir/name` seen from `dir`, for patterns. */
export const under = (base: string, full: string): string =>
  base === '.' ? full : full.startsWith(`${base}/`) ? full.slice(base.length + 1) : full

/** For patterns a model writes. */
export const badPattern = (message: string): ToolError =>
  new ToolError(`The pattern does not work: ${message}.`, { code: 'E_VALIDATION', hint: 'Correct the pattern.' })

/** A pattern without a slash is about names, wherever they are; one with a slash is about paths below the folder. */
export function globOf(pattern: string): Matcher {
  try {
    const fits = compileGlob(pattern)
    return pattern.includes('/') ? fits : (full) => fits(full.slice(full.lastIndexOf('/') + 1))
  } catch (error) {
    if (error instanceof RangeError) throw badPattern(error.message)
    throw error
  }
}

export const exclude = z.array(z.string().min(1).max(1024)).max(20).default([]).describe('Globs of what to leave out.')

/** Whether a path fits one of the patterns of what is left out below a folder. */
export function excludes(patterns: readonly string[], base: string): Matcher {
  const globs = patterns.map(globOf)
  return (full) => globs.some((fits) => fits(under(base, full)))
}

/** Folders that nobody means unless they name them. */
export const SKIPPED: ReadonlySet<string> = new Set(['.git', 'node_modules'])
