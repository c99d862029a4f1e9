import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ToolError } from 'pegboard'
import { unavailable } from '../../_errors.ts'
import { runProgram } from '../../_program.ts'
import { type BackendContext, fillPlaceholders } from './backend.ts'

/**
 * Runs a configured program without a shell and reads its `%output%` file. Values replace their placeholders and
 * never become extra arguments; `%prompt_file%` or `%script_file%` pass them in files.
 */
export async function runBackendCommand(
  { command, args }: { readonly command: string; readonly args: readonly string[] },
  {
    values,
    files,
    output,
    timeoutMs,
  }: {
    readonly values: Readonly<Record<string, unknown>>
    /** Files written to a temporary folder; their paths are values too. */
    readonly files: Readonly<Record<string, { readonly name: string; readonly data: Uint8Array | string }>>
    readonly output: string
    readonly timeoutMs: number
  },
  { processes, cacheDir, ctx: { signal } }: Pick<BackendContext, 'processes' | 'cacheDir' | 'ctx'>,
): Promise<Uint8Array> {
  if (!processes) throw unavailable('Programs cannot run here.', 'Ask the operator.')
  await mkdir(cacheDir, { recursive: true, mode: 0o700 })
  const folder = await mkdtemp(join(cacheDir, 'made-'))
  try {
    const paths: Record<string, string> = { output: join(folder, output) }
    for (const [key, { name, data }] of Object.entries(files)) {
      paths[key] = join(folder, name)
      await writeFile(paths[key], data, { mode: 0o600 })
    }
    await runProgram(processes, {
      command,
      args: args.map((arg) => String(fillPlaceholders(arg, { ...values, ...paths }) ?? '')),
      folder,
      as: 'The program',
      signal,
      limit: { signal: AbortSignal.timeout(timeoutMs), seconds: timeoutMs / 1000, hint: 'Request a simpler image.' },
    })
    return await readFile(paths['output'] ?? '').catch(() => {
      throw new ToolError('The program succeeded without output.', { hint: 'Ask the operator.' })
    })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
