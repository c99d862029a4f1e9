import type { Catalog } from '../catalog/catalog.ts'
import type { Log } from '../core/log.ts'
import { once } from '../core/once.ts'
import type { Approval } from '../openapi/api-approval.ts'
import { moduleOf } from '../openapi/apis.ts'
import { lockName } from '../openapi/openapi-options.ts'
import { fingerprint } from '../trust/fingerprint.ts'
import { reviewHint, type Trust, waitingNote } from '../trust/trust.ts'
import { type LostRules, lostRuleSentence } from '../upstream/catalog-publisher.ts'
import { otherToolsNamed, otherToolsTo } from '../upstream/other-owner-tools.ts'

/** Approves operations of APIs like tools of servers, under a name in the lock file that no server has. */
export const createApproval = (trust: Trust, catalog: Catalog, log: Log, lostRules?: LostRules): Approval => ({
  fingerprint,
  assess(id, settings, tools) {
    const server = lockName(id)
    const module = moduleOf(id)
    const byName = new Map(tools.map((tool) => [tool.name, tool]))
    const definitions = { get: (name: string) => byName.get(name)?.source }
    const otherTools = otherToolsTo(catalog, module)
    const ownTools = once(() => otherToolsNamed(module, settings, tools))
    function warnOfLostRules(gone: readonly string[]): boolean {
      const lost = lostRules?.({ module, settings }, gone, [...byName.keys()]) ?? []
      for (const rule of lost) log.warn(lostRuleSentence(rule, id, 'API'))
      return lost.length > 0
    }
    const list = { server, mode: settings.trust, tools, definitions, otherTools, ownTools, losesRule: warnOfLostRules }
    const quarantined = trust.assess(list, true)
    const hint = reviewHint(server)
    return new Map(
      [...quarantined].map(([name, { code, reason, why }]) => [
        name,
        { code, reason, hint, needsReview: why !== 'rejected' },
      ]),
    )
  },
  seal: (id, operations) => trust.seal(lockName(id), operations),
  isSealValid: (id, seal) => trust.isSealValid(lockName(id), seal),
  notice: (id, count) => waitingNote(lockName(id), count),
  onChange: trust.onChange,
})
