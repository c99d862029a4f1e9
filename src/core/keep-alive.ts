/** The longest possible timer, 25 days. */
const NEVER_MS = 0x7fff_ffff

/** Keeps the process alive during `work`. Pegboard's own timers do not, so a program that only awaits it would exit. */
export async function keepProcessAlive<T>(work: () => Promise<T>): Promise<T> {
  const timer = setInterval(() => undefined, NEVER_MS)
  try {
    return await work()
  } finally {
    clearInterval(timer)
  }
}
