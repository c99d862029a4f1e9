import type { Catalog } from './catalog/catalog.ts'
import { once } from './core/once.ts'
import { moduleOf } from './openapi/apis.ts'
import type { Approval } from './openapi/approval.ts'
import { lockedAs } from './openapi/locked.ts'
import { fingerprint } from './trust/fingerprint.ts'
import { reviewHint, type Trust, waitingNote } from './trust/trust.ts'
import { strangersNamed, strangersTo } from './upstream/strangers.ts'

/** Operations of APIs are let in as tools of servers are: by the same checks, modes and lock file, under a name no server has. */
export const createApproval = (trust: Trust, catalog: Catalog): Approval => ({
  fingerprint,
  look(id, settings, tools) {
    const server = lockedAs(id)
    const module = moduleOf(id)
    const byName = new Map(tools.map((tool) => [tool.name, tool]))
    const definitions = { get: (name: string) => byName.get(name)?.source }
    const strangers = strangersTo(catalog, module)
    const own = once(() => strangersNamed(module, settings, tools))
    const held = trust.look({ server, mode: settings.trust, tools, definitions, strangers, own }, true)
    const hint = reviewHint(server)
    return new Map(
      [...held].map(([name, { code, reason, why }]) => [name, { code, reason, hint, waits: why !== 'rejected' }]),
    )
  },
  seal: (id, operations) => trust.seal(lockedAs(id), operations),
  holds: (id, seal) => trust.holds(lockedAs(id), seal),
  notice: (id, count) => waitingNote(lockedAs(id), count),
  onChange: trust.onChange,
})
