/** Lets so many work at a time; the others wait in line. */
export interface Turns {
  /** Comes back when it is one's turn, with how to end it. Rejects with the signal's reason if that comes first. */
  take(signal: AbortSignal): Promise<() => void>
  /** One more turn with how to end it, if there is one that nobody waits for. */
  takeFree(): (() => void) | undefined
}

export function createTurns(most: number): Turns {
  let free = most
  const waiting: (() => void)[] = []
  const end = (): void => {
    const next = waiting.shift()
    if (next) next()
    else free++
  }
  return {
    takeFree() {
      if (free === 0) return undefined
      free--
      return end
    },
    async take(signal) {
      signal.throwIfAborted()
      if (free > 0) {
        free--
        return end
      }
      await new Promise<void>((resolve, reject) => {
        const go = (): void => {
          signal.removeEventListener('abort', leave)
          resolve()
        }
        const leave = (): void => {
          waiting.splice(waiting.indexOf(go), 1)
          reject(signal.reason)
        }
        waiting.push(go)
        signal.addEventListener('abort', leave, { once: true })
      })
      return end
    },
  }
}
