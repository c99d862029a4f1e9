import type { Semaphore } from './semaphore.ts'

/** The slots that one call has in several semaphores. @param who owner of the slots, as given to `acquire` */
export function createHeldSlots(who?: string) {
  const semaphores: Semaphore[] = []
  let pauses = 0
  let over = false
  return {
    add: (semaphore: Semaphore): void => void semaphores.push(semaphore),
    /** Releases the slots until the returned function is called, for example while a person answers; pauses can overlap. */
    pause(): () => void {
      if (pauses++ === 0) for (const semaphore of semaphores) semaphore.release(who)
      return () => {
        if (--pauses === 0 && !over) for (const semaphore of semaphores) semaphore.reacquire(who)
      }
    },
    release(): void {
      over = true
      if (pauses === 0) for (const semaphore of semaphores) semaphore.release(who)
    },
  }
}
