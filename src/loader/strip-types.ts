import * as nodeModule from 'node:module'
import { withoutWarnings } from '../core/without-warnings.ts'

/** Location of a syntax error, counted from 1; `line` is 0 if unknown. */
export class SourceError extends Error {
  readonly line: number
  constructor(message: string, line: number) {
    super(message)
    this.name = 'SourceError'
    this.line = line
  }
}

type TypeStripper = (source: string) => string

/**
 * Removes types from TypeScript. Every character keeps its line and column.
 * @throws SourceError for syntax errors, and for syntax that removing types cannot translate: enum, namespace,
 * parameter properties
 */
export async function stripTypes(source: string): Promise<string> {
  const strip = builtInStrip() ?? (await bundledStrip())
  try {
    return strip(source)
  } catch (error) {
    throw createSourceError(error)
  }
}

/** Node's own function, in 22.13 and later unless Node was built without it. */
function builtInStrip(): TypeStripper | undefined {
  const { stripTypeScriptTypes } = nodeModule as { stripTypeScriptTypes?: TypeStripper }
  const { node_use_amaro: includesAmaro } = process.config.variables as { node_use_amaro?: boolean }
  if (!stripTypeScriptTypes || !includesAmaro) return undefined
  // Node 22 and 24 print an experimental warning.
  return (source) => withoutWarnings(() => stripTypeScriptTypes(source))
}

/** The package that Node's function is made of. It is large, so it is loaded only when a `.ts` file is. */
async function bundledStrip(): Promise<TypeStripper> {
  const { default: amaro } = await import('amaro')
  return (source) => amaro.transformSync(source, { mode: 'strip-only' }).code
}

/**
 * amaro and Node 22.13 throw a sentence, then a drawing of the lines around it: `,-[2:1]`, or nothing for the first line.
 * Later versions of Node throw the sentence and put `FILE:LINE` before the stack.
 */
function createSourceError(error: unknown): SourceError {
  const { message, stack = '' } = error instanceof Error ? error : { message: String(error) }
  const line =
    /,-\[(\d+):\d+\]/.exec(message)?.[1] ?? /^\s*(\d+) \|/m.exec(message)?.[1] ?? /^\S*:(\d+)\n/.exec(stack)?.[1]
  const sentence = /^\s*x (.+)$/m.exec(message)?.[1] ?? message.trim()
  return new SourceError(sentence, Number(line ?? 0))
}
