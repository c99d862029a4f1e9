import { resolve } from 'node:path'
import { formatCount } from '../core/format-count.ts'
import { cassettesIn } from '../record/cassette.ts'
import type { Args } from './args.ts'
import { type Io, UsageError } from './io.ts'

/** `pegboard record <folder> [tool …]`: serves, or runs one tool, and writes what servers answer. */
export async function run(args: Args, io: Io): Promise<number> {
  const [folder, ...rest] = args.positionals
  if (folder === undefined) throw new UsageError('record needs a folder for the recordings')
  const { run: runCommand } = rest.length > 0 ? await import('./call.ts') : await import('./serve.ts')
  const code = await runCommand({ values: { ...args.values, record: folder }, positionals: rest }, io)
  const cassettes = cassettesIn(resolve(io.cwd, folder))
  const calls = cassettes.reduce((sum, cassette) => sum + cassette.calls.length, 0)
  io.stderr(`pegboard: ${folder} holds ${formatCount(calls, 'call')} of ${formatCount(cassettes.length, 'server')}.\n`)
  return code
}
