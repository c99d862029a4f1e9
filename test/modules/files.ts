import type { SentFile } from 'pegboard'
import type { Bench } from '../loader/setup.ts'
import { startModule } from './start-module.ts'

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
  const { root, ...found } = await startModule('filesystem', { readonly: false, ...config }, files)
  const sent: SentFile[] = []
  const call: Files['call'] = (action, input = {}) =>
    found.run(`filesystem.${action}`, input, { sendFile: (file) => sent.push(file) })
  return { root, found, sent, call }
}
