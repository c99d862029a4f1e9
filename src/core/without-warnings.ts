/** Runs `work` without Node's warnings about experimental features. */
export function withoutWarnings<T>(work: () => T): T {
  const { emitWarning } = process
  process.emitWarning = () => undefined
  try {
    return work()
  } finally {
    process.emitWarning = emitWarning
  }
}
