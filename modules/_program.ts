import { type Processes, ToolError } from 'pegboard'

const MAX_ADVICE = 300

/**
 * Runs a program to completion; its stderr is reported if it fails.
 * @param as name in errors; paths in `folder` are removed from them
 * @param signal of the call; ends the program and everything it started
 * @param limit also ends it, as a timeout
 * @throws the signal's reason; ToolError E_TIMEOUT, E_TOOL_FAILED; PegboardError E_NOT_FOUND if there is no such
 * program
 */
export async function runProgram(
  processes: Processes,
  run: {
    readonly command: string
    readonly args: readonly string[]
    readonly folder: string
    readonly as: string
    readonly signal?: AbortSignal | undefined
    readonly limit: { readonly signal: AbortSignal; readonly seconds: number; readonly hint: string }
  },
): Promise<void> {
  const { command, args, folder, as, signal, limit } = run
  const stop = signal ? AbortSignal.any([signal, limit.signal]) : limit.signal
  stop.throwIfAborted()
  const program = await processes.start({ command, args, cwd: folder })
  const stopProgram = (): void => void program.stop()
  stop.addEventListener('abort', stopProgram, { once: true })
  if (stop.aborted) stopProgram()
  program.stdin.end()
  program.stdout.resume()
  let advice = ''
  program.stderr.on('data', (chunk: Buffer) => {
    advice = `${advice}${chunk.toString('utf8')}`.slice(-MAX_ADVICE)
  })
  const { code } = await program.ended
  stop.removeEventListener('abort', stopProgram)
  signal?.throwIfAborted()
  if (limit.signal.aborted)
    throw new ToolError(`${as} took longer than ${limit.seconds} s.`, { code: 'E_TIMEOUT', hint: limit.hint })
  if (code !== 0) throw new ToolError(`${as} failed with code ${code}: ${advice.replaceAll(folder, '…').trim()}`)
}
