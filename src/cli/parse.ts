import { parseToolCalls } from '../agent/parse-tool-calls.ts'
import type { Args } from './args.ts'
import { type Io, UsageError, writeJson } from './io.ts'

/**
 * `pegboard parse`: finds tool calls in model output on stdin. Prints a JSON line for each, then the rest of the text.
 */
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
