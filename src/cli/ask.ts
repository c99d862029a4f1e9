import { createInterface } from 'node:readline/promises'
import type { Io } from './io.ts'

/** True if a person can answer. */
export const canAsk = (io: Io): boolean => io.input.isTTY === true && io.terminal?.err === true

/** One line of the person at the terminal; undefined if nobody answers. */
export async function askLine(question: string, io: Io): Promise<string | undefined> {
  const lines = createInterface({ input: io.input, terminal: false })
  const gone = new AbortController()
  lines.once('close', () => gone.abort())
  try {
    io.stderr(question)
    return (await lines.question('', { signal: AbortSignal.any([gone.signal, io.stop]) })).trim()
  } catch {
    return undefined
  } finally {
    lines.close()
  }
}

export const askYes = async (question: string, io: Io): Promise<boolean> =>
  /^y(?:es)?$/i.test((await askLine(`${question} [y/N] `, io)) ?? '')
