import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ToolError } from 'pegboard'
import { filled, type Surroundings, unavailable } from './backend.ts'

const MAX_ADVICE = 300

/**
 * Runs a program of the operator's, without a shell, and takes what it wrote to `%output%`. What a model says stands where its placeholder
 * does and is never an argument of its own; `%prompt_file%` or `%script_file%` keep it out of the arguments.
 */
export async function produced(
  { command, args }: { readonly command: string; readonly args: readonly string[] },
  {
    values,
    files,
    output,
    timeoutMs,
  }: {
    readonly values: Readonly<Record<string, unknown>>
    /** Written to a folder of the call; their paths are values, too. */
    readonly files: Readonly<Record<string, { readonly name: string; readonly data: Uint8Array | string }>>
    readonly output: string
    readonly timeoutMs: number
  },
  { processes, cacheDir, ctx: { signal } }: Pick<Surroundings, 'processes' | 'cacheDir' | 'ctx'>,
): Promise<Uint8Array> {
  if (!processes) throw unavailable('Programs cannot be run here.', 'That is for the operator.')
  await mkdir(cacheDir, { recursive: true, mode: 0o700 })
  const folder = await mkdtemp(join(cacheDir, 'made-'))
  try {
    const paths: Record<string, string> = { output: join(folder, output) }
    for (const [key, { name, data }] of Object.entries(files)) {
      paths[key] = join(folder, name)
      await writeFile(paths[key], data, { mode: 0o600 })
    }
    const limit = AbortSignal.timeout(timeoutMs)
    const program = await processes.start({
      command,
      args: args.map((one) => String(filled(one, { ...values, ...paths }) ?? '')),
      cwd: folder,
    })
    const end = (): void => void program.stop()
    const stop = AbortSignal.any([signal, limit])
    stop.addEventListener('abort', end, { once: true })
    if (stop.aborted) end()
    program.stdin.end()
    program.stdout.resume()
    let advice = ''
    program.stderr.on('data', (chunk: Buffer) => {
      advice = `${advice}${chunk.toString('utf8')}`.slice(-MAX_ADVICE)
    })
    const { code } = await program.ended
    stop.removeEventListener('abort', end)
    signal.throwIfAborted()
    if (limit.aborted)
      throw new ToolError(`The program took longer than ${timeoutMs / 1000} s.`, {
        code: 'E_TIMEOUT',
        hint: 'Ask for less.',
      })
    if (code !== 0)
      throw new ToolError(`The program failed with code ${code}: ${advice.replaceAll(folder, '…').trim()}`)
    return await readFile(paths['output'] ?? '').catch(() => {
      throw new ToolError('The program ended well and made nothing.', { hint: 'That is for the operator.' })
    })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
