import type { Log } from '../core/log.ts'
import { createPrograms, type Programs } from '../programs/programs.ts'

/** Starts programs for modules. Created for the first one, because most configurations start none. */
export interface LazyPrograms {
  get(): Programs
  /** Stops all programs. */
  stop(): Promise<void>
}

/** @param environment of this process, of which programs get a small part */
export function createLazyPrograms(environment: Readonly<Record<string, string | undefined>>, log: Log): LazyPrograms {
  let programs: Programs | undefined
  return {
    get() {
      programs ??= createPrograms({ platform: process.platform, environment, warn: (message) => log.warn(message) })
      return programs
    },
    async stop() {
      await programs?.stop()
    },
  }
}
