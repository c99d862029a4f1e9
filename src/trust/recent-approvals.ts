import type { Clock } from '../core/clock.ts'
import { looksLike } from '../core/lookalike.ts'
import { foldName } from '../core/name-folding.ts'
import type { ListedDefinition, QuarantineReason } from './assess-tools.ts'
import type { FindingCode } from './finding.ts'
import type { ApprovedTool } from './pending-mentions.ts'

/** Servers first seen within this time count as simultaneous, so neither has priority over the other. */
const TOGETHER_MS = 10 * 60_000

/** Remembers the tools that were approved automatically a moment ago. */
export function createRecentApprovals(clock: Clock) {
  /** Fingerprints by tool, and the time of the last approval, by server. */
  const approvals = new Map<string, { readonly at: number; readonly hashes: Map<string, string> }>()
  return {
    add(server: string, tools: readonly ListedDefinition[]): void {
      const hashes = approvals.get(server)?.hashes ?? new Map<string, string>()
      for (const { name, hash } of tools) hashes.set(name, hash)
      approvals.set(server, { at: clock.now(), hashes })
    },
    remove: (server: string, name: string): void => void approvals.get(server)?.hashes.delete(name),
    /**
     * Recently approved tools of other servers that look like a tool quarantined for looking alike, or that copy one with
     * another address. A person must decide which is genuine.
     */
    findLookalikes(server: string, quarantined: ReadonlyMap<string, QuarantineReason>): ApprovedTool[] {
      const lookalikes = namesWith(quarantined, 'look-alike-name')
      const cloned = new Set(namesWith(quarantined, 'cloned-tool').map(foldName))
      if (lookalikes.length + cloned.size === 0) return []
      const isLike = (name: string): boolean =>
        cloned.has(foldName(name)) || lookalikes.some((lookalike) => looksLike(lookalike, name))
      return [...approvals]
        .filter(([other, { at }]) => other !== server && clock.now() - at <= TOGETHER_MS)
        .flatMap(([other, { hashes }]) => [...hashes].map(([name, hash]) => ({ server: other, name, hash })))
        .filter(({ name }) => isLike(name))
    },
  }
}

const namesWith = (quarantined: ReadonlyMap<string, QuarantineReason>, expected: FindingCode): string[] =>
  [...quarantined].flatMap(([name, { findings }]) => (findings.some(({ code }) => code === expected) ? [name] : []))
