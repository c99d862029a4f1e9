import type { Clock } from '../core/clock.ts'
import { getOrInsert } from '../core/get-or-insert.ts'
import type { ListedDefinition } from './assess-tools.ts'
import type { Pins } from './lock-file.ts'

interface ServerHistory {
  /** Fingerprint that each tool was last seen with while approved. */
  readonly approved: Map<string, string>
  /** When it was first seen with another one. */
  readonly changedAt: Map<string, number>
}

/** A tool that changes and changes back within this time needs a review. */
const FLAPPING_MS = 10 * 60_000

/** Notices approved tools that change and change back. */
export function createApprovalHistory(clock: Clock) {
  const histories = new Map<string, ServerHistory>()
  const historyOf = (server: string): ServerHistory =>
    getOrInsert(histories, server, () => ({ approved: new Map(), changedAt: new Map() }))

  function hasFlapped({ approved, changedAt }: ServerHistory, { name, hash }: ListedDefinition, pin: string): boolean {
    if (pin !== hash) {
      if (approved.get(name) === pin) changedAt.set(name, clock.now())
      return false
    }
    const time = changedAt.get(name)
    changedAt.delete(name)
    if (time === undefined || approved.get(name) !== hash || clock.now() - time >= FLAPPING_MS) {
      approved.set(name, hash)
      return false
    }
    approved.delete(name)
    return true
  }

  return {
    /** Records tools of a server that were approved just now. */
    add(server: string, tools: readonly ListedDefinition[]): void {
      const { approved } = historyOf(server)
      for (const { name, hash } of tools) approved.set(name, hash)
    },
    /**
     * Records the tools that a server has now. Returns the names of approved ones that changed and changed back within a
     * short time, and forgets their approval.
     */
    takeFlapped(server: string, tools: readonly ListedDefinition[], pins: Pins): string[] {
      const history = historyOf(server)
      return tools.flatMap((tool) => {
        const pin = pins.get(tool.name)
        if (pin === undefined || pin.startsWith('rejected ')) return []
        return hasFlapped(history, tool, pin) ? [tool.name] : []
      })
    },
  }
}
