/** The longest a timer takes, 25 days. */
const NEVER_MS = 0x7fff_ffff

/** Our timers do not hold the process; a program that awaits us would end in the middle of it, without a word. */
export async function awake<T>(work: () => Promise<T>): Promise<T> {
  const held = setInterval(() => undefined, NEVER_MS)
  try {
    return await work()
  } finally {
    clearInterval(held)
  }
}
