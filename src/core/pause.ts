/** Longest piece of work before other requests get their turn, in milliseconds. */
const SLICE_MS = 20

/** Creates a function to await in long loops. It lets other work run if `sliceMs` have passed since the last pause. */
export function createPause(sliceMs = SLICE_MS): () => Promise<void> | undefined {
  let since = performance.now()
  const pause = async (): Promise<void> => {
    await new Promise((resolve) => setImmediate(resolve))
    since = performance.now()
  }
  return () => (performance.now() - since < sliceMs ? undefined : pause())
}
