import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { SentFile } from 'pegboard'
import { type Bench, bench, tempDir } from '../loader/setup.ts'

const bundledDirs = [fileURLToPath(new URL('../../modules', import.meta.url))]

export interface Files {
  readonly root: string
  readonly found: Bench
  /** Extra content that calls returned beside their results. */
  readonly sent: SentFile[]
  call(action: string, input?: unknown): Promise<unknown>
}

/** The filesystem module over a folder of files; `config` as in the configuration file. */
export async function filesWith(
  files: Readonly<Record<string, string>> = {},
  config: Record<string, unknown> = {},
): Promise<Files> {
  const root = await tempDir(files)
  const found = await bench(
    {},
    {
      bundledDirs,
      modulesDir: join(root, 'modules'),
      autoload: false,
      settings: { filesystem: { config: { readonly: false, ...config } } },
      vars: {
        workspace: root,
        state_dir: join(root, 'state'),
        cache_dir: join(root, 'cache'),
        config_file: join(root, 'mcp.config.json'),
        env: {},
      },
    },
  )
  const { failed } = await found.loader.start()
  if (failed.length > 0) throw new Error(JSON.stringify(failed))
  const sent: SentFile[] = []
  const call: Files['call'] = (action, input = {}) =>
    found.run(`filesystem.${action}`, input, { sendFile: (file) => sent.push(file) })
  return { root, found, sent, call }
}
