import { parseToolCalls } from '../agent/parse.ts'
import type { Args } from './commands.ts'
import { type Io, UsageError, writeJson } from './io.ts'

/** `pegboard parse`: the tool calls in what a model wrote, from stdin; a JSON line each, then the rest of the text. */
export async function run(args: Args, io: Io): Promise<number> {
  if (io.input.isTTY)
    throw new UsageError('parse reads what a model wrote from stdin, such as pegboard parse < answer.txt')
  const parts: Buffer[] = []
  for await (const part of io.input) parts.push(Buffer.from(part))
  const parsed = parseToolCalls(Buffer.concat(parts).toString())
  if (args.values['json'] === true) writeJson(io, parsed)
  else {
    for (const call of parsed.calls) io.stdout(`${JSON.stringify(call)}\n`)
    if (parsed.text !== '') io.stdout(`${parsed.calls.length > 0 ? '\n' : ''}${parsed.text}\n`)
  }
  return 0
}
