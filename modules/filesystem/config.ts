import { compileGlob, type Matcher, type ToolError, z } from 'pegboard'
import { stringList } from '../_access.ts'
import { invalid } from '../_errors.ts'
import { ownFolders } from '../_folders.ts'

/** Unknown keys are rejected, so that a misspelled `readonly` does not leave writing enabled. */
export const Config = z.strictObject({
  root: z.string().min(1).optional().describe('Folder that the tools use; default the workspace.'),
  roots: z
    .array(z.string().min(1))
    .min(1)
    .optional()
    .describe(
      'Several folders. Relative paths start at the first one. Commands of the module shell use modules.shell.config.roots instead.',
    ),
  allowed_paths: stringList('More folders or files. An exact file here is allowed even if its name is protected.'),
  denied_paths: stringList('Paths that are never used or listed: globs or folders below a root, or absolute paths.'),
  deny_names: z
    .array(z.string().min(1))
    .default(['config.yaml', 'mcp.config.json', '.env'])
    .describe('File and folder names that are denied everywhere.'),
  write_roots: z.array(z.string().min(1)).optional().describe('Roots where writing is allowed; default all.'),
  readonly: z
    .boolean()
    .optional()
    .describe('Disable all writing; default true until root or roots is set, then false.'),
  max_file_size: z
    .int()
    .min(1)
    .default(10 * 1024 * 1024)
    .describe('Larger files are read in part, and not searched or written (bytes).'),
  write_file_max_bytes: z
    .int()
    .min(1)
    .default(512 * 1024)
    .describe('Maximum bytes of one write_file call.'),
  file_cache_dir: z
    .string()
    .default('{{cache_dir}}/files')
    .describe('Folder behind file_cache_dir/…, where write_file puts relative paths; empty disables it.'),
  file_state_dir: z
    .string()
    .default('{{state_dir}}/files')
    .describe('Folder behind file_state_dir/…; empty disables it.'),
  ...ownFolders,
})

export type Settings = z.infer<typeof Config>

/** Read-only by default without a root, because a user who only pasted a configuration did not allow writing. */
export const isReadonly = ({ readonly, root, roots }: Settings): boolean =>
  readonly ?? (root === undefined && roots === undefined)

/** Why a writing tool is unavailable, or true if it is available. */
export const writable = ({ config }: { readonly config: Settings }): true | string =>
  !isReadonly(config) ||
  (config.readonly
    ? 'modules.filesystem.config.readonly is true'
    : 'set modules.filesystem.config.roots to allow writing')

/** A path parameter. */
export const path = z.string().min(1).max(4096)
export const folder = path.default('.')

/** `dir/name` relative to `dir`, for patterns. */
export const relativeTo = (base: string, full: string): string =>
  base === '.' ? full : full.startsWith(`${base}/`) ? full.slice(base.length + 1) : full

/** The error for patterns written by a model. */
export const createPatternError = (message: string): ToolError =>
  invalid(`Invalid pattern: ${message}.`, 'Correct the pattern.')

/** A pattern without a slash matches names anywhere; one with a slash matches paths below the folder. */
export function globOf(pattern: string): Matcher {
  try {
    const matches = compileGlob(pattern)
    return pattern.includes('/') ? matches : (full) => matches(full.slice(full.lastIndexOf('/') + 1))
  } catch (error) {
    if (error instanceof RangeError) throw createPatternError(error.message)
    throw error
  }
}

export const exclude = z.array(z.string().min(1).max(1024)).max(20).default([]).describe('Globs of paths to leave out.')

/** A test for the patterns of excluded paths. */
export function createExcludeMatcher(patterns: readonly string[], base: string): Matcher {
  const globs = patterns.map(globOf)
  return (full) => globs.some((matches) => matches(relativeTo(base, full)))
}

/** Folders that are skipped unless named. */
export const SKIPPED: ReadonlySet<string> = new Set(['.git', 'node_modules'])
