/** Where source text is wrong, 1-based; `line` 0 when unknown. */
export class SourceError extends Error {
  readonly line: number
  constructor(message: string, line: number) {
    super(message)
    this.name = 'SourceError'
    this.line = line
  }
}

/**
 * TypeScript without its types; every character keeps its line and column.
 * @throws SourceError for what is wrong, or what cannot be had by leaving types out: enum, namespace, parameter properties
 */
export async function stripTypes(source: string, file: string): Promise<string> {
  // Loaded here because it is large, and most servers have no .ts drop-in.
  const { default: amaro } = await import('amaro')
  try {
    return amaro.transformSync(source, { mode: 'strip-only', filename: file }).code
  } catch (error) {
    throw drawn(String(error))
  }
}

/** amaro throws a drawing: a sentence, then the lines around the place, `,-[2:1]` when it is not on the first one. */
function drawn(drawing: string): SourceError {
  const line = /,-\[(\d+):\d+\]/.exec(drawing)?.[1] ?? /^\s*(\d+) \|/m.exec(drawing)?.[1] ?? '0'
  const sentence = /^\s*x (.+)$/m.exec(drawing)?.[1] ?? drawing.trim()
  return new SourceError(sentence, Number(line))
}
