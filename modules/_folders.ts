import { mkdir } from 'node:fs/promises'
import { isAbsolute, relative, resolve, sep } from 'node:path'
import { createPaths, type Paths, ToolError, z } from 'pegboard'
import { checkWritable } from './_writable.ts'

/** A setting that Pegboard fills in; not for people. */
export const own = (name: string) => z.string().default(`{{${name}}}`).describe('Filled in by Pegboard.')

/** Where a module works, and what it must keep its hands off. */
export const ownFolders = {
  workspace: own('workspace'),
  state_dir: own('state_dir'),
  modules_dir: own('modules_dir'),
  config_file: own('config_file'),
}

/** Whether a path is a folder or below it; both absolute. */
export const isInside = (path: string, folder: string): boolean => {
  const way = relative(folder, path)
  return way === '' || (way !== '..' && !way.startsWith(`..${sep}`) && !isAbsolute(way))
}

interface CacheSettings {
  readonly file_cache_dir: string
  readonly denied_paths: readonly string[]
  readonly config_file: string
  readonly state_dir: string
}

/** Makes that folder where it is not there yet. @throws ToolError E_BACKEND_UNAVAILABLE where that cannot be */
export async function makeCache({ file_cache_dir }: CacheSettings, setting: string): Promise<void> {
  try {
    await mkdir(file_cache_dir, { recursive: true, mode: 0o700 })
  } catch (cause) {
    throw new ToolError(`The folder for files cannot be made (${setting}.file_cache_dir).`, {
      code: 'E_BACKEND_UNAVAILABLE',
      retryable: false,
      hint: `The operator sets ${setting}.file_cache_dir to a folder that can be written to.`,
      cause,
    })
  }
}

/**
 * Makes that folder, and finds out whether a file can be made in it, before anything is paid for.
 * @throws ToolError why it cannot
 */
export async function prepareCache(settings: CacheSettings, setting: string, path: string): Promise<void> {
  await makeCache(settings, setting)
  await checkWritable(cachePaths(settings, setting), path)
}

/**
 * The one folder that a module sends files from and puts files in. A part of the state folder may be given for it; the whole of
 * it never, nor the configuration.
 * @param setting the part of the configuration that errors name
 */
export function cachePaths(settings: CacheSettings, setting: string): Paths {
  const { file_cache_dir, denied_paths, config_file, state_dir } = settings
  const holdsState = isInside(resolve(state_dir), resolve(file_cache_dir))
  return createPaths({
    roots: [file_cache_dir],
    denied: [...denied_paths, config_file, ...(holdsState ? [state_dir] : [])],
    denyNames: ['config.yaml', 'mcp.config.json', '.env'],
    fixed: [state_dir, config_file, '**/config.yaml', '**/mcp.config.json'],
    setting,
    rootsSetting: `${setting}.file_cache_dir`,
  })
}
