/** Longest piece of work before other requests get their turn, in milliseconds. */
const SLICE_MS = 20

/** Lets other work of the process run when the work since the last pause took too long. Call it in long loops. */
export function createPause(sliceMs = SLICE_MS): () => Promise<void> | undefined {
  let since = performance.now()
  const pause = async (): Promise<void> => {
    await new Promise((resolve) => setImmediate(resolve))
    since = performance.now()
  }
  return () => (performance.now() - since < sliceMs ? undefined : pause())
}
