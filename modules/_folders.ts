import { lstat, mkdir } from 'node:fs/promises'
import { isAbsolute, relative, resolve, sep } from 'node:path'
import { createPaths, type Paths, ToolError, z } from 'pegboard'
import { checkWritable } from './_writable.ts'

/** A setting that Pegboard fills in; users do not set it. */
export const filledByPegboard = (name: string) => z.string().default(`{{${name}}}`).describe('Filled in by Pegboard.')

/** The folders of a module, and Pegboard's own folders, which it must not touch. */
export const ownFolders = {
  workspace: filledByPegboard('workspace'),
  state_dir: filledByPegboard('state_dir'),
  modules_dir: filledByPegboard('modules_dir'),
  config_file: filledByPegboard('config_file'),
}

/** Settings for the folders that modules share. */
export const cacheFolder = z.string().min(1).default('{{cache_dir}}/files')
export const stateFolder = z.string().min(1).default('{{state_dir}}/files')

/** True if a path is the folder or below it; both absolute. */
export const isInside = (path: string, folder: string): boolean => {
  const relativePath = relative(folder, path)
  return (
    relativePath === '' || (relativePath !== '..' && !relativePath.startsWith(`..${sep}`) && !isAbsolute(relativePath))
  )
}

/** Names that paths may begin with, for folders beside the workspace. */
export const ALIASES = ['file_cache_dir', 'file_state_dir'] as const
export type Alias = (typeof ALIASES)[number]

/**
 * Creates the folder of an alias, private to its owner, if it is missing.
 * @throws ToolError E_PATH_OUTSIDE_ROOT if it is a link
 */
export async function makeAliasFolder(alias: Alias, folder: string, setting: string): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  if ((await lstat(folder)).isSymbolicLink())
    throw new ToolError(`base dir ${alias} is a symbolic link`, {
      code: 'E_PATH_OUTSIDE_ROOT',
      hint: `Set ${setting}.${alias} to the folder itself.`,
    })
}

/** A path in the cache folder, without its alias. */
export const pathInCache = (path: string): string => path.replace(/^file_cache_dir(?:\/|$)/, '') || '.'

interface OwnFiles {
  readonly state_dir: string
  readonly config_file: string
  readonly modules_dir?: string
}

interface CacheSettings extends OwnFiles {
  readonly file_cache_dir: string
  readonly denied_paths: readonly string[]
}

/** Creates the folder if it is missing. @throws ToolError E_BACKEND_UNAVAILABLE */
export async function makeCache({ file_cache_dir }: CacheSettings, setting: string): Promise<void> {
  try {
    await mkdir(file_cache_dir, { recursive: true, mode: 0o700 })
  } catch (cause) {
    throw new ToolError(`Cannot create the folder for files (${setting}.file_cache_dir).`, {
      code: 'E_BACKEND_UNAVAILABLE',
      retryable: false,
      hint: `The operator sets ${setting}.file_cache_dir to a writable folder.`,
      cause,
    })
  }
}

/**
 * Creates the folder and checks that a file can be written there, before a paid request is made.
 * @throws ToolError why it cannot
 */
export async function prepareCache(settings: CacheSettings, setting: string, path: string): Promise<void> {
  await makeCache(settings, setting)
  await checkWritable(cachePaths(settings, setting), path)
}

/**
 * Access to the one folder that a module sends files from and saves files to. It may be a part of the state folder,
 * but never the state folder itself or the configuration.
 * @param setting part of the configuration that errors name
 */
export function cachePaths(settings: CacheSettings, setting: string): Paths {
  const { file_cache_dir, denied_paths, state_dir } = settings
  const holdsState = isInside(resolve(state_dir), resolve(file_cache_dir))
  return withoutOwnFiles(settings, {
    roots: [file_cache_dir],
    denied: [...denied_paths, ...(holdsState ? [state_dir] : [])],
    setting,
    rootsSetting: `${setting}.file_cache_dir`,
  })
}

/** Access to `roots` without Pegboard's configuration, wherever that is. Nothing in `modules_dir` can be written. */
export const withoutOwnFiles = (
  { state_dir, config_file, modules_dir }: OwnFiles,
  {
    denied,
    ...paths
  }: Pick<Parameters<typeof createPaths>[0], 'roots' | 'setting' | 'rootsSetting'> & {
    readonly denied: readonly string[]
  },
): Paths =>
  createPaths({
    ...paths,
    denied: [...denied, config_file],
    denyNames: ['config.yaml', 'mcp.config.json', '.env'],
    fixed: [state_dir, config_file, '**/config.yaml', '**/mcp.config.json'],
    // Anyone who can write these files decides what Pegboard runs.
    ...(modules_dir === undefined ? {} : { protected: [modules_dir] }),
  })
