import type { Semaphore } from './semaphore.ts'

export interface HeldSlots {
  add(semaphore: Semaphore): void
  /** Releases the slots until the returned function is called, for example while a person answers; pauses can overlap. */
  pause(): () => void
  release(): void
}

/** @param who the owner of the slots, as given to `acquire` */
export function createHeldSlots(who?: string): HeldSlots {
  const semaphores: Semaphore[] = []
  let pauses = 0
  let over = false
  return {
    add: (semaphore) => void semaphores.push(semaphore),
    pause() {
      if (pauses++ === 0) for (const semaphore of semaphores) semaphore.release(who)
      return () => {
        if (--pauses === 0 && !over) for (const semaphore of semaphores) semaphore.reacquire(who)
      }
    },
    release() {
      over = true
      if (pauses === 0) for (const semaphore of semaphores) semaphore.release(who)
    },
  }
}
