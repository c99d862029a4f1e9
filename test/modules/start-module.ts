import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Bench, bench, tempDir } from '../loader/setup.ts'

export const bundledDirs = [fileURLToPath(new URL('../../modules', import.meta.url))]

export interface StartedModule extends Bench {
  /** The workspace. */
  readonly root: string
}

/** A bundled module over a folder of files; `config` as in the configuration file. */
export async function startModule(
  name: string,
  config: Record<string, unknown>,
  files: Readonly<Record<string, string>> = {},
  vars: Record<string, unknown> = {},
): Promise<StartedModule> {
  const root = await tempDir(files)
  const started = await bench(
    {},
    {
      bundledDirs,
      modulesDir: join(root, 'modules'),
      autoload: false,
      settings: { [name]: { config } },
      vars: {
        workspace: root,
        state_dir: join(root, 'state'),
        cache_dir: join(root, 'cache'),
        config_file: join(root, 'mcp.config.json'),
        env: {},
        ...vars,
      },
    },
  )
  const { failed } = await started.loader.start()
  if (failed.length > 0) throw new Error(JSON.stringify(failed))
  return { ...started, root }
}
